"""Differences between two configurations that change a model's results; no torch, except in a separate process.

A field that is left out has the default of its class, and older spellings are those of today.
"""

import inspect
import json
import sys
from collections.abc import Iterator
from typing import Any

from sarqc.errors import Refused
from sarqc.files.limited import GIB, answer_of
from sarqc.files.names import shortened
from sarqc.files.once import once

_SECONDS, _MEMORY = 120, 4 * GIB
# Fields without effect on the logits: names, dtypes, other contents of a file, and fields for training. Tied heads are
# compared by their values.
_WITHOUT_EFFECT = {
    "transformers_version",
    "architectures",
    "auto_map",
    "dtype",
    "torch_dtype",
    "use_cache",
    "quantization_config",
    "quantization",
    "tie_word_embeddings",
    "id2label",
    "label2id",
    "problem_type",
    "return_dict",
    "pretraining_tp",
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "output_hidden_states",
    "output_attentions",
    "output_router_logits",
}
_WORDS_WITHOUT_EFFECT = ("token_id", "dropout", "initializer", "init_std", "_loss", "jitter")
_SHORT = {"default", "linear", "llama3"}  # rotations that do not depend on the largest position
_OF_WINDOWS = {"use_sliding_window", "max_window_layers"}  # which layer_types states block by block


def other_fields(config: dict[str, Any], original: dict[str, Any], where: str) -> list[str]:
    """Return the fields of a config.json that make another model than the original's, each with both values.

    Raises:
        Refused: If transformers can't read one of them.
    """
    both = [_explicit_fields(document) for document in (config, original)]
    if both[0] == both[1]:  # as nearly always: no process is needed
        return []
    try:
        return _differences(json.dumps(both, sort_keys=True))
    except Refused as error:
        what = f"its config.json can't be compared with the original's: {error.what[:200]}"
        raise Refused(what, where, "Repair it, or download it again.") from None


def _explicit_fields(config: dict[str, Any]) -> dict[str, Any]:
    """Return the stated fields of a configuration, with all spellings of rotation in one place."""
    stated = {name: value for name, value in config.items() if value is not None and _has_effect(name)}
    if stated.get("num_experts") == stated.get("num_local_experts"):
        stated.pop("num_experts", None)  # MLX's name beside that of transformers
    scaling, parameters, theta = (stated.pop(f"rope_{part}", None) for part in ("scaling", "parameters", "theta"))
    rope = scaling or parameters or {}
    if isinstance(rope, dict) and (rope or theta is not None):
        rope = ({} if theta is None else {"rope_theta": theta}) | rope
        if not any(isinstance(value, dict) for value in rope.values()):  # one rotation for all layers
            rope = {"rope_type": rope.pop("type", "default")} | rope
    return stated | ({"rope_parameters": rope} if rope else {})


@once(64)
def _differences(both: str) -> list[str]:
    answer = answer_of("sarqc.models.effective:differences", both.encode(), cpu_seconds=_SECONDS, memory=_MEMORY)
    differences: list[str] = json.loads(answer)
    return differences


def differences(request: bytes) -> bytes:
    """Answer two configurations as JSON with their ``other_fields``."""
    own, original = (dict(_effective_fields(document)) for document in json.loads(request))
    names = [name for name in {**original, **own} if own.get(name) != original.get(name)]
    if {value for fields in (own, original) for name, value in fields.items() if name.endswith("rope_type")} <= _SHORT:
        names = [name for name in names if name != "max_position_embeddings"]
    return json.dumps([f"{name} is {_words(own, name)}, not {_words(original, name)}" for name in names]).encode()


def _words(fields: dict[str, Any], name: str) -> str:
    return shortened(json.dumps(fields[name])) if name in fields else "left out"


def _effective_fields(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield fields by name, those of nested ones behind full stops, with the defaults of the model's class."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    try:
        described = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    except Exception as error:  # architectures raise errors of any kind
        raise Refused(f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}", "", "") from error
    document = described.to_dict()
    known = type(described)().to_dict()
    # The model's code may read a field that the class does not have.
    code = inspect.getsource(sys.modules[AutoModelForCausalLM._model_mapping[type(described)].__module__])
    document = {name: value for name, value in document.items() if name in known or name in code}
    heads, kinds = document.get("num_attention_heads"), document.get("layer_types")
    if document.get("head_dim") is None and isinstance(heads, int) and isinstance(document.get("hidden_size"), int):
        document["head_dim"] = document["hidden_size"] // heads
    if kinds:
        windows = _OF_WINDOWS | (set() if any("sliding" in kind for kind in kinds) else {"sliding_window"})
        document = {name: value for name, value in document.items() if name not in windows}
    yield from _flat("", document)


def _flat(prefix: str, document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in document.items():
        if isinstance(value, dict) and _has_effect(name):
            yield from _flat(f"{prefix}{name}.", value)
        elif value is not None and _has_effect(name) and f"{prefix}{name}" != "rope_parameters.type":
            yield f"{prefix}{name}", value


def _has_effect(name: str) -> bool:
    is_inner = name.startswith("_") or name in _WITHOUT_EFFECT
    return not is_inner and not any(word in name for word in _WORDS_WITHOUT_EFFECT)
