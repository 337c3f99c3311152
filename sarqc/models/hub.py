"""Questions to the Hugging Face Hub: each with a time limit, and none asked twice at once.

A resolver that hangs obeys no time-out, so the caller does not wait for the resolver.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, Literal, TypeVar

from sarqc.errors import NotFound, Refused, SarqcError, Unreachable
from sarqc.models.origin import Origin
from sarqc.settings import Settings

T = TypeVar("T")
_lock = threading.Lock()
_under_way: dict[Hashable, Future[Any]] = {}


class NotCached(Exception):
    """A model or a text that exists but is not ready on this host; its message is the name.

    Attributes:
        config: The config.json of a model.
        stage: The stage that makes it ready.
        note: The same as a sentence.
        origin: The files that its weights are unpacked from.
        size: Bytes of the unpacked weights.
    """

    def __init__(
        self,
        name: str,
        config: dict[str, Any] | None = None,
        *,
        stage: Literal["downloading", "unpacking"] = "downloading",
        note: str = "",
        origin: Origin | None = None,
        size: int = 0,
    ) -> None:
        super().__init__(name)
        self.note = note or f"{name} is not on this host yet: it will be downloaded"
        self.config, self.stage, self.origin, self.size = config, stage, origin, size


def within(seconds: float, key: Hashable, work: Callable[[], T]) -> T:
    """Return the result of ``work`` within a time limit; a caller with the key of running work waits for that one.

    Args:
        seconds: Time limit.
        key: Identification of the work.
        work: Function to call; its errors are raised here.

    Raises:
        TimeoutError: If it takes longer, while it goes on.
    """
    with _lock:
        future: Future[T] | None = _under_way.get(key)
        if future is None:
            future = _under_way[key] = Future()
            # A daemon, so that work that never ends does not keep the process alive.
            threading.Thread(target=_answer, args=(key, future, work), daemon=True).start()
    return future.result(seconds)


def _answer(key: Hashable, future: Future[Any], work: Callable[[], Any]) -> None:
    settle: Callable[[Any], None] = future.set_result
    try:
        answer = work()
    except Exception as error:
        settle, answer = future.set_exception, error
    with _lock:
        _under_way.pop(key, None)
    settle(answer)


def ask(key: Hashable, question: Callable[[], T], name: str, settings: Settings, *, remedy: str) -> T:
    """Return the Hub's answer to a question about a repository.

    Args:
        key: Identification of the question, see ``within``.
        question: Function that asks the Hub.
        name: Name of the repository for people.
        settings: Settings with the time limit ``hub_timeout`` in seconds.
        remedy: Remedy in errors of the connection.

    Raises:
        NotFound: If there is no such repository or revision.
        Refused: For a licence that was not accepted.
        Unreachable: If the Hub does not answer in time, or is switched off.
    """
    configure(settings)
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return within(settings.hub_timeout, key, question)
    except SarqcError:
        raise
    except GatedRepoError:
        raise Refused("the Hub refuses access", name, "Accept its licence and set HF_TOKEN.") from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        what = f"the Hub has no “{name}” of that revision"
        raise NotFound(what, name, "Check its spelling.") from None
    except OfflineModeIsEnabled:
        raise Unreachable(
            "the Hub is switched off (HF_HUB_OFFLINE), and this is not on this host", name, remedy
        ) from None
    except Exception as error:  # whatever a transport may raise means the same to who asked
        raise Unreachable(unreachable(error), name, remedy) from None


def unreachable(error: Exception) -> str:
    """Return in words that the Hub did not answer."""
    return f"the Hugging Face Hub can't be reached ({type(error).__name__})"


def configure(settings: Settings) -> None:
    """Set the time-outs of the Hub's client, which reads them on import: call this before."""
    for name in ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"):
        os.environ.setdefault(name, str(max(1, int(settings.hub_timeout))))
