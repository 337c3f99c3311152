"""Fixtures of the queue."""

from tests.jobs.conftest import settings

__all__ = ["settings"]
