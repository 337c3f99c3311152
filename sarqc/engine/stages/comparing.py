"""The stages of a run that compares models: it tunes, climbs a ladder, or saves the statistics of a draw."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from sarqc.engine.budget import Budget
from sarqc.engine.bundle import save_bundle
from sarqc.engine.device_memory import rehearse
from sarqc.engine.ladder_run import measure_steps
from sarqc.engine.ladder_steps import ladder_steps
from sarqc.engine.result import summary_of
from sarqc.engine.run import Run
from sarqc.engine.trials import TuningContext, draw_of, ground_of
from sarqc.engine.tuning import tune
from sarqc.engine.tuning_output import has_study, write_tuning
from sarqc.events import Event, Saved, Stage
from sarqc.quantization.methods import Method


def tune_lambda(run: Run) -> Iterator[Event]:
    """Compare values of λ instead of quantizing the model once."""
    ground, budget = yield from _begun(run, run.recipe.to_method().points(*run.recipe.compared()))
    state, tuning = yield from tune(run.recipe, ground, budget)
    run.original = state.original or run.original
    if run.output.study is not None and has_study(state):
        yield Stage("saving", "study")
        write_tuning(run, state, run.output.study)
        yield Saved("study", str(run.output.study))
    run.summary = {**summary_of(run.prepared, run.original, run.device), "tuning": tuning}


def measure_ladder(run: Run) -> Iterator[Event]:
    """Measure the steps of the model's own ladder."""
    ground, budget = yield from _begun(run, [ladder_steps(run.recipe)[-1].method])
    state, ladder = yield from measure_steps(run.recipe, ground, budget)
    run.summary = {**summary_of(run.prepared, state.original or run.original, run.device), "ladder": ladder}


def save_statistics(run: Run) -> Iterator[Event]:
    """Write the statistics of the first draw as a file, collected again where they are not kept any more."""
    assert run.output.checkpoint_dir is not None
    yield Stage("saving", "statistics")
    ground = ground_of(run.bench, run.prepared, run.job.grids)
    yield Saved("statistics", str(save_bundle(draw_of(run.recipe, ground, 0), run.output.checkpoint_dir)))


def _begun(run: Run, points: Sequence[Method]) -> Generator[Event, None, tuple[TuningContext, Budget]]:
    """Try the largest layer at ``points``; return what all draws have in common, and the time."""
    yield run.started_event({})
    yield from rehearse(run.bench, run.prepared, replace(run.job, inputs_from="float"), points)
    minutes = run.recipe.minutes
    budget = Budget(None if minutes is None else 60 * minutes, run.bench.store.claims.crew, run.started)
    return ground_of(run.bench, run.prepared, run.job.grids), budget
