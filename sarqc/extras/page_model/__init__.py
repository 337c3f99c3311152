"""Codes of a study's further points, with which pages run its model: a run itself keeps those of its own point."""

from sarqc.extras import Extra, lazily

EXTRA = Extra("page_model", commands=lazily("sarqc.extras.page_model.command:add_command"))
