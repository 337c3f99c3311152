"""Everything about a run that can be checked before any work. No torch.

``prepare`` checks a recipe against this host and returns what a run starts from, ``Prepared``. ``resolve`` returns what
is queued, ``Job``: the recipe with every value that the host supplies, and its ``Plan``, the job described to a person.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from sarqc.calibration.corpora import (
    Sequences,
    Text,
    check_corpus,
    draw_sequences,
    separate_texts,
    text_of,
)
from sarqc.checkpoints.formats import Carrier, who_can_load
from sarqc.checkpoints.layout import CheckpointLayout
from sarqc.documents import Phase
from sarqc.engine import costs, fit, plan_warnings
from sarqc.engine.budget_plans import BudgetPlan, budget_plan, short_budget_warnings
from sarqc.engine.effort import effort_and_fitting, plan_with_fallbacks, without_effort
from sarqc.engine.imported_checkpoint import plan_fields, with_codes
from sarqc.engine.throughput import pace_of, rates_of_device
from sarqc.errors import Fix, Refused, refused_for
from sarqc.evaluation.tasks import known_task, size_of
from sarqc.files.names import shortened
from sarqc.files.places import place_at
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint, promised_checkpoint
from sarqc.models.families import LayerInfo, fitting_group_sizes
from sarqc.models.hub import NotCached
from sarqc.models.rotation import RotatedCheckpoint, rotated
from sarqc.models.tokenizing import beginning_of, encode_each
from sarqc.recipe import Effort, Fitting, Recipe, choice_words
from sarqc.settings import Settings

_UNPACKED_A_SECOND = 5e7  # bytes of weights, from GGUF files to the disk; a slow host’s


class Plan(BaseModel):
    """The work and the cost of a run, or of a batch of them. ``None``: can't be known before the model is on this
    host, or is not the same for all runs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    runs: int = 1
    model: str
    opened: str = ""  # a checkpoint of that model that others quantized: its format, who made it, and its grid
    family: str | None = None
    parameters: int | None = None
    share_quantized: float | None = None  # 0..1
    layers: int | None = None
    experts: int = 0  # of a block that has most; 0 where all are dense
    per_channel_layers: tuple[str, ...] = ()  # module names that take per channel where the group size does not fit
    bits_per_weight: float | None = None  # of the quantized linears, scales, zero points and biases included
    bytes_before: int | None = None
    bytes_after: int | None = None
    memory_bytes: int | None = None  # of the device, at the peak
    host_bytes: int | None = None  # of the machine beside a GPU
    disk_bytes: int | None = None  # that a run writes to the state folder
    streamed: bool = False  # the weights of a block are on the device only while it is used
    calibration_tokens: int
    calibration_text: str = ""  # number of all its tokens, and of its rows
    test_text: str = ""
    begin: str = ""  # special tokens that each sequence and test window begins with
    test_tokens: int | None = None
    minutes: float | None = None
    minutes_on: str = ""  # whose rates these are
    load: float = 0.0  # of the host, when it answered: processes that want a processor, for each one
    formats: tuple[Carrier, ...] = ()  # who will be able to load the model, by the format it is saved in
    warnings: tuple[str, ...] = ()
    effort: Effort | None = None  # that the recipe amounts to; None: a fitting of its own, or no choice
    fitting: Fitting = {}  # fields of the recipe that efforts set, with its values
    comparing: BudgetPlan | None = None  # of a recipe that compares models: what its budget buys


def together(plans: Sequence[Plan]) -> Plan:
    """Return the plan of a batch: time and disk of all runs, memory of the one that needs most, and all else in which
    they agree.
    """
    values = {name: [getattr(entry, name) for entry in plans] for name in Plan.model_fields}
    agreed = {name: each[0] for name, each in values.items() if all(value == each[0] for value in each)}
    return Plan.model_validate(
        agreed
        | {name: _combine(sum, values[name]) for name in ("minutes", "disk_bytes")}
        | {name: _combine(max, values[name]) for name in ("memory_bytes", "host_bytes", "calibration_tokens")}
        | {
            "runs": len(plans),
            "model": ", ".join(dict.fromkeys(values["model"])),
            "warnings": tuple(dict.fromkeys(words for each in values["warnings"] for words in each)),
        }
    )


