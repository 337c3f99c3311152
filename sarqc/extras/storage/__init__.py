"""Object storage in the place of a folder, for what hosts can share."""

from sarqc.extras import Extra

EXTRA = Extra("storage", requires=("s3fs",))
