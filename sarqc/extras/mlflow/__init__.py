"""Reports of runs to MLflow."""

from sarqc.extras import Extra, lazily

EXTRA = Extra("mlflow", requires=("mlflow",), report=lazily("sarqc.extras.mlflow.reporting:report"))
