"""The fixtures of ``helpers`` for the tests in this folder."""

from tests.jobs.helpers import settings, store, supervise

__all__ = ["settings", "store", "supervise"]
