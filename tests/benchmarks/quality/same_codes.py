"""How many codes of our GPTQ are llm-compressor's, where grid, order, damping, tokens and dtype are the same.

    python -m tests.benchmarks.quality.same_codes --folder DIR --model tiny-llama --calibration wikitext2

The checkpoint is stored again in float32 first, so that neither rounds its scales. With the inputs of the float model
every layer is solved on the same inputs; with those of the quantized one a code that differs changes what comes after.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForCausalLM

from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.settings import Settings
from tests.benchmarks.quality.dequantize import Tensors, unpacked
from tests.benchmarks.quality.jobs import Job, drawn, run_job

GRIDS = {"asymmetric": False, "full_range": True}  # by our name: whether llm-compressor calls it symmetric


def of_llmcompressor(tensors: Tensors, name: str, bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Unsigned codes (O, I) and scales (O, G) of a packed layer."""
    _, columns = tensors[f"{name}.weight_shape"]
    return unpacked(tensors[f"{name}.weight_packed"], bits, int(columns)), tensors[f"{name}.weight_scale"]


def of_sarqc(tensors: Tensors, name: str, bits: int, grid: str) -> tuple[np.ndarray, np.ndarray]:
    """The same of a layer of ours."""
    lowest = 0 if grid == "asymmetric" else -(1 << (bits - 1))
    return tensors[f"{name}.codes"].astype(np.int64) - lowest, tensors[f"{name}.scales"]


def in_float32(checkpoint: Checkpoint, folder: Path) -> Path:
    """The checkpoint with all of its tensors in float32."""
    model = AutoModelForCausalLM.from_pretrained(checkpoint.folder, dtype="float32", local_files_only=True)
    model.save_pretrained(folder / checkpoint.folder.name)
    for path in checkpoint.folder.glob("tokenizer*"):
        (folder / checkpoint.folder.name / path.name).write_bytes(path.read_bytes())
    return folder / checkpoint.folder.name


def compared(
    ours: Tensors, theirs: Tensors, names: list[str], bits: int, grid: str
) -> Iterator[tuple[str, float, float, int]]:
    """Of each layer its name, the shares of equal codes and of rows equal throughout, and how far two codes differ."""
    for name in names:
        mine, my_scales = of_sarqc(ours, name, bits, grid)
        other, other_scales = of_llmcompressor(theirs, name, bits)
        if not np.allclose(my_scales, other_scales, rtol=1e-5):
            raise ValueError(f"{name}: the scales differ")
        same = mine == other
        yield name, float(same.mean()), float(same.all(axis=1).mean()), int(np.abs(mine - other).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--grids", nargs="+", choices=GRIDS, default=list(GRIDS))
    parser.add_argument("--lam", type=float, default=0.01)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    checkpoint = checkpoint_of(given.model, None, Settings())
    assert checkpoint is not None  # a model of this host
    names = [layer.name for layer in checkpoint.layers]
    tokens = drawn(given.calibration, checkpoint, samples=8, length=256, draw=0).calibration
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        wide = in_float32(checkpoint, Path(name))
        for grid in given.grids:
            for bits in given.bits:
                for inputs in ("float", "quantized"):
                    ours = {"method": "rqc-gbs", "lam": given.lam, "order": "activation", "grid": grid}
                    theirs = {
                        "symmetric": GRIDS[grid], "propagate_error": inputs == "quantized",
                        "gptq": {"dampening_frac": given.lam},
                    }  # fmt: skip
                    settings = {"sarqc": ours | {"inputs_from": inputs}, "llmcompressor": theirs}
                    left = {
                        engine: run_job(Job(engine, wide, bits, 128, of_engine), tokens, given.folder, given.threads)
                        for engine, of_engine in settings.items()
                    }
                    shares = list(compared(left["sarqc"].tensors, left["llmcompressor"].tensors, names, bits, grid))
                    for share in shares:
                        print(f"W{bits} {grid} {inputs} prefix: {share}", flush=True)
                    rows.append({"bits": bits, "grid": grid, "inputs": inputs, "layers": shares})
    (given.folder / "same_codes.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
