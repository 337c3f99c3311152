"""The stages of a run that quantizes or repairs which write its results."""

from __future__ import annotations

from collections.abc import Iterator

from sarqc.checkpoints.formats import check_format, is_no_gain
from sarqc.engine.page_codes import keep_codes
from sarqc.engine.run import Run
from sarqc.engine.saved_model import save_model, save_repaired
from sarqc.engine.study_output import write_run
from sarqc.events import Event, Saved, Stage, Warned


def save_study(run: Run) -> Iterator[Event]:
    """Write the study, and beside it the codes for pages."""
    if run.output.study is not None:
        yield Stage("saving", "study")
        study = write_run(run, run.output.study)
        keep_codes(run, run.bench.loaded, run.layers, study, run.bench.settings)
        yield Saved("study", str(run.output.study))


def save_checkpoint(run: Run) -> Iterator[Event]:
    """Write the quantized model, or the repaired checkpoint if that is an improvement."""
    if run.output.checkpoint_dir is None:
        return
    if run.is_float:
        for _ in run.bench.calibrated(run.job, run.solved):
            pass  # the run's own layers, from the store: they were told
        if run.tuning is not None:
            run.tuning.put()
    repair = run.summary["repair"]
    if repair is not None and is_no_gain(repair):
        yield Warned("nothing was written: the file as it was found is as good or better", "checkpoint")
    elif run.imported is not None:
        yield from save_repaired(run, run.imported.opened, run.output.checkpoint_dir)
    else:
        yield from save_model(run, run.output.checkpoint_dir, check_format(run.recipe, run.output.checkpoint_format))
