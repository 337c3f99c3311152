"""Verification of a study or an exported model by its stamp."""

from sarqc.extras import Extra, lazily

EXTRA = Extra("verify", commands=lazily("sarqc.extras.verify.command:add_command"))
