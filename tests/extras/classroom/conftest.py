"""Fixtures of the REST interface."""

from tests.http.conftest import client, serve, settings, store

__all__ = ["client", "serve", "settings", "store"]
