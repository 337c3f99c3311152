"""Models that can be quantized on this host: embedded models, local checkpoints, names on the Hub.

Resolving a name never loads weights and never runs code of a checkpoint. No torch.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from sarqc.errors import NotFound, SarqcError
from sarqc.files.names import inside, path_of, read_object, shortened
from sarqc.models import hub
from sarqc.models.architecture import Frozen
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.models.derived import is_described
from sarqc.models.families import fitting_group_sizes, is_written
from sarqc.models.gguf_header import gguf_file, is_gguf
from sarqc.models.gguf_model import GgufModel, gguf_model
from sarqc.models.hub import NotCached
from sarqc.models.tokenizing import check_tokenizer
from sarqc.plain import gib
from sarqc.settings import Settings

_DEFAULT_GROUP_SIZE = 128  # of a recipe
_EXPORTED = re.compile(r"[0-9A-Z]{26}/[A-Za-z0-9_][\w.-]*", re.ASCII)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


class ModelEntry(Frozen):
    """A model as offered by the form; ``suggested`` is a recipe to begin with."""

    name: str
    title: str
    description: str
    family: str = ""
    parameters: int = 0
    where: str  # "embedded", "local", "hub"
    suggested: dict[str, Any] = Field(default_factory=dict)
    opened: tuple[str, ...] = ()  # quantized checkpoints of it on this host, by their names in recipes


class EmbeddedCorpus(Frozen):
    """A text file that ships with an embedded model."""

    name: str
    file: str
    title: str
    role: str  # "calibration", "held_out", "test"


class EmbeddedModel(Frozen):
    """Content of ``sarqc.json`` beside an embedded model's weights."""

    title: str
    description: str
    suggested: dict[str, Any]
    corpora: tuple[EmbeddedCorpus, ...] = ()
    tasks: dict[str, dict[str, str]] = Field(default_factory=dict)  # name -> {"file", "title"}


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
    """Return folder and description of each embedded model, by name.

    Models of the app come first, then pretrained ones that were brought to this host.
    """
    return {
        path.parent.name: (path.parent, EmbeddedModel.model_validate_json(path.read_text(encoding="utf-8")))
        for root in (settings.embedded_models_dir(), settings.pretrained_dir)
        for path in sorted(root.glob("*/sarqc.json"))
    }


def offered(settings: Settings) -> list[ModelEntry]:
    """Return the models of the form: embedded models first, then readable local checkpoints, then Hub names."""
    entries = []
    quantized = quantized_folders(settings)
    for name, (folder, model) in embedded_models(settings).items():
        entry = ModelEntry(
            name=name,
            title=model.title,
            description=model.description,
            where="embedded",
            suggested={"model": name} | model.suggested,
        )
        entries.append(_described(entry, read_checkpoint(folder, name), quantized))
    for name, folder in declared_models(settings).items():
        try:
            file = gguf_file(folder)
            if file is None and _is_unknown(folder, name):
                entries.append(
                    ModelEntry(
                        name=name,
                        title=name,
                        where="local",
                        suggested={"model": name, "indivisible": "per_channel"},
                        description="Local checkpoint. Its decoder is derived when first planned, within a minute.",
                    )
                )
                continue
            checkpoint = gguf_model(file, name).checkpoint(folder) if file else read_checkpoint(folder, name)
        except (SarqcError, OSError):  # an OSError: a folder that is being written or taken away
            continue  # not a usable model; naming it in a recipe says why
        # No text: only its owner knows its use.
        suggested = {"model": name, "length": min(256, checkpoint.max_positions)} | _fitting_groups(checkpoint)
        what = "Local GGUF file." if file else "Local checkpoint."
        entry = ModelEntry(name=name, title=name, description=what, where="local", suggested=suggested)
        entries.append(_described(entry, checkpoint, quantized))
    titles, fetched = dict(_HUB_OFFERS), settings.fetched_models()
    return entries + [
        ModelEntry(
            name=name,
            title=titles.get(name, name),
            description="From the Hugging Face Hub.",
            where="hub",
            suggested={"model": name} | _HUB_SUGGESTED,
        )
        for name in (titles if fetched is None else fetched)
    ]


def _is_unknown(folder: Path, name: str) -> bool:
    """Return True for a checkpoint without a written family whose description is not stored yet."""
    config = read_object(folder / "config.json", name, remedy="Write it again.")
    is_plain = all(config.get(name) is None for name in ("quantization_config", "quantization", "auto_map"))
    model_type = config.get("model_type")
    return is_plain and isinstance(model_type, str) and not is_written(model_type) and not is_described(config)


