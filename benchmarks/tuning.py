"""What tuning finds, beside an exhaustive comparison on other draws: every λ, measured in every draw.

    python -m benchmarks.tuning NAME [field=value …] [--write docs/tuning.json]
    python -m benchmarks.tuning simulated
    python -m benchmarks.tuning again

Fields are those of a recipe; ``model`` is NAME unless it is given. Results of NAME in the file are replaced, others are
kept. Everything is kept under SARQC_STATE_DIR, so that a stopped comparison goes on. ``simulated`` races over simulated
models; ``again`` times one tuning run of tiny-llama from nothing, and one with another λ after it.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.simulated_races import NOISES, false_claims, simulated
from sarqc.calibration.job import calibration_job
from sarqc.engine.execute import execute
from sarqc.engine.keys import describe
from sarqc.engine.measure import Workbench, keep_states
from sarqc.engine.plan import prepare
from sarqc.engine.trials import TuningContext, draw_of, ground_of, run_trials
from sarqc.events import Finished
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import choose_device, load
from sarqc.quantization.methods import method
from sarqc.recipe import TUNED_LAMS, Recipe
from sarqc.settings import Settings, read_settings

DRAWS = 5
EXHAUSTIVE = 1000  # seed of the first draw that is compared exhaustively; tuning has others
SEEDS = (0, 10, 20, 30)  # of tuning runs, each of which makes up to five draws from there on
SLICE = {"block_fraction": 0.25}
FEWER_TOKENS = 4  # times, in a slice


def recipe_of(name: str, fields: dict[str, Any], **changes: object) -> Recipe:
    plain = {"model": name, "kind": "tune", "draws": DRAWS, "bits": 2, "samples": 8, "length": 256, "window": 256}
    return Recipe.parse(plain | fields | changes)


def ready_ground(recipe: Recipe, settings: Settings) -> TuningContext:
    """A loaded model, and what is measured beside."""
    prepared = prepare(recipe, settings, download=True)
    loaded = load(prepared.checkpoint, choose_device(settings.device), begins_with_bos=recipe.begin == "bos")
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root()), settings)
    ground = ground_of(bench, prepared, job.grids)
    for _ in keep_states(ground.bench, ground.prepared, ground.states):
        pass
    return ground


def exhaustive(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """ln(perplexity / float model's) of every λ in every draw, at the method's own γ, and of GPTQ 1 %."""
    recipe = recipe.model_copy(update={"gamma": recipe.to_method().gamma})
    ground, (lams, gammas) = ready_ground(recipe, settings), recipe.compared()
    points = recipe.to_method().points(lams, gammas)
    ratios, gptq, seconds = [], [], 0.0
    for number in range(DRAWS):
        draw = draw_of(recipe.model_copy(update={"seed": EXHAUSTIVE}), ground, number)
        found = dict(run_trials(draw, points, pictures=False))
        values = [found[index].divergence for index in range(len(points))]
        flat = [value.log_ratio.mean for value in values if value is not None]
        ratios.append([flat[g * len(lams) : (g + 1) * len(lams)] for g in range(len(gammas))])
        [(_, beside)] = run_trials(draw, [method("gptq")], pictures=False)
        assert beside.divergence is not None
        gptq.append(beside.divergence.log_ratio.mean)
        seconds += sum(one.seconds for one in found.values())
        print(f"draw {number + 1} of {DRAWS}: {seconds:.0f} s", flush=True)
    return {"lams": lams, "gammas": gammas, "log_ratio": ratios, "gptq": gptq, "seconds": seconds}


def tuned(recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """What a tuning run ends with."""
    [finished] = [event for event in execute(recipe, settings) if isinstance(event, Finished)]
    tuning = finished.summary["tuning"]
    assert tuning is not None
    assert tuning["best"] is not None
    best = tuning["rows"][tuning["best"]]
    kept = {name: tuning[name] for name in ("band", "measured", "draws", "end", "seconds")}
    return {"seed": recipe.seed, "lambda": best["lambda"], "gamma": tuning["gamma"], **kept}


def compare(name: str, fields: dict[str, Any], settings: Settings) -> Iterator[tuple[str, Any]]:
    whole = recipe_of(name, fields)
    names = {key: Path(str(whole.to_json()[key])).name for key in ("model", "calibration", "test")}
    yield "recipe", {"bits": whole.bits} | whole.differences() | names
    slice_of = SLICE | {"samples": max(1, whole.samples // FEWER_TOKENS)}
    for part, changes in (("tuned", {}), ("slices", slice_of)):
        runs = []
        for seed in SEEDS:
            runs.append(tuned(recipe_of(name, fields, seed=seed, **changes), settings))
            print(part, runs[-1], flush=True)
        yield part, runs
    yield "gammas", len(whole.compared()[1])
    yield "exhaustive", exhaustive(whole, settings)


def again(settings: Settings) -> dict[str, Any]:
    """Seconds on the wall of a first question, and of one more λ."""
    fields = {"calibration": "tiny-llama-calibration", "test": "tiny-llama-held-out"}
    with tempfile.TemporaryDirectory() as folder:
        apart = settings.model_copy(update={"state_dir": Path(folder)})
        seconds = []
        for sweep in (TUNED_LAMS, (*TUNED_LAMS, 0.3)):
            started = time.perf_counter()
            tuned(recipe_of("tiny-llama", fields, sweep=sweep), apart)
            seconds.append(time.perf_counter() - started)
    return {"first": seconds[0], "one_more": seconds[1]}


# What is true of simulated models, with the budget of their searches in planned times of one model.
TRUTHS: dict[str, tuple[float, dict[str, Any]]] = {
    "any, short": (60.0, {}),
    "any": (200.0, {}),
    "no difference": (200.0, {"level": True}),
    "best λ 1 % better": (200.0, {"gain": 0.01}),
}


def simulation() -> dict[str, Any]:
    """False claims where nothing differs, and searches on hosts of any load."""
    return {
        "claims": {
            kind: [{"lams": count, "draws": draws, "false": false_claims(kind, count, draws)}
                   for count in (2, 5, 12) for draws in (2, 5, 8)]
            for kind in NOISES
        },
        "searches": {kind: {name: simulated(kind, budget, **truth) for name, (budget, truth) in TRUTHS.items()}
                     for kind in NOISES},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("fields", nargs="*")
    parser.add_argument("--write", type=Path, default=Path("docs/tuning.json"))
    given = parser.parse_args()
    fields = dict(field.split("=", 1) for field in given.fields)
    if given.name == "simulated":
        found: dict[str, Any] = simulation()
    elif given.name == "again":
        found = again(read_settings())
    else:
        found = dict(compare(given.name, fields, read_settings()))
    document = json.loads(given.write.read_text(encoding="utf-8")) if given.write.exists() else {}
    document[given.name] = found
    given.write.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
