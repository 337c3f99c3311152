"""The stages of a run that quantizes or repairs, once its layers are solved: stamp and measurements."""

from collections.abc import Iterator

from sarqc.engine.measure import compare_prompts, measure
from sarqc.engine.plan import window_for
from sarqc.engine.result import fill_in_summary
from sarqc.engine.run import RunContext
from sarqc.engine.stamp import stamp_of
from sarqc.evaluation.speed import measure_speed
from sarqc.events import Event, Stage


def measure_quantized(run: RunContext) -> Iterator[Event]:
    """Stamp the quantized model, and measure it on the test text, tasks and prompts, and its speed."""
    bench, prepared, loaded = run.bench, run.prepared, run.bench.loaded
    lam = None if run.selection is None else run.selection.lam
    run.stamp = stamp_of(prepared, loaded, run.job, lam, run.hashes)
    run.quantized = yield from measure(bench, prepared, "quantized", run.quantized_key, run.states)
    texts = yield from compare_prompts(bench, prepared, run.float_texts, run.quantized_key)
    fill_in_summary(run)
    run.summary["texts"] = [event.comparison() for event in texts]
    if run.recipe.speed:
        yield Stage("measuring speed")  # anew each time: a time is not worth storing
        window = window_for(loaded.checkpoint.max_positions, None)
        speed = measure_speed(loaded, run.layers, run.job.grids, window)
        yield speed
        run.summary["speed"] = speed.speed()
