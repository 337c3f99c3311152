"""Runs on a Ray cluster: those of the app's queue, and those of a command with ``--on ray``."""

from sarqc.extras import Extra

EXTRA = Extra("cluster", requires=("ray",))
