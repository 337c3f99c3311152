"""What can be quantized on this host: embedded models, local checkpoints, names on the Hub.

Resolving a name never loads weights and never runs code of a checkpoint. No torch.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sarqc.errors import NotFound, Refused, SarqcError, Unreachable
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.settings import Settings

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$")
HUB_FILES = ["*.json", "*.safetensors", "tokenizer.model"]  # never pickles, never code


class ModelEntry(BaseModel):
    """A model as offered by the form; ``suggested`` is a recipe to begin with."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    description: str
    family: str = ""
    parameters: int = 0
    where: str  # "embedded", "local", "hub"
    suggested: dict[str, Any] = Field(default_factory=dict)


class EmbeddedCorpus(BaseModel):
    """A text file that ships with an embedded model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    file: str
    title: str
    role: str  # "calibration", "held_out", "test"


class EmbeddedModel(BaseModel):
    """``sarqc.json`` beside an embedded model's weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    description: str
    suggested: dict[str, Any]
    corpora: tuple[EmbeddedCorpus, ...]
    tasks: dict[str, dict[str, str]]  # name -> {"file", "title"}


# Offered in the form; any other Hub name of a known family can be typed.
_HUB_OFFERS = (
    ("meta-llama/Llama-2-7b-hf", "LLaMA-2 7B"),
    ("meta-llama/Llama-3.1-8B", "LLaMA-3.1 8B"),
    ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "TinyLlama 1.1B"),
    ("mistralai/Mistral-7B-v0.1", "Mistral 7B"),
    ("Qwen/Qwen2.5-0.5B", "Qwen2.5 0.5B"),
    ("Qwen/Qwen3-0.6B-Base", "Qwen3 0.6B"),
)
_HUB_SUGGESTED = {"bits": 3, "calibration": "wikitext2", "samples": 128, "length": 2048, "test": "wikitext2-test"}


def embedded_models(settings: Settings) -> dict[str, tuple[Path, EmbeddedModel]]:
    """Folder and description of each embedded model, by name."""
    found = {}
    for path in sorted((settings.assets_dir / "models").glob("*/sarqc.json")):
        found[path.parent.name] = (path.parent, EmbeddedModel.model_validate_json(path.read_text(encoding="utf-8")))
    return found


def offered(settings: Settings) -> list[ModelEntry]:
    """The models of the form: embedded models first, then readable local checkpoints, then Hub names."""
    entries = []
    for name, (folder, model) in embedded_models(settings).items():
        entries.append(
            _entry(name, model.title, model.description, read_checkpoint(folder), "embedded", model.suggested)
        )
    for root in filter(None, settings.model_dirs.split(":")):
        for folder in sorted(Path(root).expanduser().glob("*/config.json")):
            try:
                checkpoint = read_checkpoint(folder.parent)
            except SarqcError:
                continue  # not a model for us; naming it in a recipe says why
            suggested = {"length": min(256, checkpoint.max_positions)}
            name, title = str(folder.parent), folder.parent.name
            entries.append(_entry(name, title, "Local checkpoint.", checkpoint, "local", suggested))
    for name, title in _HUB_OFFERS:
        entries.append(
            ModelEntry(
                name=name, title=title, description="From the Hugging Face Hub.", where="hub",
                suggested={"model": name} | _HUB_SUGGESTED,
            )
        )  # fmt: skip
    return entries


def _entry(
    name: str, title: str, description: str, checkpoint: Checkpoint, where: str, suggested: dict[str, Any]
) -> ModelEntry:
    return ModelEntry(
        name=name,
        title=title,
        description=description,
        family=checkpoint.family.title,
        parameters=checkpoint.parameters,
        where=where,
        suggested={"model": name} | suggested,
    )


def local_folder(model: str, settings: Settings) -> Path | None:
    """The folder of an embedded or local model, None for a Hub name. Raises ``Refused`` for anything else."""
    embedded = embedded_models(settings)
    if model in embedded:
        return embedded[model][0]
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder.resolve()
    if _HUB_ID.match(model) and ".." not in model:
        return None
    raise NotFound(
        f"there is no model “{model}”",
        "model",
        f"Give one of {', '.join(embedded)}, the folder of a checkpoint, or a Hub name like owner/name.",
    )


def fetch(model: str, revision: str | None, settings: Settings, *, download: bool) -> Path:
    """The folder of a model's checkpoint, taken from the Hub when it is neither embedded nor local.

    With ``download=False`` nothing but a cached copy is looked at, and one cheap question tells whether the Hub has
    the model. Raises ``NotFound`` or, within ``settings.hub_timeout`` seconds, ``Unreachable``.
    """
    folder = local_folder(model, settings)
    if folder is not None:
        return folder
    # The Hub's client reads its own variables when it is imported; ours must be there first.
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", str(int(settings.hub_timeout)))
    os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", str(int(settings.hub_timeout)))
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=HUB_FILES, local_files_only=True))
    except (LocalEntryNotFoundError, FileNotFoundError):
        pass
    ask_hub(model, revision, settings)
    if not download:
        raise NotCached(model)
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=HUB_FILES))
    except GatedRepoError:
        raise Refused("the Hub does not give this model to us", model, "Accept its licence and set HF_TOKEN.") from None
    except RepositoryNotFoundError:
        raise NotFound(f"the Hub has no model “{model}”", "model", "Check its spelling.") from None
    except (HfHubHTTPError, OSError) as error:
        raise Unreachable(f"the download broke off: {type(error).__name__}", model, "Try again.") from None


class NotCached(Exception):
    """A Hub model that exists but is not on this host yet."""


def ask_hub(model: str, revision: str | None, settings: Settings) -> None:
    """Returns if the Hub has the model; raises ``NotFound`` or ``Unreachable`` in time."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError

    def question() -> None:
        try:
            HfApi().model_info(model, revision=revision, timeout=settings.hub_timeout)
        except Exception as error:  # whatever a transport may raise means the same to who asked
            answer.append(error)
        else:
            answer.append(None)

    # A daemon thread, because a resolver that hangs obeys no time-out and must not keep the process alive.
    answer: list[Exception | None] = []
    asking = threading.Thread(target=question, daemon=True)
    asking.start()
    asking.join(settings.hub_timeout)
    error = answer[0] if answer else TimeoutError()
    remedy = "Check the connection, or give an embedded model or the folder of a local checkpoint."
    if isinstance(error, RepositoryNotFoundError | RevisionNotFoundError):
        raise NotFound(f"the Hub has no model “{model}” of that revision", "model", "Check its spelling.")
    if isinstance(error, OfflineModeIsEnabled):
        raise Unreachable("the Hub is switched off (HF_HUB_OFFLINE) and the model is not on this host", model, remedy)
    if error is not None:
        raise Unreachable(f"the Hugging Face Hub can't be reached ({type(error).__name__})", model, remedy)


def checkpoint_of(model: str, revision: str | None, settings: Settings, *, download: bool = False) -> Checkpoint | None:
    """A model's checkpoint without its weights; None for a Hub model not on this host that may not be fetched."""
    try:
        return read_checkpoint(fetch(model, revision, settings, download=download))
    except NotCached:
        return None
