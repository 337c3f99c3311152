"""Events of a run: a closed set of frozen types with one JSON form each.

``execute`` yields these; the command line prints them, the supervisor stores and relays them, the page draws them.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, cast

from sarqc.documents import (
    AccuracyProtocol,
    Baseline,
    ComparedText,
    Continuations,
    Divergences,
    LadderRun,
    LayerEntry,
    LayerReportDocument,
    PerplexityProtocol,
    Phase,
    Rates,
    RoundingCheck,
    Speed,
    SpeedProtocol,
    Summary,
    TextProtocol,
    Tuning,
    Which,
)

EVENT_TYPES: dict[str, type[Event]] = {}


@dataclass(frozen=True)
class Event:
    """Base of all events; ``type`` names them in JSON and in the SSE stream: “layer_done” is ``LayerDone``."""

    type: ClassVar[str] = "event"

    def __init_subclass__(cls) -> None:
        cls.type = re.sub("(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        EVENT_TYPES[cls.type] = cls

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, **asdict(self)}


@dataclass(frozen=True)
class Started(Event):
    """The model is loaded and the work is known."""

    model: str
    device: str
    layers: list[LayerEntry]  # in the order in which they will be solved
    share_quantized: float  # 0..1, parameters of the quantized linears over all parameters
    finished_layers: int = 0  # linears already on disk from an earlier attempt or an identical request
    phases: list[Phase] = field(default_factory=list)  # what will be done, in order, with what it may take


@dataclass(frozen=True)
class Stage(Event):
    """A new phase: loading, statistics, solving, evaluating, saving."""

    name: str
    detail: str = ""


@dataclass(frozen=True)
class DryRun(Event):
    """The largest block and the largest linear were run once on random numbers, and the device had room for them."""

    block: str
    layer: str
    peak_bytes: int | None  # of the device's memory, the model and all held states included; None where not known
    device_bytes: int | None  # that the device has
    seconds: float


@dataclass(frozen=True)
class Advanced(Event):
    """Progress of a stage that takes long and says nothing else: now and then, not after every step."""

    done: int
    total: int
    what: str  # such as “windows of the test text”


@dataclass(frozen=True)
class LayerDone(Event):
    """One linear is solved (or was found on disk)."""

    name: str
    index: int  # position in Started.layers
    total: int
    report: LayerReportDocument
    seconds: float
    from_cache: bool = False


@dataclass(frozen=True)
class PointDone(Event):
    """One λ of the curve of a run's only layer is solved; a run of several layers does not say so.

    The numbers are those of the curve in the study. They come in the order of λ, and together for those that were
    solved together; a layer that is already on disk reports them again.
    """

    name: str  # of the layer
    index: int  # position on the curve
    total: int  # of its λ
    lam: float
    relative_recon: float | None  # None where no token came
    relative_held_out: float | None  # None without unseen text
    relative_sar: float | None
    relative_drift: float | None


@dataclass(frozen=True)
class EpochDone(Event):
    """One pass of a method that learns over the calibration sequences of a block."""

    block: int
    epoch: int  # 0: before the first step
    epochs: int
    objective: float  # what is minimised
    recon: float  # mean squared error of the block's outputs
    sar: float  # drift term before its factor


@dataclass(frozen=True)
class RoundingChecked(Event):
    """A block whose rounding is learned was measured at a checked step; see ``RoundingCheck``."""

    block: int
    step: int  # 0: before the first
    steps: int  # at most
    error: float
    held_out_error: float
    drift: float


@dataclass(frozen=True)
class BlockRounded(Event):
    """A block whose rounding is learned kept one of its checked states; a block that is on disk says so again."""

    block: int
    kept: int  # number of steps after which it was reached
    checks: list[RoundingCheck]


@dataclass(frozen=True)
class ScalesDistilled(Event):
    """One pass over the calibration sequences that tunes the scales of the whole model; see ``DistilledEpoch``."""

    epoch: int  # 0: before the first step
    epochs: int  # at most
    calibration_kl: float | None
    held_out_kl: float | None
    drift: float | None


@dataclass(frozen=True)
class BlockDistilled(Event):
    """The scales of one block were tuned to the float block's outputs; see ``DistilledBlock``."""

    block: int
    blocks: int  # of the model
    epochs: int
    kept: int
    held_out_before: float | None
    held_out: float | None
    drift_before: float | None
    drift: float | None


