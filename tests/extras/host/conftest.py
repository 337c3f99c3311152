"""Fixtures of the queue and of the app over it."""

from tests.http.conftest import client, serve
from tests.jobs.conftest import clock, settings, store, supervise

__all__ = ["client", "clock", "serve", "settings", "store", "supervise"]
