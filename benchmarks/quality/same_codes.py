"""How many codes of our GPTQ are llm-compressor's, where grid, order, damping, tokens and dtype are the same.

    python -m benchmarks.quality.same_codes --folder DIR --model tiny-llama --calibration wikitext2

The checkpoint, of a dense model, is stored again in float32 first, so that neither rounds its scales. With the inputs
of the float model every layer is solved on the same inputs, and both are compared with the same layers solved in
float64; with those of the quantized one a code that differs changes the inputs of all that comes after. The numbers are
kept in DIR/same_codes.json, and from there in what ``python -m benchmarks.quality --write`` writes.
"""

import argparse
import itertools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from benchmarks.quality.dequantize import Tensors, unpacked
from benchmarks.quality.jobs import Job, drawn, run_job
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer
from sarqc.settings import Settings

GRIDS = {"asymmetric": False, "full_range": True}  # by our name: whether llm-compressor calls it symmetric
Codes = Mapping[str, np.ndarray]  # unsigned, (O, I), by layer


def of_llmcompressor(tensors: Tensors, names: list[str], bits: int) -> Codes:
    """The codes of packed layers."""
    return {
        name: unpacked(tensors[f"{name}.weight_packed"], bits, int(tensors[f"{name}.weight_shape"][1]))
        for name in names
    }  # fmt: skip


def of_sarqc(tensors: Tensors, names: list[str], grid: Grid) -> Codes:
    """The codes of our own layers."""
    return {name: tensors[f"{name}.codes"].astype(np.int64) - grid.lowest for name in names}


def in_float64(folder: Path, tokens: np.ndarray, names: list[str], grid: Grid, lam: float) -> Codes:
    """The codes of each layer, solved in float64 on the inputs that the float model gives it in float64."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, local_files_only=True)
    inputs: dict[str, list[Tensor]] = {name: [] for name in names}
    for name in names:
        model.get_submodule(name).register_forward_pre_hook(
            lambda _, arguments, name=name: inputs[name].append(arguments[0].flatten(0, 1))
        )
    with torch.no_grad():
        for row in torch.from_numpy(tokens):
            model(row[None])
    solver, codes = method("rqc-gbs", lam=lam, order="activation"), {}
    for name, parts in inputs.items():
        statistics = LayerStatistics.from_inputs(torch.cat(parts))
        solved = quantize_layer(model.get_submodule(name).weight.detach(), statistics, grid, solver)
        codes[name] = solved.codes.numpy().astype(np.int64) - grid.lowest
    return codes


def in_float32(checkpoint: Checkpoint, folder: Path) -> Path:
    """The folder of the checkpoint with all of its tensors in float32."""
    wide = folder / checkpoint.folder.name
    AutoModelForCausalLM.from_pretrained(checkpoint.folder, dtype="float32", local_files_only=True).save_pretrained(
        wide
    )
    for path in checkpoint.folder.glob("tokenizer*"):
        (wide / path.name).write_bytes(path.read_bytes())
    return wide


def rows_apart(codes: Codes, other: Codes) -> int:
    """How many rows of all layers have a code that differs."""
    return sum(int((codes[name] != other[name]).any(axis=1).sum()) for name in codes)


def agreement(ours: Codes, theirs: Codes, layers: list[LayerInfo]) -> dict[str, Any]:
    """Shares of equal codes: of all, of the layer with the smallest, and of each block."""
    same = {layer.name: ours[layer.name] == theirs[layer.name] for layer in layers}
    shares = {name: float(part.mean()) for name, part in same.items()}
    worst = min(shares, key=shares.__getitem__)
    blocks = [
        np.concatenate([same[layer.name].ravel() for layer in of_block]).mean()
        for _, of_block in itertools.groupby(layers, key=lambda layer: layer.block)
    ]
    return {
        "share": float(np.concatenate([part.ravel() for part in same.values()]).mean()),
        "worst_layer": worst, "share_of_worst": shares[worst], "blocks": [round(float(share), 4) for share in blocks],
        "layers": len(layers), "whole_layers": sum(bool(part.all()) for part in same.values()),
        "rows": sum(len(part) for part in same.values()), "rows_apart": rows_apart(ours, theirs),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--calibration", required=True)
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--grids", nargs="+", choices=GRIDS, default=list(GRIDS))
    parser.add_argument("--lam", type=float, default=0.01)
    parser.add_argument("--group-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    checkpoint = checkpoint_of(given.model, None, Settings())
    names = [layer.name for layer in checkpoint.layers]
    sequences = drawn(given.calibration, checkpoint, samples=8, length=256, draw=0)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        wide = in_float32(checkpoint, Path(scratch))
        for kind, bits, inputs in itertools.product(given.grids, given.bits, ("float", "quantized")):
            grid = Grid(bits, given.group_size, kind)
            settings = {
                "sarqc": {
                    "method": "rqc-gbs", "lam": given.lam, "order": "activation", "grid": kind, "inputs_from": inputs,
                },
                "llmcompressor": {
                    "symmetric": GRIDS[kind], "propagate_error": inputs == "quantized",
                    "gptq": {"dampening_frac": given.lam},
                },
            }  # fmt: skip
            left = {}
            for engine, of_engine in settings.items():
                job = Job(engine, wide, bits, given.group_size, of_engine)
                left[engine] = run_job(job, sequences, given.folder, given.threads)
            ours = of_sarqc(left["sarqc"].tensors, names, grid)
            theirs = of_llmcompressor(left["llmcompressor"].tensors, names, bits)
            row = {"model": given.model, "bits": bits, "grid": kind, "lam": given.lam, "inputs": inputs}
            row |= agreement(ours, theirs, checkpoint.layers)
            if inputs == "float":
                exact = in_float64(wide, sequences.calibration, names, grid, given.lam)
                row |= {"ours_to_float64": rows_apart(ours, exact), "theirs_to_float64": rows_apart(theirs, exact)}
            print(json.dumps(row), flush=True)
            rows.append(row)
    (given.folder / "same_codes.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
