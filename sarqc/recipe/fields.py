"""Fields of a recipe, and conclusions from their values."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from sarqc.errors import Refused, in_recipe, refused_for
from sarqc.quantization.methods import (
    AS_FOUND,
    METHODS,
    MOST_EPOCHS,
    MOST_PASSES,
    MOST_ROUNDS,
    ExpertDamping,
    Method,
    MethodEntry,
    Normalise,
    Order,
    Range,
    ScaleMode,
    Stopping,
    WarmStart,
    entry_of,
    method,
    public_method,
)
from sarqc.quantization.storage import Kind
from sarqc.recipe.effort import EFFORTS, UNDISTILLED, Effort, Fitting, fitting_of


def _group_size(value: Any) -> Any:
    return None if value in ("per_channel", "per-channel", "none", 0, "0") and value is not False else value


def _public(value: Any) -> Any:
    return public_method(value) if isinstance(value, str) else value


def _sound(text: str) -> str:
    """Return a text that can name a file; pydantic refuses halves of characters.

    Raises:
        ValueError: If it holds a NUL.
    """
    if "\0" in text:
        raise ValueError("it holds a NUL, which ends text where it should not")
    return text


def _one_line(text: str, info: ValidationInfo) -> str:
    """Return a text of a single line; every line end counts, U+0085, U+2028 and U+2029 included.

    A line end would break a script or a file made of a recipe.
    """
    name = info.field_name or ""
    is_prompt, is_line = name == "prompts", len(f"{text}.".splitlines()) == 1
    if is_line and (text.strip() or not is_prompt):
        return text
    if is_prompt:
        what = f"{text[:40]!r} is not one line of text"
        raise Refused(what, in_recipe("prompts"), "Give each prompt on its own line.")
    raise refused_for(name, f"{name} has a line break in it: {text[:40]!r}", "Give it on one line.")


# In documents a word, not null: there null stands for a value left open.
_PER_CHANNEL = PlainSerializer(
    lambda value: "per_channel" if value is None else value, return_type=int | str, when_used="json"
)
_GroupSize = Annotated[int | None, BeforeValidator(_group_size), _PER_CHANNEL]
Begin = Literal["auto", "bos", "none"]
DistillBy = Literal["model", "block"]
NAME_LENGTH = 1024  # characters
PROMPTS, PROMPT_LENGTH = 32, 8000
TASKS, SWEEP, BLOCKS, DRAWS = 64, 256, 1024, 64
# The largest numbers, which no serious recipe meets: what follows from them stays finite, and a run comes to an end.
LARGEST = 1e9  # λ, and what else weighs a term
MOST_SEQUENCES, MOST_TOKENS = 100_000, 1 << 20  # of a text, and in a sequence or window
MOST_OF_A_TEST = 10**9  # tokens, or items of a task
LAST_BLOCK, WIDEST = 9999, 1 << 20  # a number of a block; channels of a group
MOST_LEARNING = 100_000  # steps or epochs of a learned method
YEAR = 366 * 24 * 60  # minutes
LAST_SEED = 2**53 - 1  # the last whole number that JSON carries exactly everywhere
_Weight = Annotated[float, Field(ge=0, le=LARGEST)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Name = Annotated[str, Field(max_length=NAME_LENGTH), AfterValidator(_sound), AfterValidator(_one_line)]
_Prompt = Annotated[str, Field(max_length=PROMPT_LENGTH), AfterValidator(_sound), AfterValidator(_one_line)]


Purpose = Literal["run", "tune", "ladder"]
KINDS: tuple[Purpose, ...] = get_args(Purpose)
# Tuning and a ladder draw at random, from the float model's inputs; a ladder has a method and fittings of its own.
ONE_MODEL: tuple[Purpose, ...] = ("run",)
NO_LADDER: tuple[Purpose, ...] = ("run", "tune")
COMPARING: tuple[Purpose, ...] = ("tune", "ladder")
Words = str | dict[str, str]  # of every value, with {value} in its place, or of each
# Place of a field in the form: in sight, in the fold, or in the fold once it has a value. A field without a place keeps
# the value that a run or an address gives it.
Form = Literal["first", "fold", "given", "none"]


@dataclass(frozen=True)
class Descriptor:
    """Everything about a field of a recipe beside the title, help and bounds that pydantic holds.

    Form, flags, REST, reference, labels of lines, refusals and former names are made of it.
    """

    section: str
    unit: str = ""
    form: Form = "none"
    separator: str = ","  # of the entries of a list written as text: a comma, or a line break
    in_a_shell: str = ""  # help of the command alone
    kinds: tuple[Purpose, ...] = KINDS  # of recipes to which it means something
    label: Words = ""  # of a line whose solver is fitted otherwise than by default; “”: labels do not say it
    short: Words = ""  # the same where there is little room; “”: the label
    opened: str = ""  # why a quantized checkpoint leaves no choice of it
    newer: bool = False  # than many records: documents leave it out at its default, so that fingerprints stay
    former: str = ""  # name, accepted until 1.1
    before: Any = None  # value that has the effect of runs before the field existed, where the default has not

    def __call__(self, schema: dict[str, Any]) -> None:
        """Leave a JSON schema as it is: pydantic calls what it keeps with a field."""


def _field(section: str, default: Any, title: str, **more: Any) -> Any:
    """Return a field whose help follows it; ``...`` for ``default``: it has to be given.

    ``more``: values of ``Descriptor``, and arguments of pydantic.
    """
    about = Descriptor(section, **{name: more.pop(name) for name in Descriptor.__dataclass_fields__ if name in more})
    if about.newer:
        more["exclude_if"] = lambda value: value == default
    return Field(default, title=title, json_schema_extra=about, **more)


# A field of each section of the form.
_model, _size, _method, _text, _measure, _tune = (
    partial(_field, section) for section in ("model", "size", "method", "text", "measure", "tune")
)
_WHOLE, _SCALES_STAY = "it is measured as a whole", "its scales stay"  # of a quantized checkpoint
_distillation = partial(_method, kinds=ONE_MODEL, opened=_SCALES_STAY, newer=True)
_PATH = "A path is taken too."  # on the command line, which reads the files of the user

BASELINE = "gptq"  # what runs are compared with
# What tuning compares where nothing else is asked for.
TUNED_LAMS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
TUNED_GAMMAS = (0.0, 0.1, 0.5, 1.0)
TUNED_TEST_TOKENS = 1 << 16  # on which λ are compared: enough beside the difference between draws

# Values from a block on, by the values that they follow.
LATER_VALUES = {"then_lam": "lam", "then_gamma": "gamma"}

SET_BY_EFFORT = (*EFFORTS["best"], "held_out_samples")

MOST_PATTERNS = 100  # of layers


class RecipeFields(BaseModel):
    """The fields, from which flags, form labels and the reference page are generated; ``lambda`` is the public spelling
    of ``lam``. What they may be together is checked by ``Recipe``.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    model: _Name = _model(..., "Model", form="first", in_a_shell=_PATH, min_length=1)
    """A model of this host or a name on the Hub."""
    revision: _Name | None = _model(None, "Revision")
    """Commit, tag or branch of a Hub model."""
    quantized_checkpoint: _Name | None = _model(
        None, "Quantized checkpoint", form="fold", in_a_shell=_PATH, min_length=1, former="opened"
    )
    """A quantized checkpoint of this model, to measure (method as-found) or to solve again (a GPTQ method). Bits, grid
    and group size come from it."""
    kind: Purpose = _tune("run", "Purpose")
    """run quantizes the model once. tune compares values of λ and keeps the best ones for a later run. ladder measures
    the gain of each step, from rounding to nearest to refined codes."""
    bits: int = _size(3, "Bits", form="first", ge=2, le=4)
    """Bits per weight, 2 to 4."""
    grid: Kind = _size(
        "asymmetric",
        "Grid",
        form="fold",
        label={
            "symmetric": "symmetric grid",
            "full_range": "full-range grid",
            "asymmetric": "asymmetric grid",
            "affine": "affine grid",
        },
        short="{value}",
    )
    """How the quantization levels of a group are placed."""
    group_size: _GroupSize = _size(128, "Group size", form="fold", unit="channels", ge=1, le=WIDEST)
    """Consecutive input channels that share a scale; per_channel gives each output row one scale."""
    indivisible: Literal["refuse", "per_channel"] = _size("refuse", "Indivisible layers")
    """What to do with a layer whose width the group size does not divide."""
    blocks: tuple[Annotated[int, Field(ge=0, le=LAST_BLOCK)], ...] = _size(
        (), "Blocks", max_length=BLOCKS, opened=_WHOLE
    )
    """Numbers of the blocks to quantize, from 0; the others stay float. Empty: all."""
    block_fraction: float | None = _size(None, "Fraction of blocks", gt=0, le=1, opened=_WHOLE, former="share")
    """Fraction of the blocks to quantize, spread evenly; the others stay float. Empty: all."""
    # A single star in its help, as two are emphasis.
    exclude: tuple[_Name, ...] = _size((), "Excluded layers", max_length=MOST_PATTERNS, opened=_WHOLE)
    """Names of layers that stay float. A star stands for any characters, as in *.down_proj."""
    include: tuple[_Name, ...] = _size((), "Included layers", max_length=MOST_PATTERNS, opened=_WHOLE, newer=True)
    """Names of small layers, with few rows or columns, to quantize as well; the plan lists those that stay float. A
    star stands for any characters."""
    method: Annotated[_Name, BeforeValidator(_public)] = _method("sarqc-gbs", "Method", form="first")
    """How the integer weights are chosen."""
    # An input: replaced by the fields that it stands for, and in no document of a recipe.
    effort: Effort | None = _method(None, "Effort", exclude=True, kinds=NO_LADDER)
    """quick, balanced or best: how much time to spend on fitting the grid. Sets range, order, refinement, refit and
    distillation where the method supports them and you have not set them yourself. Empty: sets none."""
    lam: _Weight | Literal["auto"] | None = _method(None, "λ", form="first", alias="lambda")
    """Weight of the penalty: a number, or “auto” to choose it on part of the calibration text. Empty: the method's
    default."""
    gamma: _Share | Literal["auto"] | None = _method(None, "γ", form="first")
    """How saliency mixes activations (1) and weights (0): a number or “auto”. Empty: the method's default."""
    shift_strength: _Weight | Literal["auto"] | None = _method(None, "α", form="fold")
    """How far GPTAQ shifts towards the float model's inputs (1: all the way): a number or “auto”. Empty: the method's
    default."""
    from_block: int | None = _method(None, "From block", form="given", ge=1, le=LAST_BLOCK, newer=True)
    """Blocks from this one on (counted from 0) use the two values below. Earlier blocks stay the same, so their
    finished layers are reused. Empty: one λ and γ everywhere."""
    then_lam: _Weight | None = _method(None, "λ from there", form="given", alias="then_lambda", newer=True)
    """λ from that block on. Empty: unchanged."""
    then_gamma: _Share | None = _method(None, "γ from there", form="given", newer=True)
    """γ from that block on. Empty: unchanged."""
    validation_share: float = _method(0.25, "Validation share", form="fold", gt=0, lt=1)
    """Share of the calibration sequences, from the end, on which “auto” judges its candidates. The final solve uses all
    sequences."""
    channel_fraction: float = _method(
        1.0, "Channel fraction", gt=0, le=1, opened="its codes are compared on all channels"
    )
    """Share of the input channels, in whole groups, on which “auto” compares the candidates of a layer."""
    mode: ScaleMode = _method("per_linear", "Scale search mode", form="fold")
    """Separate scales for each linear, or scales shared by the linears that read the same tensor, which can then be
    folded into the operation before."""
    epochs: int | None = _method(None, "Epochs", form="fold", ge=1, le=MOST_LEARNING)
    """Passes of learned clipping over the calibration text. Empty: 20, or 40 at 2 bits."""
    steps: int = _method(200, "Steps", form="fold", ge=1, le=MOST_LEARNING)
    """Steps of learned rounding, each on 8 calibration sequences."""
    warm_start: WarmStart = _method(
        "none",
        "Warm start",
        form="fold",
        label={
            "gptq": "started from GPTQ's codes",
            "column_solver": "started from the column solver's codes",
        },
        short="warm",
    )
    """Where learned rounding starts: at the nearest codes (none); at GPTQ's codes with the same range and order, as far
    as they are adjacent to the nearest ones (gptq); or exactly at the column solver's codes with the same λ, range,
    order and refinement (column_solver)."""
    stopping: Stopping = _method(
        "none", "Early stopping", form="fold", label={"early": "stopped early"}, short="stopped", newer=True
    )
    """early: held-out samples judge each block 20 times during learned rounding, and the best state is kept, possibly
    the initial one. none: all steps are made and judged on calibration samples."""
    normalise: Normalise = _method("initial", "Balance of the two terms")
    """Whether learned methods divide reconstruction and drift by their initial values (initial) or use both as they are
    (none)."""
    include_identity: bool = _method(True, "Try no scaling too")
    """Let scale searches consider plain rounding too, which the paper's grid leaves out."""
    static_groups: bool = _method(False, "Static groups")
    """Column solvers compute the scale of each group from the original weights."""
    range: Range = _method(
        "minmax",
        "Range of a group",
        form="fold",
        kinds=NO_LADDER,
        label={"search": "searched range", "joint": "jointly searched range"},
        short={"search": "range", "joint": "joint range"},
    )
    """Range of the levels in a group: minimum to maximum (minmax), or the clipping with the smallest weighted error,
    with both ends clipped equally (search) or separately (joint)."""
    order: Order = _method(
        "natural",
        "Order of columns",
        form="fold",
        kinds=NO_LADDER,
        label={"activation": "activation order"},
        short="order",
    )
    """Order in which column solvers take columns: as stored (natural), or those with the largest inputs first, with
    static groups (activation)."""
    refine: int = _method(
        0, "Refinement", form="fold", unit="passes", ge=0, le=MOST_PASSES, label="refined × {value}", short="×{value}"
    )
    """Passes of coordinate descent over the codes, which move each weight in turn to its best level. 0: none."""
    refit: int = _method(
        0,
        "Refit of scales",
        unit="rounds",
        ge=0,
        le=MOST_ROUNDS,
        label="scales refitted × {value}",
        short="refit ×{value}",
        opened=_SCALES_STAY,
        newer=True,
    )
    """Rounds in which the scales are fitted to the codes by least squares, each followed by refinement. 0: none."""
    distill: int = _distillation(
        0,
        "Distillation of scales",
        unit="epochs",
        ge=0,
        le=MOST_EPOCHS,
        label="scales distilled",
        short="distilled",
    )
    """Maximum number of epochs in which the scales of the whole model are tuned towards the float model's predictions.
    Held-out samples choose the best epoch. 0: no distillation."""
    distill_by: DistillBy = _distillation(
        "model",
        "Distillation by",
        label={"block": "block by block"},
        short="by block",
    )
    """model: match the predictions of the whole model, which must fit in memory with its gradients. block: match the
    outputs of each float block in turn, which also works for mixtures and large models."""
    distill_codes: bool = _distillation(
        False,
        "Distillation of codes",
        label="codes distilled",
        short="codes",
    )
    """Tune the codes along with the scales: a code may move to another level. Takes 8 more bytes per weight."""
    distill_norms: bool = _distillation(
        False,
        "Distillation of norms",
        label="norms distilled",
        short="norms",
    )
    """Tune the weights of the model's norms along with the scales."""
    distill_lambda: _Weight | None = _distillation(
        None,
        "λ of distillation",
        label="distilled at λ = {value}",
        short="at {value}",
    )
    """Weight of the penalty on drift during distillation. Empty: the λ at which each layer was solved."""
    rotate: Literal["none", "r1", "r1+r2"] = _method(
        "none",
        "Rotation",
        kinds=ONE_MODEL,
        label={"r1": "residual stream rotated", "r1+r2": "residual stream and values rotated"},
        short={"r1": "rotated", "r1+r2": "rotated with values"},
        opened="its codes are those of its own basis",
        newer=True,
    )
    """r1 multiplies the residual stream by a random Hadamard matrix before calibration, which spreads outliers over all
    channels; norms are folded into linears, and a tied head becomes a tensor of its own. r1+r2 also rotates the
    values of each attention head."""
    expert_damping: ExpertDamping = _method(
        "plain", "Experts with few tokens", label="starved experts damped", short="damped", former="starved"
    )
    """The same λ for every linear (plain), or a larger λ for experts to which the router sent few calibration tokens
    (damped): λ (1 + width / tokens)."""
    first_order: float = _method(0.0, "β", ge=0, le=1, kinds=NO_LADDER, label="β {value}", newer=True)
    """Weight of FOEM's first-order term, from 0 to 1: how strongly column solvers pull the compensation of each column
    back towards the original weights."""
    calibration: _Name = _text(
        ...,
        "Calibration text",
        form="first",
        in_a_shell=f"{_PATH} In a file of rows, a column may be named: rows.jsonl#content.",
        min_length=1,
    )
    """Text that fits the layers. Choose text like what the model will see."""
    samples: int = _text(32, "Samples", form="fold", unit="sequences", ge=1, le=MOST_SEQUENCES)
    """Calibration sequences."""
    length: int = _text(256, "Length", form="fold", unit="tokens", ge=2, le=MOST_TOKENS)
    """Tokens in each sequence."""
    sampling: Literal["sequential", "random"] = _text("sequential", "Sampling", kinds=ONE_MODEL)
    """Take sequences from the beginning of the text (sequential), or draw them by the seed (random)."""
    begin: Begin = _text("auto", "Begin token", before="none")
    """auto starts each sequence and test window with the tokens that the model's tokenizer puts before a text; bos with
    its bos_token, as some chat templates do where the tokenizer puts nothing; none cuts the text as it is. Most
    published perplexities use none."""
    held_out_samples: int = _text(0, "Held-out samples", form="fold", unit="sequences", ge=0, le=MOST_SEQUENCES)
    """Further sequences of the same text, on which the error is measured and nothing is fitted."""
    inputs_from: Literal["quantized", "float"] = _text(
        "quantized", "Inputs from", kinds=ONE_MODEL, opened="its layers are measured behind its own blocks"
    )
    """Where the inputs of a block come from: the quantized blocks before it or, for exploring, the float ones."""
    seed: int = _text(0, "Seed", ge=0, le=LAST_SEED)
    """Seed of every random choice."""
    test: _Name | None = _measure(None, "Test text", form="first", in_a_shell=_PATH)
    """Text on which perplexity is measured."""
    window: int | None = _measure(None, "Window", unit="tokens", ge=2, le=MOST_TOKENS)
    """Tokens that the model sees at once when perplexity is measured. Empty: 2048, or the model's maximum if that is
    smaller."""
    test_tokens: int | None = _measure(None, "Test tokens", unit="tokens", ge=2, le=MOST_OF_A_TEST)
    """Use only this many tokens from the beginning of the test text. Empty: all; for tuning and ladders, the first
    65,536."""
    baseline: bool = _measure(True, "Compare with GPTQ", kinds=ONE_MODEL)
    """Also run GPTQ 1 % on the same texts and grid, and measure the difference."""
    tasks: tuple[_Name, ...] = _measure((), "Tasks", form="fold", max_length=TASKS, kinds=ONE_MODEL)
    """lm-eval tasks on which the accuracy of the float and the quantized model is measured."""
    task_limit: int | None = _measure(None, "Task limit", unit="items", ge=1, le=MOST_OF_A_TEST, kinds=ONE_MODEL)
    """Items per task; empty: all."""
    prompts: tuple[_Prompt, ...] = _measure(
        (), "Prompts", form="fold", separator="\n", max_length=PROMPTS, kinds=ONE_MODEL
    )
    """Texts that both models continue side by side, one per line."""
    new_tokens: int = _measure(48, "New tokens", unit="tokens", ge=1, le=512, kinds=ONE_MODEL)
    """Tokens to generate for each prompt."""
    speed: bool = _measure(
        False, "Speed", form="fold", kinds=ONE_MODEL, opened="its speed is that of the engine that it was made for"
    )
    """Measure tokens per second, with 4-bit codes in a real kernel."""
    layer: _Name | None = _measure(None, "Only this layer", opened=_WHOLE, former="only")
    """Full name of a single linear to explore; nothing else is quantized."""
    sweep: tuple[_Weight, ...] = _measure(
        (),
        "λ curve",
        form="fold",
        max_length=SWEEP,
        kinds=NO_LADDER,
        opened="its codes are solved at one λ, or at that of “auto”",
    )
    """Further values of λ at which every layer is solved as well, for the curves. In tuning: the values to compare;
    empty: 0 to 10."""
    minutes: float | None = _tune(None, "Budget", unit="minutes", gt=0, le=YEAR, kinds=COMPARING)
    """Time limit of tuning or a ladder, whose statements hold whenever it ends. Empty: until λ is known or all draws
    are made."""
    draws: int = _tune(8, "Draws", unit="draws", ge=2, le=DRAWS, kinds=COMPARING)
    """Maximum number of calibration draws that tuning or a ladder compares."""
    band: float | None = _tune(None, "Narrow enough", gt=1, le=LARGEST, kinds=("tune",))
    """Stop when the largest λ that is not significantly different from the best is at most this many times the
    smallest. Empty: stop when further draws would not tell more of them apart."""

    @field_validator("tasks", "sweep", "prompts", "blocks", "exclude", "include", mode="before")
    @classmethod
    def _split(cls, value: Any, info: ValidationInfo) -> Any:
        """Split “a, b” into two entries, as a flag and a text field say it; entries with commas stand on lines."""
        if not isinstance(value, str):
            return value
        if separator(info.field_name or "") == "\n":
            return tuple(line for line in re.split("\r?\n", value) if line.strip())
        if info.field_name == "sweep" and "." not in value and re.search(r"\d,\d", value):
            remedy = "Write 0.1 for one value, or “0, 1” with a blank for two."
            raise refused_for("sweep", f"“{value}” can be read in two ways", remedy)
        return tuple(part.strip() for part in value.split(",") if part.strip())

    def to_method(self) -> Method:
        """Return the method object.

        A field that is empty or “auto” takes the method's own default; see ``ignored`` for fields without effect.

        Raises:
            Refused: If the method or one of its values is not valid.
        """
        entry = entry_of(self.method)
        if entry is None:
            return method(self.method)  # which refuses it
        values = {name: getattr(self, name) for name in entry.tunes}
        choices = {name: value for name, value in values.items() if value not in (None, "auto")}
        idle = self.idle_options()
        return entry.make.with_(**choices, **{name: getattr(self, name) for name in entry.options if name not in idle})

    def idle_options(self) -> dict[str, str]:
        """Return the options that lack the value of another field, each with the reason that it has no effect."""
        return {
            name: why
            for name, (other, value, why) in known_entry(self.method).make.conditions.items()
            if getattr(self, name) != type(self).model_fields[name].default
            and (getattr(self, other) != value if value else not getattr(self, other))
        }

    def later_method(self) -> Method | None:
        """Return the method from ``from_block`` on; None if one method is that of all blocks.

        Raises:
            Refused: If the method or one of its values is not valid.
        """
        if self.from_block is None:
            return None
        values = {name: getattr(self, later) for later, name in LATER_VALUES.items()}
        return self.to_method().with_(**{name: value for name, value in values.items() if value is not None})

    @property
    def rotates(self) -> bool:
        """True if the residual stream is rotated before calibration."""
        return self.rotate != "none"

    @property
    def repairs(self) -> bool:
        """True if the codes of a quantized checkpoint are solved again."""
        return self.quantized_checkpoint is not None and self.method != AS_FOUND

    @property
    def distills(self) -> bool:
        """True if the scales are tuned by the predictions of the whole model; see ``ignored`` for recipes without."""
        return self.distill > 0 and self.kind == "run" and self.layer is None and self.to_method().has_free_scales

    def distilling(self) -> Fitting:
        """Return the fields of the distillation that are not plain; empty without one."""
        values = {name: getattr(self, name) for name in DISTILLATION} if self.distills else {}
        return {
            name: f"{value:g}" if isinstance(value, float) else 1 if value is True else value
            for name, value in values.items()
            if value != type(self).model_fields[name].default
        }

    def amounts_to(self, *, can_distill: bool = True) -> Effort | None:
        """Return the effort whose fields the recipe holds; None if it has a fitting of its own or no choice of effort.

        Args:
            can_distill: False for a model whose scales can't be distilled, so that no effort does.
        """
        by_effort = self.efforts(can_distill=can_distill)
        own = (
            effort
            for effort, fitting in by_effort.items()
            if all(getattr(self, name) == value for name, value in fitting.items())
        )
        return next(own, None) if len(by_effort) > 1 else None

    def efforts(self, *, can_distill: bool = True) -> dict[Effort, Fitting]:
        """Return the fields of each effort that mean something here, without efforts that are like a quicker one.

        Args:
            can_distill: False for a model whose scales can't be distilled.
        """
        fittings: dict[Effort, Fitting] = {}
        for effort in EFFORTS:
            fitting = fitting_of(effort, self.to_json())
            if not can_distill:
                fitting = {name: value for name, value in fitting.items() if name not in UNDISTILLED}
            if fitting not in fittings.values():
                fittings[effort] = fitting
        return fittings

    @property
    def compares_models(self) -> bool:
        """True if models are compared over calibration draws, by tuning or as a ladder, and none is kept."""
        return self.kind != "run"

    def compared(self) -> tuple[tuple[float, ...], tuple[float | None, ...]]:
        """Return the λ and the γ that tuning compares by the errors of layers; γ is (None,) for a method without γ."""
        lams, own = tuple(sorted({*(self.sweep or TUNED_LAMS)})), self.to_method().gamma
        if own is None or self.gamma not in (None, "auto"):
            return lams, (own,)
        return lams, tuple(sorted({*TUNED_GAMMAS, own}))

    def unseen_samples(self) -> int:
        """Return the number of held-out sequences.

        Comparing models needs some: by default half as many as samples.
        """
        return self.held_out_samples or (max(1, self.samples // 2) if self.compares_models else 0)

    def tokens_of_test(self) -> int | None:
        """Return the number of first tokens of the test text that are measured; None for all.

        Draws differ by more than windows of the text do, so the default of what compares models over draws is
        ``TUNED_TEST_TOKENS``.
        """
        return self.test_tokens or (TUNED_TEST_TOKENS if self.compares_models else None)

    def blocks_of(self, n_blocks: int) -> tuple[int, ...] | None:
        """Return the numbers of the blocks to quantize, in order; None for all.

        Args:
            n_blocks: Number of blocks of the model.

        Raises:
            Refused: If the model does not have one of the blocks.
        """
        if self.block_fraction is not None:
            count = max(1, round(self.block_fraction * n_blocks))
            return tuple((2 * part + 1) * n_blocks // (2 * count) for part in range(count))
        for number in self.blocks:
            if number >= n_blocks:
                raise Refused(
                    f"no block {number}",
                    in_recipe("blocks"),
                    f"The model's blocks are 0 to {n_blocks - 1}.",
                )
        return tuple(sorted({*self.blocks})) or None

    def candidates(self) -> tuple[Method, ...]:
        """Return the candidates of “auto”, see ``Candidates.points``; empty if “auto” has nothing to choose."""
        if self.compares_models:
            return ()
        entry, base = known_entry(self.method), self.to_method()
        tuned = [name for name in entry.tunes if getattr(self, name) == "auto"]
        if entry.auto is None or not tuned:
            return ()
        return tuple(entry.auto.points(base, tuned))

    def auto_by(self) -> Literal["layer", "model"] | None:
        """Return the scope of “auto”, each layer or the whole model; None if it has nothing to choose."""
        auto = known_entry(self.method).auto
        return auto.by if auto is not None and self.candidates() else None

    def validation_samples(self) -> int:
        """Return the number of calibration sequences, the last ones, on which “auto” judges.

        It is at least 1, and at least one sequence is left to solve on.
        """
        return min(max(1, round(self.validation_share * self.samples)), self.samples - 1)

    def baseline_method(self) -> Method:
        """Return the baseline of a run, with the run's fitting of the grid as far as this method has it.

        The difference is then that of the penalty and not of the grid, as in tuning.
        """
        own = {*known_entry(self.method).options} - {*self.idle_options()}
        return method(BASELINE, **{name: getattr(self, name) for name in METHODS[BASELINE].options if name in own})

    def why_no_baseline(self) -> str:
        """Return the reason why a run has no comparison with the baseline; empty if it has."""
        if self.test is None:
            return "no test text"
        if self.layer is not None:
            return "a single layer is quantized"
        if self.quantized_checkpoint is not None and self.group_size == 1:
            return "its groups are not contiguous, and no grid here is like its own"
        is_baseline = (
            self.quantized_checkpoint is None
            and not self.candidates()
            and not self.distills
            and self.to_method() == self.baseline_method()
        )
        return "it is that itself" if is_baseline else ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data under the public names; ``Recipe.parse`` of it gives an equal recipe.

        Fields that are newer than many records are left out where nothing is given for them.
        """
        return self.model_dump(mode="json", by_alias=True)

    def differences(self) -> dict[str, Any]:
        """Return the required fields and all that differ from the defaults, as plain data under the public names.

        ``Recipe.parse`` of it gives an equal recipe.
        """
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def fingerprint(self) -> str:
        """Return 16 hex digits that are equal for equal recipes; those of a recorded recipe do not change."""
        document = dict(given for given in self.to_json().items() if given not in BEFORE.items())
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def field_extra(info: FieldInfo) -> Descriptor:
    """Return the description of a field beside title, help and bounds."""
    extra = info.json_schema_extra
    assert isinstance(extra, Descriptor)
    return extra


for _info in RecipeFields.model_fields.values():
    _info.description = " ".join(str(_info.description).split())  # without the line ends of docstrings
DESCRIPTORS = {name: field_extra(info) for name, info in RecipeFields.model_fields.items()}


def public_name(field: str) -> str:
    """Return the name of a field in documents: its alias if it has one (lam → lambda)."""
    return RecipeFields.model_fields[field].alias or field


DISTILLATION = tuple(name for name in DESCRIPTORS if name.startswith("distill"))  # and its own first
# Former names of fields, accepted until 1.1.
FORMER_NAMES = {about.former: name for name, about in DESCRIPTORS.items() if about.former}
# The effect of runs before a field existed, where its default is different.
BEFORE = {name: about.before for name, about in DESCRIPTORS.items() if about.before is not None}
# How the solver is fitted to a layer: labels of lines say these values where they are not the defaults.
FITTING_WORDS = {name: about.label for name, about in DESCRIPTORS.items() if about.label}
FITTING = tuple(FITTING_WORDS)


def fitting_text(fitting: Mapping[str, str | int | float]) -> str:
    """Return a ``Method.fitting`` in words as “searched range, activation order”; empty for the plain one."""
    return ", ".join(_render_words(FITTING_WORDS[name], value) for name, value in fitting.items())


def short_fitting(fitting: Mapping[str, str | int | float]) -> str:
    """Return the same with one word for each value, as “range order ×3”."""
    return " ".join(
        _render_words(DESCRIPTORS[name].short or FITTING_WORDS[name], value) for name, value in fitting.items()
    )


def _render_words(words: Words, value: object) -> str:
    text = str(value)
    return words.replace("{value}", text) if isinstance(words, str) else words.get(text, text)


def known_entry(name: str) -> MethodEntry:
    """Return the row of a method whose name has been checked."""
    entry = entry_of(name)
    assert entry is not None
    return entry


def method_title(name: str, fitting: Mapping[str, str | int | float] = MappingProxyType({})) -> str:
    """Return the title of a method with its ``Method.fitting`` as “GPTQ 1 %, searched range”.

    An unknown method is called by its public name.
    """
    entry = entry_of(name)
    return ", ".join(filter(None, [name if entry is None else entry.title, fitting_text(fitting)]))


def choice_words(choice: str) -> str:
    """Return a choice of a field as a form shows it."""
    return choice.replace("_", " ")


def shell_help(info: FieldInfo) -> str:
    """Return the help of a field on the command line, which accepts more than the form does."""
    return " ".join(filter(None, (f"{info.title}.", info.description, field_extra(info).in_a_shell)))


def separator(field: str) -> str:
    """Return the separator of the entries of a list written as text: a comma, or a line break."""
    return DESCRIPTORS[field].separator
