"""Models and requests to the Hugging Face Hub: each with a time limit, and none sent twice at once.

A model is checked by its configuration and its size, and then downloaded.

A resolver that hangs obeys no time-out, so the caller does not wait for the resolver.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from sarqc.errors import NoRoom, NotFound, Refused, SarqcError, TooLarge, Unreachable
from sarqc.files.names import MOST_JSON, read_object
from sarqc.files.room import free_bytes
from sarqc.models.checkpoint import check_config
from sarqc.models.origin import Origin
from sarqc.models.tensor_files import weight_files
from sarqc.models.tokenizing import TEXT_FILES, TOKENIZERS
from sarqc.plain import gib
from sarqc.settings import Settings

HUB_FILES = ["*.json", "*.safetensors", *TEXT_FILES]  # never pickles, never code
_REMEDY = "Check the connection, or give an embedded model or the folder of a local checkpoint."
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
        name: Name of the repository for users.
        settings: Settings with the time limit ``hub_timeout`` in seconds.
        remedy: Remedy in errors of the connection.

    Raises:
        NotFound: If there is no such repository or revision.
        Refused: For a licence that was not accepted.
        Unreachable: If the Hub does not answer in time, or is switched off.
    """
    configure(settings)
    with _refusing(name, remedy):
        return within(settings.hub_timeout, key, question)


@contextmanager
def _refusing(name: str, remedy: str) -> Iterator[None]:
    """Raise the errors of the Hub's client as those of ``ask`` within this context."""
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except SarqcError:
        raise
    except GatedRepoError:
        raise Refused("the Hub refuses access", name, "Accept its licence and set HF_TOKEN.") from None
    except (RepositoryNotFoundError, RevisionNotFoundError):
        raise NotFound(f"the Hub has no “{name}” of that revision", name, "Check its spelling.") from None
    except OfflineModeIsEnabled:
        raise Unreachable(
            "the Hub is switched off (HF_HUB_OFFLINE), and this is not on this host", name, remedy
        ) from None
    except Exception as error:  # all errors of a transport mean the same to the caller
        raise Unreachable(unreachable(error), name, remedy) from None


def unreachable(error: Exception) -> str:
    """Return a message that the Hub did not answer."""
    return f"the Hugging Face Hub can't be reached ({type(error).__name__})"


def configure(settings: Settings) -> None:
    """Set the time-outs of the Hub's client, which reads them on import: call this before."""
    for name in ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT"):
        os.environ.setdefault(name, str(max(1, int(settings.hub_timeout))))


def cached(model: str, revision: str | None, settings: Settings) -> Path | None:
    """Return the folder of a model that was downloaded before; None without one, or after a download that broke off."""
    configure(settings)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, revision=revision, allow_patterns=HUB_FILES, local_files_only=True))
        weight_files(folder, model)
    except (LocalEntryNotFoundError, FileNotFoundError, Refused):
        return None
    return folder if (folder / "config.json").is_file() else None


def check_usable(model: str, revision: str | None, settings: Settings) -> dict[str, Any]:
    """Return the config.json of a model of the Hub that can be used and has room here; nothing else is fetched.

    Raises:
        Refused: For a model of another kind.
        TooLarge: If its files are larger than the host's limit.
        NoRoom: If the disk has too little room.
        SarqcError: As by ``ask``.
    """
    configure(settings)
    from huggingface_hub.constants import HF_HUB_CACHE

    key = ("model", model, revision)
    config, sizes = ask(key, lambda: _offer(model, revision, settings), model, settings, remedy=_REMEDY)
    check_config(config, model)
    if not any(name.endswith(".safetensors") for name in sizes):
        raise Refused("it has no safetensors files", model, "Give a model with them; pickles are never opened.")
    size = sum(sizes.values())
    if size > settings.download_gib * 2**30:
        raise TooLarge(
            f"its files have {gib(size)}, and at most {settings.download_gib:g} GiB are downloaded",
            model,
            "Give a smaller model, or raise SARQC_DOWNLOAD_GIB.",
        )
    free = free_bytes(Path(HF_HUB_CACHE))
    if size > free:
        raise NoRoom(
            f"its files have {gib(size)}, and {gib(free)} are free for downloads",
            model,
            "Make room, or set HF_HOME to a folder on a larger disk.",
        )
    return config


def download(model: str, revision: str | None) -> Path:
    """Fetch the files of a model and return its folder; a download that broke off continues.

    Raises:
        SarqcError: As by ``ask``.
    """
    from huggingface_hub import snapshot_download

    with _refusing(model, "Try again."):
        return Path(snapshot_download(model, revision=revision, allow_patterns=HUB_FILES))


def _offer(model: str, revision: str | None, settings: Settings) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the configuration of a model of the Hub, and the bytes of each file that would be fetched."""
    from huggingface_hub import HfApi, hf_hub_download
    from huggingface_hub.utils._paths import filter_repo_objects

    info = HfApi().model_info(model, revision=revision, files_metadata=True, timeout=settings.hub_timeout)
    every = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    names: Iterable[str] = filter_repo_objects(every, allow_patterns=HUB_FILES)
    sizes = {name: every[name] for name in names}
    if not 0 < sizes.get("config.json", 0) <= MOST_JSON:
        raise Refused("it has no config.json", model, "Give the name of a transformers checkpoint.")
    if not any(filter_repo_objects(sizes, allow_patterns=[*TOKENIZERS])):
        raise Refused("it has no tokenizer", model, "Give the name of a model with one.")
    # Not into the cache: a folder there with a single file would look like a download.
    with tempfile.TemporaryDirectory(prefix="sarqc-config-") as folder:
        path = hf_hub_download(model, "config.json", revision=info.sha, local_dir=folder)
        return read_object(Path(path), model, remedy="Give another model."), sizes
