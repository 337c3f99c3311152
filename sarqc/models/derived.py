"""Descriptions of decoders without a written family: derived in a process of their own, stored on disk; no torch."""

import hashlib
import json
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from pydantic import ValidationError

from sarqc.errors import Refused
from sarqc.files.limited import Exhausted, answer_of
from sarqc.files.names import shortened
from sarqc.files.once import once
from sarqc.files.places import Folder
from sarqc.models.decoder import Decoder
from sarqc.settings import Settings

_FORMAT = 15  # of stored descriptions; increased with every change of the derivation
_SECONDS = 120
_MEMORY = 12 << 30  # bytes of addresses: shapes alone take little, a hostile number of blocks much
_MOST_BLOCKS = 1 << 12
# The largest number in a configuration by words of its name; all others are sizes that take memory.
_MOST = {
    ("layer", "block"): _MOST_BLOCKS,
    ("expert", "label"): 1 << 16,
    ("position", "max", "length", "window"): 1 << 31,
}
_MOST_OTHER = 1 << 24
_MOST_TEXT = 1 << 18  # characters of a configuration
_OTHER = "Use another model."
_REPAIR = "Repair it, or download it again."
_WITHOUT_EFFECT = ("transformers_version", "_name_or_path", "architectures")  # fields of a configuration


def decoder_of(config: dict[str, Any], where: str) -> Decoder:
    """Return the description of the decoder of a config.json.

    Raises:
        Refused: If transformers has no such decoder, or if its blocks can't be run one by one.
    """
    _check_size(config, "", where)
    if len(asked := _relevant_fields(config)) > _MOST_TEXT:
        raise Refused(f"config.json has {len(asked):,} characters", where, _REPAIR)
    try:
        return _description(asked)
    except Refused as refusal:
        raise Refused(refusal.what, where, refusal.remedy) from None


def _check_size(value: object, name: str, where: str) -> None:
    """Refuse numbers and lists at any depth of a configuration that no model needs."""
    if isinstance(value, dict):
        for key, each in value.items():
            _check_size(each, key, where)
    elif isinstance(value, list):
        if len(value) > _MOST_BLOCKS:
            raise Refused(f"config.json: {shortened(name)} has {len(value):,} entries", where, _REPAIR)
        for each in value:
            _check_size(each, name, where)
    elif isinstance(value, int) and value > _most(name):
        raise Refused(f"config.json: {shortened(name)} is {value}", where, _REPAIR)


def _most(name: str) -> int:
    """Return the largest number of that name that is not refused."""
    return next((most for words, most in _MOST.items() if any(word in name for word in words)), _MOST_OTHER)


def is_described(config: dict[str, Any]) -> bool:
    """Return True if the description of a config.json is stored, so that ``decoder_of`` takes no time."""
    return _descriptions().touch(_name(_relevant_fields(config)))


def _relevant_fields(config: dict[str, Any]) -> str:
    """Return the fields of a configuration that determine the model, as text."""
    return json.dumps({name: value for name, value in config.items() if name not in _WITHOUT_EFFECT}, sort_keys=True)


def _descriptions() -> Folder:
    return Folder(Settings().resolved_state_dir() / "decoders")


def _name(config: str) -> str:
    key = hashlib.sha256(f"{_FORMAT} {version('transformers')} {config}".encode()).hexdigest()[:32]
    return f"{key}.json"


@once(64)
def _description(config: str) -> Decoder:
    """Return the description; raise ``Refused`` if there is none, or none in time."""
    folder, name = _descriptions(), _name(config)
    if (stored := folder.read(name)) is not None:
        with suppress(ValidationError):
            return Decoder.model_validate_json(stored)
    try:
        function = "sarqc.models.derivation:description"
        answer = answer_of(function, config.encode(), cpu_seconds=_SECONDS, memory=_MEMORY)
    except Exhausted as error:
        what = f"its configuration does not make a model within {_SECONDS} s ({error.what[:200]})"
        raise Refused(what, "", _OTHER) from None
    decoder = Decoder.model_validate_json(answer)
    folder.write(name, answer)
    return decoder
