"""Other engines do with a recipe what is done here: the same codes, by the programs that are written for them.

    python -m conformance.engines --folder build/engines [--only llmcompressor]

Each engine has an environment of its own in the folder, made once. The embedded models are stored again in float32
first, so that no engine rounds scales. Every linear is solved on inputs that are the same in both: those of the float
model where the engine has them, else with one block quantized and all others float. One code in a thousand may differ:
float32 puts a weight to the other side of a tie, and the columns after it make up for another error.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from benchmarks.quality.dequantize import Tensors, unpacked
from benchmarks.quality.environment import python_of
from benchmarks.quality.jobs import last_line
from benchmarks.quality.same_codes import Codes, agreement, in_float32, of_llmcompressor
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.execute import execute
from sarqc.engine.plan import prepare
from sarqc.extras.engines.programs import program_for
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.families import LayerInfo
from sarqc.models.loading import load
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.as_recipe import of_run

ROOT = Path(__file__).resolve().parents[2]
ENOUGH = 0.999  # of all codes
MODELS = ("tiny-llama", "tiny-moe")
# What is asked of an engine, beside model, text and where inputs are from.
CASES: dict[str, dict[str, Any]] = {
    "identity": {"method": "rqc-gbs", "lambda": 0.25, "bits": 3, "grid": "asymmetric", "static_groups": True},
    "identity, activation order": {
        "method": "rqc-gbs", "lambda": 0.1, "bits": 4, "grid": "full_range", "order": "activation",
    },
    "identity, λ by layer": {
        "method": "rqc-gbs", "lambda": "auto", "bits": 2, "grid": "asymmetric", "static_groups": True,
    },
    "saliency": {
        "method": "sarqc-gbs", "lambda": 0.25, "gamma": 0.1, "bits": 3, "grid": "asymmetric", "static_groups": True,
    },
    "saliency, λ and γ by layer": {
        "method": "sarqc-gbs", "lambda": "auto", "gamma": "auto", "bits": 4, "grid": "full_range",
        "order": "activation",
    },
}  # fmt: skip


def of_gptqmodel(tensors: Tensors, names: list[str], bits: int) -> Codes:
    """The codes of layers in GPTQ's format: packed along columns of the weight."""
    codes = {}
    for name in names:
        words = tensors[f"{name}.qweight"]  # (I·bits/32, O)
        codes[name] = unpacked(words.T, bits, words.shape[0] * 32 // bits)
    return codes


# Where inputs are from and which blocks are quantized, a run each; and how its codes are read.
ENGINES: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "llmcompressor": ([{"inputs_from": "float"}], of_llmcompressor),
    "gptqmodel": ([{"blocks": [0]}, {"blocks": [1]}], of_gptqmodel),
}


@dataclass(frozen=True)
class Ours:
    """What is done here: the codes, unsigned, of the linears that are quantized."""

    codes: Codes
    layers: list[LayerInfo]
    unreached: frozenset[str]  # names of those that no token reached


def ours(recipe: Recipe, settings: Settings) -> Ours:
    prepared = prepare(recipe, settings)
    loaded = load(prepared.checkpoint, torch.device("cpu"))
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    steps = calibrate(loaded, job, None, {layer.name: "" for layer in prepared.checkpoint.layers})
    solved = [step for step in steps if isinstance(step, SolvedLayer)]
    codes = {
        one.info.name: one.quantized.codes.numpy().astype("int64") - job.grids[one.info.name].lowest for one in solved
    }
    unreached = frozenset(one.info.name for one in solved if one.quantized.report.n_tokens == 0)
    return Ours(codes, list(prepared.checkpoint.layers), unreached)


def written(engine: str, recipe: Recipe, folder: Path, settings: Settings) -> str:
    """The program of a run's recipe, of the finished run where it chose λ by itself."""
    if not recipe.candidates():
        return program_for(engine, recipe.to_json())
    for _ in execute(recipe, settings, study_dir=folder, study_id="run"):
        pass
    study, line, document = of_run(folder / "run")
    return program_for(engine, document, study, line)


def run_program(engine: str, program: str, scratch: Path, folder: Path) -> Tensors:
    """The integers of the checkpoint that a program leaves. Raises ``SystemExit`` with the end of what it said."""
    (scratch / "program.py").write_text(program, encoding="utf-8")
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    # Beside the engine is of sarqc what needs nothing that the engine has not, as --no-deps installs it.
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GPTQMODEL_CPU_WORKERS": "2"}
    done = subprocess.run(
        [python_of(engine, folder), "program.py"], cwd=scratch, env=os.environ | offline | own,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        (folder / "failed.log").write_text(f"{program}\n{done.stdout}\n{done.stderr}", encoding="utf-8")
        raise SystemExit(f"{engine}: {last_line(done.stderr)}; all of it is in {folder / 'failed.log'}")
    (weights,) = scratch.glob("*-w*/*.safetensors")
    return {name: tensor.numpy() for name, tensor in load_file(weights).items() if not tensor.is_floating_point()}


def compared(engine: str, model: str, folder: Path, only: str) -> Iterator[tuple[str, dict[str, Any], float]]:
    """Of each case its name, how far codes agree, and the seconds that the engine took."""
    shapes, read = ENGINES[engine]
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        settings = Settings(state_dir=scratch / "state", device="cpu")
        checkpoint = checkpoint_of(model, None, settings)
        wide = in_float32(checkpoint, scratch)
        for number, (case, asked) in enumerate(CASES.items()):
            for part, shape in enumerate(shapes):
                if only not in case:
                    continue
                recipe = Recipe.parse(
                    asked | shape | {
                        "model": str(wide), "calibration": str(checkpoint.folder / "calibration.txt"), "samples": 8,
                        "length": 128, "group_size": 128, "baseline": False,
                    }
                )  # fmt: skip
                own = scratch / f"{number}-{part}"
                own.mkdir()
                program = written(engine, recipe, own, settings)
                started = time.perf_counter()
                tensors = run_program(engine, program, own, folder)
                seconds = time.perf_counter() - started
                here = ours(recipe, settings)
                words = f"{case}, block {shape['blocks'][0]}" if "blocks" in shape else case
                # Where no token came, llm-compressor by itself sets an expert to 0, and GPTQModel leaves it float.
                left_out = here.unreached if engine == "gptqmodel" or "identity" in case else frozenset()
                layers = [layer for layer in here.layers if layer.name not in left_out]
                theirs = read(tensors, [layer.name for layer in layers], recipe.bits)
                said = agreement({layer.name: here.codes[layer.name] for layer in layers}, theirs, layers)
                yield words, said | {"left_out": len(left_out)}, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", choices=ENGINES, nargs="+", default=list(ENGINES))
    parser.add_argument("--model", choices=MODELS, nargs="+", default=list(MODELS))
    parser.add_argument("--case", default="", help="Only cases with this in their names.")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    failed = False
    for engine in given.only:
        for model in given.model:
            for case, said, seconds in compared(engine, model, given.folder.resolve(), given.case):
                failed |= said["share"] < ENOUGH
                word = "ok   " if said["share"] >= ENOUGH else "WRONG"
                print(
                    f"{word} {engine}, {model}, {case}: {said['share']:.4%} of the codes are equal, in the worst layer "
                    f"({said['worst_layer']}) {said['share_of_worst']:.3%}; "
                    f"{said['left_out']} without tokens left out; {seconds:.0f} s",
                    flush=True,
                )
    sys.exit(failed)


if __name__ == "__main__":
    main()
