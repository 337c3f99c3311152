"""Real models from a GGUF file to a checkpoint that others load: planned, quantized, measured, exported, read again.

    make real                        # both models, 1.2 GB to fetch and 20 GB to work in
    make real ONLY=smollm2-135m-instruct

Each run is the command line's own, in a process of its own; what it took stands beside what its plan had said. The
numbers are kept as build/real/real.json, of which docs/real.json is a copy.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import host, own_bytes
from deploy.fetch_models import QWEN, SMOLLM2, Pretrained, fetch_gguf

FOLDER = Path("build/real")
TEXTS = {
    "calibration": "c4", "samples": 16, "length": 512, "test": "wikitext2-test", "window": 512, "test-tokens": 10_240,
}  # fmt: skip
METHOD = {"method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.1, "grid": "asymmetric", "group-size": 64}


@dataclass(frozen=True)
class Case:
    """A model at some widths; ``weights``: where they are while the model runs, see SARQC_WEIGHTS."""

    model: Pretrained
    weights: str
    formats: dict[int, str]  # of the checkpoint, by bits


CASES = (
    Case(SMOLLM2, "resident", {4: "packed", 3: "gptq"}),
    Case(QWEN, "streamed", {4: "packed", 3: "gptq"}),
)


def flags(case: Case, file: Path, bits: int) -> list[str]:
    """Of ``plan`` and ``quantize``."""
    values = {"model": file.absolute(), "bits": bits, **METHOD, **TEXTS}
    return [part for name, value in values.items() for part in (f"--{name}", str(value))] + ["--no-baseline", "--json"]


def run(arguments: list[str], environment: dict[str, str]) -> tuple[dict[str, Any], float, int]:
    """What a command of sarqc prints, its seconds, and the most memory that it had of its own."""
    command = [sys.executable, "-m", "sarqc", *arguments]
    started, peak = time.monotonic(), 0
    # A file instead of a pipe: the final output would fill a pipe that nobody reads meanwhile.
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as printed,
        subprocess.Popen(command, stdout=printed, env=os.environ | environment) as process,
    ):
        while process.poll() is None:
            peak = max(peak, own_bytes(process.pid))
            time.sleep(0.02)
        printed.seek(0)
        text = printed.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {text[-2000:]}")
    return json.loads(text), time.monotonic() - started, peak


def measured(case: Case, bits: int) -> dict[str, Any]:
    """One run beside its plan."""
    file = FOLDER / f"{case.model.name}.gguf"
    if not file.is_file():
        fetch_gguf(case.model, file)
    state, output = FOLDER / "state", FOLDER / "checkpoint"
    for folder in (state, output):
        shutil.rmtree(folder, ignore_errors=True)
    environment = {"SARQC_STATE_DIR": str(state.absolute()), "SARQC_WEIGHTS": case.weights}
    planned, _, _ = run(["plan", *flags(case, file, bits)], environment)
    kind = case.formats[bits]
    summary, seconds, peak = run(
        ["quantize", *flags(case, file, bits), "--output", str(output), "--format", kind], environment
    )
    size = sum(path.stat().st_size for path in (output / "model").rglob("*") if path.is_file())
    shutil.rmtree(output)
    return {
        "model": case.model.name,
        "parameters": planned["parameters"],
        "bits": bits,
        "weights": case.weights,
        "format": kind,
        "planned_minutes": planned["minutes"],
        "minutes": seconds / 60,
        "planned_bytes": planned["memory_bytes"],
        "peak_bytes": peak,
        "file_bytes": file.stat().st_size,
        "exported_bytes": size,
        **{name: summary[name] for name in ("perplexity_float", "perplexity", "kl", "kl_standard_error", "written")},
        "protocol": summary["protocol"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", help="name of a model")
    parser.add_argument("--bits", type=int, help="one width alone")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / "real.json"
    document = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {"runs": []}
    for case in CASES:
        for bits in case.formats:
            if given.only in (None, case.model.name) and given.bits in (None, bits):
                one = measured(case, bits)
                print(json.dumps(one, ensure_ascii=False, indent=1), flush=True)
                others = [old for old in document["runs"] if (old["model"], old["bits"]) != (one["model"], bits)]
                document = {"runs": [*others, one | {"host": host()}]}
                kept.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(FOLDER / "state", ignore_errors=True)


if __name__ == "__main__":
    main()