def _fitting_groups(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the largest usual group size up to the default, where it is not the default, that divides every linear."""
    size = next((size for size in fitting_group_sizes(checkpoint.layers) if size <= _DEFAULT_GROUP_SIZE), None)
    if size is None:
        return {"indivisible": "per_channel"}
    return {} if size == _DEFAULT_GROUP_SIZE else {"group_size": size}


def declared_models(settings: Settings) -> dict[str, Path]:
    """Return the models in the operator's declared folders (SARQC_MODEL_DIRS), by their names in recipes.

    These are folders of checkpoints, and GGUF files.
    """
    return declared_folders(settings) | _declared_gguf(settings)


def declared_folders(settings: Settings) -> dict[str, Path]:
    """Return the folders with a config.json in the operator's declared folders, by their names."""
    folders: dict[str, Path] = {}
    for root in _declared_roots(settings):
        for config in sorted(root.glob("*/config.json")):
            if folder := inside(root, config.parent):
                folders.setdefault(config.parent.name, folder)
    return folders


def _declared_gguf(settings: Settings) -> dict[str, Path]:
    """Return GGUF files in the operator's declared folders, and one folder below, by their names.

    A folder with a single model gives it its name.
    """
    by_name: dict[str, Path] = {}
    for root in _declared_roots(settings):
        files = [*root.glob("*.gguf"), *root.glob("*/*.gguf")]
        models = [
            path
            for path in sorted(files)
            if inside(root, path) and is_gguf(path) and not (path.parent / "config.json").exists()
        ]
        alone = Counter(path.parent for path in models)
        for path in models:
            is_alone = path.parent != root and alone[path.parent] == 1
            by_name.setdefault(path.parent.name if is_alone else path.name, path)
    return by_name


def _declared_roots(settings: Settings) -> Iterator[Path]:
    yield from filter(None, map(path_of, filter(None, settings.model_dirs.split(":"))))


def quantized_folders(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the ``config.json`` of declared folders whose configuration mentions quantization, by name."""
    configs = {}
    for name, folder in declared_folders(settings).items():
        try:
            config = read_object(folder / "config.json", name, remedy="Write it again.")
        except (SarqcError, OSError):
            continue  # not a model; naming it in a recipe says why
        if (
            isinstance(config.get("quantization_config") or config.get("quantization"), dict)
            or (folder / "quantize_config.json").is_file()
        ):
            configs[name] = config
    return configs


_SHAPE = ("model_type", "hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size")  # fixed in a model


def _described(entry: ModelEntry, checkpoint: Checkpoint, quantized: dict[str, dict[str, Any]]) -> ModelEntry:
    """Return an entry with the facts of its checkpoint."""
    shape = [checkpoint.config.get(field) for field in _SHAPE]
    opened = tuple(name for name, config in quantized.items() if [config.get(field) for field in _SHAPE] == shape)
    facts = {"family": checkpoint.family.title, "parameters": checkpoint.parameters, "opened": opened}
    return entry.model_copy(update=facts)


def local_folder(model: str, settings: Settings) -> Path | None:
    """Return the folder of an embedded or local model, or its GGUF file; None for a Hub name.

    Raises:
        NotFound: For anything else.
    """
    embedded = embedded_models(settings)
    if model in embedded:
        return embedded[model][0]
    declared = declared_models(settings)
    if model in declared:
        return declared[model]
    path = path_of(model)
    if path is not None and path.is_dir():
        return path
    if path is not None and is_gguf(path):
        return Path(model).expanduser().absolute()  # a link by its own name
    if is_hub_name(model):
        return None
    raise NotFound(
        f"no model “{shortened(model)}”",
        "model",
        f"Give one of {', '.join(embedded)}, the folder of a checkpoint, a GGUF file, or a Hub name like owner/name.",
    )


def exported_folder(name: str, settings: Settings) -> Path | None:
    """Return the folder of a checkpoint that was exported here, by its name: that of its export and its own."""
    folder = settings.exports_dir() / name
    return folder if _EXPORTED.fullmatch(name) and folder.is_dir() else None


def is_hub_name(model: str) -> bool:
    """Return True for a name of the Hub with its owner; old names without an owner do not count."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils._validators import validate_repo_id

    try:
        validate_repo_id(model)
    except HFValidationError:
        return False
    return _HUB_ID.fullmatch(model) is not None


def fetch(model: str, revision: str | None, settings: Settings, *, download: bool) -> Path:
    """Return the folder of a model's checkpoint.

    It is taken from the Hub if it is neither embedded nor local, and unpacked if it is a GGUF file.

    Args:
        model: Name of a model, or path of a folder or file.
        revision: Commit, tag or branch of a Hub model.
        settings: Settings of the host.
        download: Download and unpack. Without it only ready models are used, and a few cheap questions decide whether
            the Hub has the model and whether it can be used.

    Raises:
        NotCached: If the model can be used but is not ready on this host, without ``download``.
        SarqcError: As by ``sarqc.models.hub``.
    """
    local = local_folder(model, settings)
    if local is not None and (file := gguf_file(local)):
        return _unpacked(gguf_model(file, model), settings, unpack=download)
    folder = local or hub.cached(model, revision, settings)
    if folder is not None:
        return folder
    config = hub.check_usable(model, revision, settings)
    if not download:
        raise NotCached(model, config)
    return hub.download(model, revision)


def _unpacked(model: GgufModel, settings: Settings, *, unpack: bool) -> Path:
    """Return the folder of a model unpacked from a GGUF file; ``NotCached`` if it is not unpacked and may not be."""
    folder = settings.unpacked_dir() / model.folder_name
    if folder.is_dir():
        return folder
    if not unpack:
        size = model.unpacked_bytes
        note = f"{model.name} is a GGUF file: its weights are unpacked first, {gib(size)} on the disk"
        raise NotCached(model.name, model.config, stage="unpacking", note=note, origin=model.origin, size=size)
    from sarqc.models import gguf_unpacking  # which needs torch

    gguf_unpacking.unpack(model, folder)
    return folder


def checkpoint_of(model: str, revision: str | None, settings: Settings, *, download: bool = False) -> Checkpoint:
    """Return a model's checkpoint without its weights; the arguments are those of ``fetch``.

    Raises:
        NotCached: If the model is not ready on this host, without ``download``.
    """
    folder = fetch(model, revision, settings, download=download)
    checkpoint = read_checkpoint(folder, model)
    check_tokenizer(folder, model)
    return checkpoint
