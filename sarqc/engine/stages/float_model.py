"""The stages of a run that quantizes or repairs, while its model is float."""

from collections.abc import Iterator

from sarqc.calibration.kept_layers import SUFFIX
from sarqc.engine.auto_by_model import settle
from sarqc.engine.baseline import baseline_key
from sarqc.engine.device_memory import rehearse
from sarqc.engine.distill import ScaleTuning
from sarqc.engine.kept_states import KeptStates
from sarqc.engine.keys import layer_keys, states_key
from sarqc.engine.measure import continue_prompts, keep_states, load_beside_float, measure
from sarqc.engine.repair import unrepaired_key
from sarqc.engine.result import summary_of
from sarqc.engine.run import RunContext
from sarqc.events import Event


def begin(run: RunContext) -> Iterator[Event]:
    """Announce the work, and try the largest layer unless all are finished."""
    keys = layer_keys(run.bench.model, run.job)
    yield run.started_event(keys)
    if not all(run.bench.store.has(key, SUFFIX) for key in keys.values()):
        yield from rehearse(run.bench, run.prepared, run.job)


def measure_float(run: RunContext) -> Iterator[Event]:
    """Measure the float model on the test text, tasks and prompts."""
    bench, prepared = run.bench, run.prepared
    if prepared.test is not None:
        run.states = KeptStates(bench.store, states_key(bench.model, prepared.test, prepared.window))
    run.original = yield from measure(bench, prepared, "float", bench.model.key, run.states)
    run.summary = summary_of(prepared, run.original, run.device)
    run.float_texts = yield from continue_prompts(bench, prepared)


def choose_lambda(run: RunContext) -> Iterator[Event]:
    """Choose the λ of “auto” for the whole model, if the recipe asks for that, and with it the keys of all layers."""
    run.job, run.selection = yield from settle(run.bench, run.recipe, run.job)
    run.solved = layer_keys(run.bench.model, run.job)


def keep_float(run: RunContext) -> Iterator[Event]:
    """Keep the parts of the float model that later stages compare with, unless their results are stored."""
    bench, prepared, recipe = run.bench, run.prepared, run.recipe
    if run.rotation is not None:
        run.rounded = run.rotation.rounded(bench.loaded)
    if recipe.distills:
        run.tuning = ScaleTuning(bench, recipe, run.job, run.solved)
        run.float_model = yield from run.tuning.keep_float()
    if run.states is None:
        return
    measured = [run.quantized_key]
    if recipe.baseline and not recipe.why_no_baseline():
        measured.append(baseline_key(bench.model, run.job, recipe))
    if recipe.repairs:
        measured.append(unrepaired_key(bench.model, run.job))
    if any(load_beside_float(bench, prepared, key) is None for key in measured):
        yield from keep_states(bench, prepared, run.states)
