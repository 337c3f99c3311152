"""Reports of runs to trackers of experiments: MLflow and trackio, each an extra of its own for pip."""

from sarqc.extras import Extra

EXTRA = Extra("trackers")
