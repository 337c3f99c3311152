"""Fixtures of the queue."""

from tests.jobs.conftest import settings, store, supervise

__all__ = ["settings", "store", "supervise"]
