"""Recipes run by other engines: a recipe as a program for an engine, which this host knows by name alone."""

from sarqc.extras import Extra, lazily

EXTRA = Extra(
    "engines",
    install=lazily("sarqc.extras.engines.programs:install"),
    program=lazily("sarqc.extras.engines.programs:program_for"),
)