def _combine(combine: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    return None if None in values else combine(values)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A recipe with all results of its planning on this host, from which a run goes on."""

    recipe: Recipe
    checkpoint: Checkpoint  # restricted to what the recipe quantizes
    calibration: Text  # that sequences are drawn from
    sequences: Sequences  # calibration and held-out ones, with their protocol
    per_channel: tuple[str, ...]  # names of the linears without groups
    test: Text | None  # as far as perplexity is measured on it
    window: int  # tokens that the model sees at once when perplexity is measured
    prompts: tuple[np.ndarray, ...]  # token ids of each
    streamed: bool  # the weights of a block are on the device only while it is used
    phases: list[Phase]  # at a pace of 1
    shown: Plan
    opened: CheckpointLayout | None = None  # a checkpoint that others quantized, beside the float one
    feeding: dict[str, str] = field(default_factory=dict)  # of the run, see ``check_feeding``


@dataclass(frozen=True, eq=False)
class Job:
    """A recipe as it is queued, and its plan for a person."""

    recipe: Recipe  # with every value that the host supplies: bits, grid and group size of a quantized checkpoint
    plan: Plan
    prepared: Prepared | None = None  # what a run in this process starts from; None: the model is to be fetched


def resolve(recipe: Recipe, settings: Settings) -> Job:
    """Resolve a recipe on this host, in one look at its model and texts.

    A model of the Hub that is not on this host yet is planned from its configuration.

    Raises:
        Refused, NotFound, Unreachable: As ``prepare``.
        NotCached: A quantized checkpoint is given, and the configuration of its float model is not on this host.
    """
    try:
        prepared = prepare(recipe, settings)
    except NotCached as missing:
        job, left_out = plan_with_fallbacks(recipe, partial(_plan_unfetched, missing=missing, settings=settings))
        return replace(job, recipe=without_effort(job.recipe), plan=_with_effort(job.plan, job.recipe, left_out))
    return Job(prepared.recipe, prepared.shown, prepared)


def _plan_unfetched(recipe: Recipe, missing: NotCached, settings: Settings) -> Job:
    if missing.config is None:
        if recipe.quantized_checkpoint is not None:
            raise missing
        shown = Plan(
            model=recipe.model,
            calibration_tokens=recipe.samples * recipe.length,
            formats=who_can_load(recipe, is_mixture=None),
            warnings=(*recipe.ignored(), f"{missing.note}, and sizes are known after that"),
        )
        return Job(recipe, shown)
    checkpoint = promised_checkpoint(recipe.model, missing.config)
    checkpoint = replace(_apply_recipe(checkpoint, recipe), origin=missing.origin)
    recipe, checkpoint, opened = with_codes(recipe, checkpoint, settings)
    per_channel = indivisible_layers(recipe, checkpoint.layers) if opened is None else ()
    tokens = (recipe.tokens_of_test() or 0) if recipe.test else 0
    work = costs.work_of(recipe, checkpoint, per_channel, test_tokens=tokens, span=settings.span)
    shown = _make_plan(work, settings, per_channel, opened)
    timed = f"with at most {tokens:,} tokens of the test text" if tokens else "without the measurements"
    counted = f"{missing.note}. Sizes are those of its configuration, and time is {timed}"
    update: dict[str, Any] = {"warnings": (*shown.warnings, counted)}
    if missing.size:
        update["disk_bytes"] = (shown.disk_bytes or 0) + missing.size
        update["minutes"] = (shown.minutes or 0) + missing.size / _UNPACKED_A_SECOND / 60
    return Job(recipe, shown.model_copy(update=update))


def plan(recipe: Recipe, settings: Settings) -> Plan:
    """Return the plan of a recipe; see ``resolve``."""
    return resolve(recipe, settings).plan


def prepare(recipe: Recipe, settings: Settings, *, download: bool = False) -> Prepared:
    """Check a recipe against this host and return what a run of it needs.

    Distillation that an effort asked for is done block by block or left out, with a warning, where it is not available.

    Raises ``Refused``, ``NotFound`` or ``Unreachable``: a model, text or task that is not there, a group size that
    does not divide, a text that is too short, a window that is too long. Raises ``NotCached`` where the model or a text
    is still on the Hub only and ``download`` does not allow to fetch it; everything that can be checked without is
    checked.
    """
    prepared, left_out = plan_with_fallbacks(recipe, partial(_prepare, settings=settings, download=download))
    requested = prepared.recipe
    return replace(prepared, recipe=without_effort(requested), shown=_with_effort(prepared.shown, requested, left_out))


def _with_effort(plan: Plan, recipe: Recipe, left_out: str) -> Plan:
    can_distill = recipe.distills or not left_out
    effort, fitting = effort_and_fitting(recipe, can_distill=can_distill)
    warnings = (left_out, *plan.warnings) if left_out else plan.warnings
    return plan.model_copy(update={"effort": effort, "fitting": fitting, "warnings": warnings})


def _prepare(recipe: Recipe, settings: Settings, *, download: bool) -> Prepared:
    try:
        checkpoint = checkpoint_of(recipe.model, recipe.revision, settings, download=download)
    except NotCached:
        _check_tasks(recipe, settings)
        for corpus in filter(None, (recipe.calibration, recipe.test)):
            check_corpus(corpus, settings)
        raise
    _check_tasks(recipe, settings)
    recipe, checkpoint, opened = with_codes(recipe, _apply_recipe(checkpoint, recipe), settings, download=download)
    if recipe.length > checkpoint.max_positions:
        raise refused_for(
            "length",
            f"sequences of {recipe.length:,} tokens are longer than the model's {checkpoint.max_positions:,}",
            f"Use {checkpoint.max_positions} or less.",
            _tokens_fix("length", checkpoint.max_positions),
        )
    window = window_for(checkpoint.max_positions, recipe.window)
    prompts = _prompts(recipe, checkpoint)
    per_channel = indivisible_layers(recipe, checkpoint.layers) if opened is None else ()
    _check_storage(recipe, checkpoint)
    calibration, whole_test = (
        text_of(name, checkpoint, settings, begin=recipe.begin, download=download) if name else None
        for name in (recipe.calibration, recipe.test)
    )
    assert calibration is not None
    if whole_test is not None:
        calibration, whole_test = separate_texts(calibration, whole_test)
    sequences = draw_sequences(
        calibration,
        samples=recipe.samples,
        length=recipe.length,
        held_out_samples=recipe.unseen_samples(),
        seed=recipe.seed,
        sampling="random" if recipe.compares_models else recipe.sampling,
    )
    if calibration.written_by:
        sequences = replace(sequences, protocol={**sequences.protocol, "written_by": calibration.written_by})
    beginning = _test_text(recipe, whole_test)
    test = None if beginning is None else beginning.in_windows(window)
    work = costs.work_of(
        recipe,
        checkpoint,
        per_channel,
        test_tokens=0 if test is None else len(test.ids),
        prompt_tokens=sum(map(len, prompts)),
        tasks={name: size_of(name, settings, recipe.task_limit) for name in recipe.tasks},
        span=settings.span,
    )
    shown = _make_plan(work, settings, per_channel, opened)
    phases = costs.phases(work, rates_of_device(settings)[0])
    warnings = plan_warnings.warnings_of_texts(recipe, checkpoint, calibration, sequences, whole_test, beginning)
    update = {
        "warnings": (*warnings, *shown.warnings),
        "begin": calibration.begin.text,
        "calibration_text": _size_words(calibration),
        "test_text": "" if whole_test is None else _size_words(whole_test),
    }
    shown = shown.model_copy(update=update)
    return Prepared(
        recipe,
        checkpoint,
        calibration,
        sequences,
        per_channel,
        test,
        window,
        prompts,
        shown.streamed,
        phases,
        shown,
        opened,
    )


def _apply_recipe(checkpoint: Checkpoint, recipe: Recipe) -> Checkpoint:
    """Return the checkpoint, rotated where that is asked for, with the linears that the recipe quantizes."""
    restricted = in_basis(checkpoint, recipe).restricted(
        recipe.layer, recipe.blocks_of(checkpoint.n_blocks), recipe.exclude, recipe.include
    )
    _check_later(recipe, restricted)
    is_mixture = any(layer.expert is not None for layer in restricted.layers)
    if recipe.distills and recipe.distill_by == "model" and is_mixture:
        raise refused_for(
            "distill",
            "distillation by the predictions of the whole model is not available for mixtures of experts, whose "
            "routing has no gradient",
            "Set distill_by to block.",
            *fit.without_predictions(),
        )
    return restricted


def in_basis(checkpoint: Checkpoint, recipe: Recipe) -> Checkpoint:
    """Return the checkpoint in the basis in which a recipe quantizes it. May raise ``Refused``."""
    return checkpoint if recipe.rotate == "none" else rotated(checkpoint, recipe.rotate, recipe.seed)


def _check_later(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """Raise ``Refused`` where the block from which on λ or γ are others does not part the linears in two."""
    if recipe.from_block is None:
        return
    quantized, block = sorted({layer.block for layer in checkpoint.layers}), recipe.from_block
    if block >= checkpoint.n_blocks:
        what = f"no block {block}"
    elif block <= quantized[0]:
        what = f"no layer is quantized before block {block}"
    elif block > quantized[-1]:
        what = f"no layer is quantized from block {block} on"
    else:
        return
    remedy = "Leave from_block out."
    if len(quantized) > 1:
        remedy = f"Use {quantized[0] + 1} to {quantized[-1]}."
    raise refused_for("from_block", what, remedy)


def _check_tasks(recipe: Recipe, settings: Settings) -> None:
    for task in recipe.tasks:
        known_task(task, settings)


def _test_text(recipe: Recipe, whole: Text | None) -> Text | None:
    """Return the text that perplexity is measured on. Raises ``Refused`` for fewer than two tokens."""
    if whole is None:
        return None
    test = whole.limited(recipe.tokens_of_test(), is_asked=recipe.test_tokens is not None)
    if len(test.ids) < 2:
        raise Refused(
            "the text has fewer than two tokens",
            f"test text {shortened(recipe.test or '')}",
            "Give a longer text.",
        )
    return test


def _size_words(text: Text) -> str:
    rows = "" if text.rows is None else f" in {text.rows:,} rows"
    return f"{len(text.ids):,}{rows}"


def _check_storage(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """Raise ``Refused`` where nothing takes up a channel scale, or where linears that share it have several types."""
    if recipe.to_method().unit != "group":
        return
    if len(plan_warnings.without_source(checkpoint)) == len(checkpoint.layers):
        raise Refused(
            f"no operation of {checkpoint.family.title} can take up channel scales",
            "mode",
            "Use mode per_linear.",
        ).about("mode", Fix(f"Use {choice_words('per_linear')}", {"mode": "per_linear"}))
    first: dict[int, tuple[str, str]] = {}  # by block
    for layer in checkpoint.layers:
        name, own = f"{checkpoint.family.in_file(layer.name)}.weight", checkpoint.dtype_of(f"{layer.name}.weight")
        other, dtype = first.setdefault(layer.block, (name, own))
        if own != dtype:
            raise Refused(
                f"{other} is stored as {dtype} and {name} as {own}",
                checkpoint.name,
                "Use mode per_linear, or a checkpoint whose linears are of one type.",
            )


def _prompts(recipe: Recipe, checkpoint: Checkpoint) -> tuple[np.ndarray, ...]:
    """Return the token ids of each prompt. Raises ``Refused`` for one that is empty or leaves no room to go on."""
    place = checkpoint.folder, checkpoint.name, checkpoint.architecture.vocab_size
    prompts = []
    for number, (prompt, ids) in enumerate(zip(recipe.prompts, encode_each(recipe.prompts, *place), strict=True), 1):
        if recipe.begin == "bos":
            own, begin = (beginning_of(*place, rule).ids for rule in ("auto", "bos"))
            ids = np.concatenate([begin, ids[len(own) :]]).astype(np.int64)
        tokens, room = len(ids), checkpoint.max_positions - recipe.new_tokens
        if not 0 < tokens <= room:
            most = f"{checkpoint.max_positions:,}"
            where = f"recipe, prompts, number {number}: “{prompt[:40]}”"
            if not tokens:
                raise Refused("the prompt has no token", where, "Write something in it.")
            raise Refused(
                f"{tokens:,} tokens and {recipe.new_tokens:,} new ones are more than the model's {most}",
                where,
                f"Use a prompt of {room:,} tokens or less, or fewer new tokens."
                if room > 0
                else f"Use fewer than {most} new tokens.",
            )
        prompts.append(ids)
    return tuple(prompts)


def window_for(max_positions: int, window: int | None) -> int:
    """Return the tokens a model sees at once: as asked, else 2048 or its maximum. Raises ``Refused`` above that."""
    if window is not None and window > max_positions:
        raise Refused(
            f"a window of {window:,} tokens is longer than the model's {max_positions:,}",
            "window",
            f"Use {max_positions:,} or less.",
        ).about("window", _tokens_fix("window", max_positions))
    return window or min(costs.DEFAULT_WINDOW, max_positions)


def _tokens_fix(field: str, tokens: int) -> Fix:
    return Fix(f"Use {tokens:,} tokens", {field: tokens})


def indivisible_layers(recipe: Recipe, layers: Sequence[LayerInfo]) -> tuple[str, ...]:
    """Return names of the layers whose width the group size does not divide; refuses them unless the recipe allows."""
    if recipe.group_size is None:
        return ()
    odd = [layer for layer in layers if layer.shape[1] % recipe.group_size]
    if odd and recipe.indivisible == "refuse":
        fitting = [str(size) for size in fitting_group_sizes(layers)]
        remedy, fixes = (
            "No usual size fits every layer: give these layers one scale per channel (indivisible: per_channel).",
            [],
        )
        if fitting:
            remedy = (
                f"Here {', '.join(fitting)} fit every layer. Or give these layers one scale per channel (indivisible: "
                "per_channel)."
            )
            fixes = [Fix(f"Use groups of {fitting[0]}", {"group_size": int(fitting[0])})]
        raise Refused(
            f"groups of {recipe.group_size} do not divide the {odd[0].shape[1]} input channels of {odd[0].name}",
            f"group size, {len(odd)} of {len(layers)} layers",
            remedy,
        ).about("group_size", *fixes, Fix("Use one scale per channel there", {"indivisible": "per_channel"}))
    return tuple(layer.name for layer in odd)


def _make_plan(
    work: costs.Work, settings: Settings, per_channel: tuple[str, ...], opened: CheckpointLayout | None
) -> Plan:
    """Return the plan. Raises ``Refused`` where the device has no room for the work, ``NoRoom`` where the disk has
    none.
    """
    recipe, checkpoint, bits = work.recipe, work.checkpoint, work.packed_bits()
    streamed, memory = fit.memory(work, settings)
    disk = costs.disk_bytes(work, on_processor=costs.on_processor(settings), streamed=streamed)
    quantized, (rates, device) = work.task.weights(), rates_of_device(settings)
    if checkpoint.folder.parent == settings.embedded_models_dir():  # whose codes stay beside the study, for pages
        disk += bits // 8
    pace = pace_of(settings, checkpoint.name)
    budgets = None
    if recipe.compares_models and work.test_tokens:
        budgets = budget_plan(costs.comparison_costs(work, rates, pace.factor), recipe)
    shown = Plan(
        model=recipe.model,
        family=checkpoint.family.title,
        parameters=checkpoint.parameters,
        share_quantized=checkpoint.share_quantized,
        layers=len(work.task.shapes),
        experts=max((checkpoint.experts(block) or 0 for block in range(checkpoint.n_blocks)), default=0),
        per_channel_layers=per_channel,
        bits_per_weight=bits / quantized,
        bytes_before=(checkpoint.original if isinstance(checkpoint, RotatedCheckpoint) else checkpoint).size_bytes,
        bytes_after=round(checkpoint.size_bytes - quantized * work.stored + bits / 8),
        memory_bytes=memory,
        host_bytes=None if costs.on_processor(settings) else costs.host_bytes(work),
        disk_bytes=disk,
        streamed=streamed,
        calibration_tokens=work.calibration,
        test_tokens=work.test_tokens or None,
        minutes=costs.minutes(work, rates, pace.factor),
        minutes_on=f"this host, {pace.words}" if pace.words else f"{device}, a first guess",
        formats=who_can_load(
            recipe,
            is_mixture=None if checkpoint.decoder else any(layer.expert is not None for layer in checkpoint.layers),
            layers=checkpoint.layers,
        ),
        warnings=(
            *plan_warnings.warnings_of(recipe, checkpoint, per_channel, streamed=streamed),
            *fit.disk_warnings(disk, settings),
            *short_budget_warnings(budgets, recipe.minutes),
        ),
        comparing=budgets,
    )
    if opened is None:
        return shown
    fields = plan_fields(checkpoint, opened)
    return shown.model_copy(update=fields | {"warnings": (*fields["warnings"], *shown.warnings)})


def check_output_is_free(folder: Path) -> None:
    """Raise ``Refused`` unless a folder can be written as a run's output and holds nothing yet."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused("the output folder is not empty", str(folder), "Give a new folder; nothing is overwritten.")
    check_writable(folder)


def check_can_store(settings: Settings) -> None:
    """Raise ``Refused`` unless a run can store its results: in the state folder and in object storage."""
    check_writable(settings.resolved_state_dir())
    if settings.is_object_storage():
        place_at(settings.storage_root()).mark()


def check_writable(folder: Path) -> None:
    """Raise ``Refused`` unless a folder can be written, or can be made. Nothing is left behind."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".sarqc-", dir=nearest):
            return
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused(f"the folder can't be written: {reason}", str(folder), "Give another folder.") from None
