"""Surveys: studies over method × bits × λ × γ × draws, and studies of several runs."""

from sarqc.extras import Extra, lazily

EXTRA = Extra("survey", commands=lazily("sarqc.extras.survey.commands:add_commands"))
