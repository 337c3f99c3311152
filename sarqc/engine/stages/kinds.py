"""The stages of each kind of run, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sarqc.engine.run import Run
from sarqc.engine.stages.comparing import measure_ladder, save_statistics, tune_lambda
from sarqc.engine.stages.float_model import begin, choose_lambda, keep_float, measure_before_repair, measure_float
from sarqc.engine.stages.quantized_model import compare_with_baseline, measure_quantized
from sarqc.engine.stages.saving import save_checkpoint, save_study
from sarqc.engine.stages.solving import compare_rotated, distill, solve
from sarqc.events import Event

QUANTIZING: tuple[Callable[[Run], Iterator[Event]], ...] = (
    begin,
    measure_float,
    choose_lambda,
    keep_float,
    measure_before_repair,
    solve,
    distill,
    compare_rotated,
    measure_quantized,
    compare_with_baseline,
    save_study,
    save_checkpoint,
)


def stages_of(run: Run) -> tuple[Callable[[Run], Iterator[Event]], ...]:
    """Return the stages of a run; one that its recipe does without does nothing."""
    if run.recipe.kind == "run":
        return QUANTIZING
    if run.recipe.kind == "ladder":
        return (measure_ladder,)
    return (tune_lambda,) if run.output.checkpoint_dir is None else (save_statistics,)
