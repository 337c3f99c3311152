"""Descriptions of decoders without a written family: derived in a process of their own, and kept on disk; no torch."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from pydantic import ValidationError

from sarqc.errors import Refused
from sarqc.files.folder import Folder
from sarqc.files.names import shortened
from sarqc.models.decoder import Decoder
from sarqc.settings import Settings

_FORMAT = 14  # of what is kept; higher after every change of the derivation
_SECONDS = 120
_MEMORY = 12 << 30  # bytes of addresses: shapes alone take little, a hostile number of blocks much
_MOST_BLOCKS, _MOST = 1 << 12, 1 << 40  # of a number in a configuration
_OTHER = "Use another model."
_NOT_ASKED = ("transformers_version", "_name_or_path", "architectures")  # without effect on the model
_one_at_a_time = threading.Lock()


def decoder_of(config: dict[str, Any], where: str) -> Decoder:
    """Return the description of the decoder of a config.json.

    Raises:
        Refused: If transformers has no such decoder, or if its blocks can't be run one by one.
    """
    for name, value in config.items():
        if isinstance(value, int) and value > (_MOST_BLOCKS if "layer" in name else _MOST):
            what = f"config.json: {shortened(name)} is {value}"
            raise Refused(what, where, "Repair it, or download it again.")
    with _one_at_a_time:
        result = _derived(_asked(config))
    if isinstance(result, Decoder):
        return result
    raise Refused(result["problem"], where, result["remedy"])


def is_described(config: dict[str, Any]) -> bool:
    """Return True if the description of a config.json is kept, so that ``decoder_of`` takes no time."""
    return _kept().touch(_name(_asked(config)))


def _asked(config: dict[str, Any]) -> str:
    """What of a configuration decides about the model, as text."""
    return json.dumps({name: value for name, value in config.items() if name not in _NOT_ASKED}, sort_keys=True)


def _kept() -> Folder:
    return Folder(Settings().resolved_state_dir() / "decoders")


def _name(config: str) -> str:
    key = hashlib.sha256(f"{_FORMAT} {version('transformers')} {config}".encode()).hexdigest()[:32]
    return f"{key}.json"


@lru_cache(maxsize=64)
def _derived(config: str) -> Decoder | dict[str, str]:
    """The description, or a refusal with its remedy. Raises ``Refused`` if neither came in time."""
    kept, name = _kept(), _name(config)
    if (found := kept.read(name)) is not None:
        with suppress(ValidationError):
            return Decoder.model_validate_json(found)
    answer = _ask(config)
    if "problem" in answer:
        return answer
    decoder = Decoder.model_validate(answer)
    kept.write(name, decoder.model_dump_json().encode())
    return decoder


def _ask(config: str) -> dict[str, Any]:
    """The answer of a process for itself, which a hostile configuration can exhaust without harm."""
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    environment |= {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path), "HF_HUB_OFFLINE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "sarqc.models.derivation", str(_MEMORY)],
            input=config, capture_output=True, text=True, timeout=_SECONDS, env=environment, check=True,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        what = f"its configuration was not understood within {_SECONDS} s"
        raise Refused(what, "config.json", _OTHER) from None
    except (subprocess.CalledProcessError, json.JSONDecodeError, IndexError) as error:
        said = (getattr(error, "stderr", "") or type(error).__name__).strip().splitlines()[-1]
        what = f"its configuration does not make a model ({said[:200]})"
        raise Refused(what, "config.json", _OTHER) from None
    return answer