@dataclass(frozen=True)
class CandidateDone(Event):
    """One candidate of “auto” for the whole model was judged."""

    lam: float
    index: int
    total: int
    perplexity: float  # on the calibration sequences kept for judging


@dataclass(frozen=True)
class TuningStanding(Event):
    """State of tuning: after the errors of layers are known, after each measurement, and at its end."""

    tuning: Tuning


@dataclass(frozen=True)
class LadderStanding(Event):
    """State of a ladder: at its beginning, after each measurement, and at its end."""

    ladder: LadderRun


@dataclass(frozen=True)
class Measured(Event):
    """One number of the whole model, with the protocol that produced it."""

    quantity: str  # "perplexity", "accuracy"
    which: Which
    value: float
    standard_error: float | None
    protocol: PerplexityProtocol | AccuracyProtocol


@dataclass(frozen=True)
class Diverged(Event):
    """Distance of the quantized model's predictions from the float model's, from the passes of its perplexity."""

    divergences: Divergences


@dataclass(frozen=True)
class Compared(Event):
    """The run was compared with GPTQ on the same texts, or could not be."""

    baseline: Baseline


@dataclass(frozen=True)
class TextsCompared(Event):
    """One prompt was continued by the float and by the quantized model: most probable tokens, and sampled ones."""

    prompt: str
    index: int
    total: int
    greedy: Continuations
    sampled: Continuations
    protocol: TextProtocol

    def comparison(self) -> ComparedText:
        """Return the comparison as summaries and studies hold it."""
        return {"prompt": self.prompt, "greedy": self.greedy, "sampled": self.sampled, "protocol": self.protocol}


@dataclass(frozen=True)
class SpeedMeasured(Event):
    """Tokens per second of the float model and, where a kernel takes its codes, of the quantized one."""

    float: Rates | None
    quantized: Rates | None
    kernel: str | None
    reason: str  # why something is None, else empty
    protocol: SpeedProtocol

    def speed(self) -> Speed:
        """Return the measurement as summaries and studies hold it."""
        return cast(Speed, asdict(self))


@dataclass(frozen=True)
class Saved(Event):
    """Something durable was written: a study or a checkpoint."""

    what: str  # "study", "checkpoint"
    path: str


@dataclass(frozen=True)
class Warned(Event):
    """Something was done otherwise than asked, or deserves a second look. Never silent."""

    what: str
    where: str = ""


@dataclass(frozen=True)
class Finished(Event):
    """The end of a run that succeeded. What happened to each layer is in the study, and in ``LayerDone``."""

    summary: Summary
    seconds: float


@dataclass(frozen=True)
class Failed(Event):
    """The end of a run that did not; the three parts of a SarqcError."""

    kind: str
    what: str
    where: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Cancelled(Event):
    """The end of a run that somebody stopped."""


@dataclass(frozen=True)
class Yielded(Event):
    """The run stepped aside, for one that takes seconds or for want of room; finished layers are kept and it goes on by
    itself.
    """

    what: str
    waits_for_room: bool = False  # on the disk


@dataclass(frozen=True)
class Interrupted(Event):
    """The process was lost; finished layers are kept and the run can be continued."""

    what: str


COMPARING = "comparing layers"  # the stage of a tuning run from which several workers may do it
MEASURING_STEPS = "measuring steps"  # the same of a ladder
SHARED_STAGES = (COMPARING, MEASURING_STEPS)


def from_json(document: dict[str, Any]) -> Event:
    """Return the event that ``to_json`` wrote; an unknown type or field is an error."""
    fields = dict(document)
    return EVENT_TYPES[fields.pop("type")](**fields)
