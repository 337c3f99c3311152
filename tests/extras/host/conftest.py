"""Fixtures of the queue and of the app over it."""

from tests.http.conftest import client, serve
from tests.jobs.conftest import settings, store, supervise

__all__ = ["client", "serve", "settings", "store", "supervise"]
