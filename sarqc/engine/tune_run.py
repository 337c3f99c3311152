"""The stages of a run that tunes, and of one that saves the statistics of a draw."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from sarqc.documents import Summary
from sarqc.engine.budget import Budget
from sarqc.engine.bundle import save_bundle
from sarqc.engine.device_memory import rehearse
from sarqc.engine.measure import NOTHING_MEASURED
from sarqc.engine.run_context import RunContext
from sarqc.engine.trials import ground_of
from sarqc.engine.tuning import draw_of, tune
from sarqc.engine.tuning_output import has_study, tuning_summary, write_tuning
from sarqc.events import Event, Saved, Stage


def tune_lambda(run: RunContext) -> Generator[Event, None, Summary]:
    """Compares values of λ instead of quantizing the model once; returns the summary."""
    yield run.started_event({})
    points = run.recipe.to_method().points(*run.recipe.compared())
    yield from rehearse(run.bench, run.prepared, replace(run.job, inputs_from="float"), points)
    ground = ground_of(run.bench, run.prepared, run.job.grids)
    minutes = run.recipe.minutes
    budget = Budget(None if minutes is None else 60 * minutes, run.bench.store.claims.crew, run.started)
    state, tuning = yield from tune(run.recipe, ground, budget)
    original = state.original or NOTHING_MEASURED
    if run.output.study is not None and has_study(state):
        yield Stage("saving", "study")
        write_tuning(run.prepared, state, original, run.device, run.output.study, run.output.study_id)
        yield Saved("study", str(run.output.study))
    return tuning_summary(run.prepared, original, tuning, run.device)


def save_statistics(run: RunContext) -> Generator[Event, None, Summary]:
    """Statistics of the first draw as a file, collected again where they are not kept any more."""
    assert run.output.checkpoint_dir is not None
    yield Stage("saving", "statistics")
    ground = ground_of(run.bench, run.prepared, run.job.grids)
    file = save_bundle(draw_of(run.recipe, ground, 0), run.output.checkpoint_dir)
    yield Saved("statistics", str(file))
    return tuning_summary(run.prepared, NOTHING_MEASURED, None, run.device)
