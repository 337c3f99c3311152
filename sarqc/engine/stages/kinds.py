"""The stages of each kind of run, in their order."""

from collections.abc import Callable, Iterator

from sarqc.engine.baseline import compare_with_baseline
from sarqc.engine.repair import measure_before_repair
from sarqc.engine.run import RunContext
from sarqc.engine.saved_model import save_checkpoint
from sarqc.engine.stages.float_model import begin, choose_lambda, keep_float, measure_float
from sarqc.engine.stages.ladder import measure_ladder
from sarqc.engine.stages.quantized_model import measure_quantized
from sarqc.engine.stages.solving import compare_rotated, distill, solve
from sarqc.engine.stages.tuning import tune_lambda
from sarqc.engine.study_output import save_study
from sarqc.events import Event

QUANTIZING: tuple[Callable[[RunContext], Iterator[Event]], ...] = (
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


def stages_of(run: RunContext) -> tuple[Callable[[RunContext], Iterator[Event]], ...]:
    """Return the stages of a run; one that its recipe does not need does nothing."""
    return {"run": QUANTIZING, "ladder": (measure_ladder,), "tune": (tune_lambda,)}[run.recipe.kind]
