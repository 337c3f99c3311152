"""Checkpoints whose patterns for names of linears take ``re`` longer than anybody waits, planned by a running app."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import requests

from conformance.torture.answers import Judge
from conformance.torture.figures import Figures
from conformance.torture.served import Served
from sarqc.models.checkpoint import read_checkpoint
from sarqc.settings import SITE
from tests.checkpoints import foreign
from tests.models.cases import make_checkpoint

FROZE = r"([a-z._0-9]+)+X$"  # an app for ever
PATTERNS = [
    FROZE, r"(a|a)*(\.|a)*X$", r"(.*)*(.*)*(.*)*X$", r"(?:\w*\.*)*X$", r"((a*)*)*X$", r"(.?){200}X$",
    r"\d{1000000}", r"(\d{1000}){1000}X", r"(?:(?:.{1,500}){1,500}){1,500}X$", r".*.*.*.*.*.*.*.*.*.*.*.*X$",
    "(|)" * 20 + "X$", "^" + "(|)" * 5000 + "$", "^" + "[ab]" * 5000 + "$", r"(?!(a|aa|\.)*$X)(?=(.*.*)*X)",
]  # fmt: skip
BOMBS: dict[str, list[str]] = {f"pattern {number}": [pattern] for number, pattern in enumerate(PATTERNS)} | {
    "deep": ["(" * 10_000 + "a" + ")" * 10_000],
    "huge repetition": [r"\d{99999999999999999999}"],
    "reference": [r"(.*)*\1X"],
    "many": [rf".*x{number}$" for number in range(100_000)],
    "many that run": [rf".*l{number}.*.*.*x" for number in range(4_000)],
    "long": ["a" * 10_000_000],
    "wide class": ["[" + "".join(map(chr, range(0x4E00, 0x9FFF))) * 10 + "]+X$"],
    "long list": ["^(?:" + "|".join(rf"model\.layers\.{number}\.mlp" for number in range(100_000)) + ")$"],
}
WEIGHTS = {"num_bits": 4, "group_size": 32, "symmetric": False, "type": "int"}
FORMATS: dict[str, Any] = {"compressed-tensors": foreign.packed, "gptq": foreign.gptq,
                           "auto-round": partial(foreign.gptq, with_order=False)}  # fmt: skip
SLOW_SECONDS, DEAF_SECONDS = 10.0, 2.0  # generous: a busy host is slow and not frozen
PLANS, SLOWEST, LIVENESS = "plans of pattern bombs", "slowest plan", "slowest /healthz meanwhile"
ODD, LATE, DEAF = "other answers than 200 and 422", "plans later than 10 s", "/healthz later than 2 s"


def configuration(name: str, patterns: list[str]) -> dict[str, Any]:
    """``quantization_config`` of a format, with patterns before what is said of all linears."""
    if name == "compressed-tensors":
        said = [[f"re:{pattern}" for pattern in patterns], ["Linear"]]
        groups = {f"group_{n}": {"targets": targets, "weights": WEIGHTS} for n, targets in enumerate(said)}
        return {"quant_method": name, "format": "pack-quantized", "config_groups": groups}
    common = {"quant_method": name, "bits": 4, "group_size": 32, "sym": False}
    if name == "gptq":
        return common | {"checkpoint_format": "gptq_v2", "dynamic": {f"+:{pattern}": {} for pattern in patterns}}
    extra = {pattern: {"bits": 4} for pattern in patterns}
    return common | {"packing_format": "auto_round", "data_type": "int", "extra_config": extra}


def make(folder: Path, bombs: dict[str, list[str]]) -> Iterator[str]:
    """Names of checkpoints with each bomb in each format, in a folder of models beside their original, “float”."""
    source = make_checkpoint("qwen2", folder / "float", SITE / "assets" / "models" / "tiny-llama", hidden_size=64,
                             intermediate_size=96, num_key_value_heads=4, num_hidden_layers=1,
                             layer_types=["full_attention"])  # fmt: skip
    rng = np.random.default_rng(0)
    linears = {info.name: foreign.linear(info.shape, 4, 32, rng) for info in read_checkpoint(source).layers}
    for name, stored in FORMATS.items():
        sound = {"quantization_config": configuration(name, [".*"])}
        yield foreign.write(source, folder / name, linears, stored, sound).name
        for number, patterns in enumerate(bombs.values()):
            made = shutil.copytree(folder / name, folder / f"{name}-{number}")
            config = json.loads((made / "config.json").read_text())
            config["quantization_config"] = configuration(name, patterns)
            (made / "config.json").write_text(json.dumps(config))
            yield made.name


def play(folder: Path, figures: Figures, bombs: dict[str, list[str]] = BOMBS) -> None:
    """Plans each of them, and asks meanwhile whether the app is alive."""
    figures.expect(ODD, LATE, DEAF)
    names = list(make(folder / "models", bombs))
    app = Served(folder, "conformance.torture.no_work:execute").wait()
    done = threading.Event()
    asking = threading.Thread(target=_ask_whether_alive, args=(app.address, figures, done))
    try:
        judge = Judge(app, figures)
        asking.start()
        for name in names:
            began = time.monotonic()
            recipe = {"model": "float", "method": "as-found", "quantized_checkpoint": name, "samples": 1, "length": 16,
                      "calibration": "tiny-llama-calibration"}  # fmt: skip
            answer = judge.send(requests.Request("POST", f"{app.address}/api/plan", json=recipe))
            figures.count(PLANS)
            figures.took(SLOWEST, time.monotonic() - began)
            if answer is None or time.monotonic() - began > SLOW_SECONDS:
                figures.complain(LATE, name)
            elif answer.status not in ((200,) if name in FORMATS else (200, 422)):
                figures.complain(ODD, f"{name}: {answer.status} {answer.body[:300]!r}")
    finally:
        done.set()
        if asking.is_alive():
            asking.join()
        app.end()


def _ask_whether_alive(address: str, figures: Figures, done: threading.Event) -> None:
    with requests.Session() as http:
        http.trust_env = False
        while not done.wait(0.02):
            began = time.monotonic()
            try:
                http.get(f"{address}/healthz", timeout=30)
            except requests.RequestException as error:
                figures.complain(DEAF, str(error))
            figures.took(LIVENESS, time.monotonic() - began)
            if time.monotonic() - began > DEAF_SECONDS:
                figures.complain(DEAF, f"{time.monotonic() - began:.1f} s")
