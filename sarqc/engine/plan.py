"""Everything about a run that can be checked before any work. No torch.

``prepare`` checks a recipe against this host and returns what a run starts from, ``Prepared``. ``resolve`` returns what
is queued, ``Job``: the recipe with every value that the host supplies, and its ``Plan``, the job described to a person.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from sarqc.calibration.corpora import (
    NOT_BY_CHANCE,
    Sequences,
    Text,
    apart,
    check_corpus,
    draw_sequences,
    in_common,
    text_of,
)
from sarqc.checkpoints.formats import Carrier, who_can_load
from sarqc.checkpoints.layout import CheckpointLayout
from sarqc.documents import Phase
from sarqc.engine import costs
from sarqc.engine.budget_plans import LadderPlan, TuningPlan, ladder_plan, too_short, tuning_plan
from sarqc.engine.effort import as_far_as_possible, effort_and_fitting, without_effort
from sarqc.engine.imported_checkpoint import (
    as_it_has_it,
    bits_of_linears,
    described,
    grid_words,
    opened_bytes,
    opened_warnings,
    restricted,
    what_it_is,
)
from sarqc.engine.throughput import pace_of, rates_of_device
from sarqc.errors import Fix, NoRoom, Refused, refused_for
from sarqc.evaluation.tasks import known_task, size_of
from sarqc.files.names import shortened
from sarqc.files.places import place_at
from sarqc.files.room import free_bytes
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint, promised_checkpoint
from sarqc.models.families import LayerInfo, fitting_group_sizes
from sarqc.models.hub import NotCached
from sarqc.models.promised import words_on_unread
from sarqc.models.rotation import RotatedCheckpoint, rotated
from sarqc.models.tokenizing import NOTHING, Beginning, beginning_of, encode_each, facts_of
from sarqc.plain import gib, percent
from sarqc.recipe import TUNED_LAMS, UNDISTILLED, Effort, Fitting, Recipe, choice_words
from sarqc.settings import Settings

_UNPACKED_A_SECOND = 5e7  # bytes of weights, from GGUF files to the disk; a slow host’s
_TOKENS_OF_A_CHANNEL = 2  # with fewer of them undamped codes lose measurably: see “Column solver” in docs/algorithms.md


def _without_predictions() -> tuple[Fix, Fix]:
    """What mends a distillation by the predictions of a model that has none of its own to follow."""
    return Fix("Distill block by block", {"distill_by": "block"}), _without_distillation()


def _without_distillation() -> Fix:
    return Fix("Leave distillation out", {**UNDISTILLED})


class Plan(BaseModel):
    """What a run, or a batch of them, will do and cost. ``None``: can't be known before the model is on this host, or
    is not the same for all runs."""

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
    formats: tuple[Carrier, ...] = ()  # who will be able to load the model, by the format it is saved in
    warnings: tuple[str, ...] = ()
    effort: Effort | None = None  # that the recipe amounts to; None: a fitting of its own, or no choice
    fitting: Fitting = {}  # fields of the recipe that efforts set, with its values
    tuning: TuningPlan | None = None  # of a recipe that tunes: what its budget buys
    ladder: LadderPlan | None = None  # the same of a ladder


def together(plans: Sequence[Plan]) -> Plan:
    """The plan of a batch: time and disk of all runs, memory of the one that needs most, and all else in which they
    agree.
    """
    values = {name: [getattr(one, name) for one in plans] for name in Plan.model_fields}
    agreed = {name: each[0] for name, each in values.items() if all(value == each[0] for value in each)}
    return Plan.model_validate(
        agreed
        | {name: _of_all(sum, values[name]) for name in ("minutes", "disk_bytes")}
        | {name: _of_all(max, values[name]) for name in ("memory_bytes", "host_bytes", "calibration_tokens")}
        | {
            "runs": len(plans),
            "model": ", ".join(dict.fromkeys(values["model"])),
            "warnings": tuple(dict.fromkeys(words for each in values["warnings"] for words in each)),
        }
    )


def _of_all(combine: Callable[[list[Any]], Any], values: list[Any]) -> Any:
    return None if None in values else combine(values)


@dataclass(frozen=True, eq=False)
class Prepared:
    """A recipe with all that planning found out about it on this host: what a run goes on from."""

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
    """A recipe as it is queued, and what a person is shown of it."""

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
        job, left_out = as_far_as_possible(recipe, partial(_promised, missing=missing, settings=settings))
        return replace(job, recipe=without_effort(job.recipe), plan=_with_effort(job.plan, job.recipe, left_out))
    return Job(prepared.recipe, prepared.shown, prepared)


def _promised(recipe: Recipe, missing: NotCached, settings: Settings) -> Job:
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
    checkpoint = replace(_as_asked(checkpoint, recipe), origin=missing.origin)
    recipe, checkpoint, opened = _with_codes(recipe, checkpoint, settings)
    per_channel = indivisible_layers(recipe, checkpoint.layers) if opened is None else ()
    tokens = (recipe.tokens_of_test() or 0) if recipe.test else 0
    work = costs.work_of(recipe, checkpoint, per_channel, test_tokens=tokens, span=settings.span)
    shown = _shown(work, settings, per_channel, opened)
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
    """Checks a recipe against this host and finds out what a run of it needs to know.

    Distillation that an effort asked for is done block by block or left out, with a warning, where it is not available.

    Raises ``Refused``, ``NotFound`` or ``Unreachable``: a model, text or task that is not there, a group size that
    does not divide, a text that is too short, a window that is too long. Raises ``NotCached`` where the model or a text
    is still on the Hub only and ``download`` does not allow to fetch it; everything that can be checked without is
    checked.
    """
    prepared, left_out = as_far_as_possible(recipe, partial(_prepared, settings=settings, download=download))
    asked = prepared.recipe
    return replace(prepared, recipe=without_effort(asked), shown=_with_effort(prepared.shown, asked, left_out))


def _with_effort(plan: Plan, recipe: Recipe, left_out: str) -> Plan:
    can_distill = recipe.distills or not left_out
    effort, fitting = effort_and_fitting(recipe, can_distill=can_distill)
    warnings = (left_out, *plan.warnings) if left_out else plan.warnings
    return plan.model_copy(update={"effort": effort, "fitting": fitting, "warnings": warnings})


def _prepared(recipe: Recipe, settings: Settings, *, download: bool) -> Prepared:
    try:
        checkpoint = checkpoint_of(recipe.model, recipe.revision, settings, download=download)
    except NotCached:
        _check_tasks(recipe, settings)
        for corpus in filter(None, (recipe.calibration, recipe.test)):
            check_corpus(corpus, settings)
        raise
    _check_tasks(recipe, settings)
    recipe, checkpoint, opened = _with_codes(recipe, _as_asked(checkpoint, recipe), settings, download=download)
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
        calibration, whole_test = apart(calibration, whole_test)
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
    shown = _shown(work, settings, per_channel, opened)
    phases = costs.phases(work, rates_of_device(settings)[0])
    warnings = (
        *_of_another_model(calibration, test, checkpoint.name),
        *_of_one_text(sequences, beginning),
        *_of_first_tokens(recipe, whole_test),
        *_of_beginning(recipe, calibration, checkpoint),
    )
    update = {
        "warnings": (*warnings, *shown.warnings),
        "begin": calibration.begin.text,
        "calibration_text": _size_of(calibration),
        "test_text": "" if whole_test is None else _size_of(whole_test),
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


def _with_codes(
    recipe: Recipe, checkpoint: Checkpoint, settings: Settings, *, download: bool = False
) -> tuple[Recipe, Checkpoint, CheckpointLayout | None]:
    """Recipe and checkpoint as a quantized checkpoint of the recipe has them, with that; as they are without one."""
    opened = described(recipe, checkpoint, settings, download=download)
    if opened is None:
        return recipe, checkpoint, None
    return as_it_has_it(recipe, checkpoint, opened), restricted(checkpoint, opened), opened


def _as_asked(checkpoint: Checkpoint, recipe: Recipe) -> Checkpoint:
    """The checkpoint, rotated where that is asked for, with the linears that the recipe quantizes."""
    asked = in_basis(checkpoint, recipe).restricted(
        recipe.layer, recipe.blocks_of(checkpoint.n_blocks), recipe.exclude, recipe.include
    )
    _check_later(recipe, asked)
    is_mixture = any(layer.expert is not None for layer in asked.layers)
    if recipe.distills and recipe.distill_by == "model" and is_mixture:
        raise refused_for(
            "distill",
            "distillation by the predictions of the whole model is not available for mixtures of experts, whose "
            "routing has no gradient",
            "Set distill_by to block.",
            *_without_predictions(),
        )
    return asked


def in_basis(checkpoint: Checkpoint, recipe: Recipe) -> Checkpoint:
    """The checkpoint in the basis in which a recipe quantizes it. May raise ``Refused``."""
    return checkpoint if recipe.rotate == "none" else rotated(checkpoint, recipe.rotate, recipe.seed)


def _check_later(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """Raises ``Refused`` where the block from which on λ or γ are others does not part the linears in two."""
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
    """What perplexity is measured on. Raises ``Refused`` for fewer than two tokens."""
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


def _size_of(text: Text) -> str:
    rows = "" if text.rows is None else f" in {text.rows:,} rows"
    return f"{len(text.ids):,}{rows}"


def _of_one_text(sequences: Sequences, test: Text | None) -> Iterator[str]:
    if test is None:
        return
    if test.part:
        yield (
            "calibration and test are the same text: sequences are drawn from its first half, and perplexity is "
            "measured on its second half"
        )
    elif max(shares := in_common(sequences.calibration, test)) >= NOT_BY_CHANCE:
        yield (
            f"{percent(shares[0])} of the calibration sequences are in the test text too, and {percent(shares[1])} of "
            "that in them: perplexity is better there than on text that calibration has not seen"
        )


def _of_first_tokens(recipe: Recipe, whole: Text | None) -> Iterator[str]:
    """What is to be known where models are compared on the beginning of a test text by itself."""
    limit = recipe.tokens_of_test()
    if whole is not None and recipe.test_tokens is None and limit is not None and len(whole.ids) > limit:
        yield (
            f"{'steps' if recipe.kind == 'ladder' else 'λ'} are compared on the first {limit:,} of the "
            f"{len(whole.ids):,} tokens of the test text, which leaves time for more draws; “test tokens” sets another "
            "number"
        )


def untried_beginning(begin: str, text: Text, checkpoint: Checkpoint) -> Beginning:
    """Return the token that chats with a model begin with, if its tokenizer is followed and puts none before texts."""
    if begin != "auto" or text.begin:
        return NOTHING
    facts = facts_of(checkpoint.folder, checkpoint.name)
    return facts.bos if facts.chats_begin else NOTHING


def _of_beginning(recipe: Recipe, text: Text, checkpoint: Checkpoint) -> Iterator[str]:
    if bos := untried_beginning(recipe.begin, text, checkpoint):
        yield (
            f"the tokenizer puts nothing before a text, and the chat template names {bos.text}: the float model is "
            "measured both ways first, with that token before each window and without"
        )


def _of_another_model(calibration: Text, test: Text | None, model: str) -> Iterator[str]:
    """A warning where a text was sampled from another model than the one that is quantized."""
    named = {"calibration": calibration.written_by, "test": "" if test is None else test.written_by}
    for writer in sorted({*named.values()} - {""}):
        texts = [name for name, by in named.items() if by == writer]
        subject = f"{' and '.join(texts)} {'text was' if len(texts) == 1 else 'texts were'}"
        yield (
            f"the {subject} written by {writer}, another model: what is found there need not hold on the text that "
            f"{model} is used on"
        )


def _check_storage(recipe: Recipe, checkpoint: Checkpoint) -> None:
    """Raises ``Refused`` where nothing takes up a channel scale, or where linears that share it have several types."""
    if recipe.to_method().unit != "group":
        return
    if len(_without_source(checkpoint)) == len(checkpoint.layers):
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


def _without_source(checkpoint: Checkpoint) -> list[LayerInfo]:
    """The layers before which no operation can take up a channel scale."""
    groups = {
        block: {path: group for group in checkpoint.groups(block) for path in group.linears}
        for block in range(checkpoint.n_blocks)
    }
    blocks = checkpoint.family.blocks
    return [layer for layer in checkpoint.layers if groups[layer.block][layer.path_in_block(blocks)].source is None]


def _prompts(recipe: Recipe, checkpoint: Checkpoint) -> tuple[np.ndarray, ...]:
    """Token ids of each prompt. Raises ``Refused`` for one that is empty or leaves no room for its continuation."""
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
    """The tokens a model sees at once: as asked, at most its maximum; else 2048 or its maximum. May raise Refused."""
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
    """Names of the layers whose width the group size does not divide; refuses them unless the recipe allows."""
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


def _shown(work: costs.Work, settings: Settings, per_channel: tuple[str, ...], opened: CheckpointLayout | None) -> Plan:
    """Raises ``Refused`` where the device has no room for the work, ``NoRoom`` where the disk has none."""
    recipe, checkpoint, bits = work.recipe, work.checkpoint, work.packed_bits()
    streamed, memory = _memory(work, settings)
    disk = costs.disk_bytes(work, on_processor=costs.on_processor(settings), streamed=streamed)
    quantized, (rates, device) = work.task.weights(), rates_of_device(settings)
    if checkpoint.folder.parent == settings.embedded_models_dir():  # whose codes stay beside the study, for pages
        disk += bits // 8
    pace = pace_of(settings, checkpoint.name)
    tuning = None
    if recipe.kind == "tune" and work.test_tokens:
        tuning = tuning_plan(costs.tuning_costs(work, rates, pace.factor), recipe.minutes, recipe.draws)
    ladder = None
    if recipe.kind == "ladder" and work.test_tokens:
        ladder = ladder_plan(costs.ladder_costs(work, rates, pace.factor), recipe.minutes, recipe.draws)
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
            loader_note=checkpoint.family.loader_note,
            layers=checkpoint.layers,
        ),
        warnings=(
            *_warnings(recipe, checkpoint, per_channel, streamed),
            *_disk(disk, settings),
            *too_short(tuning, recipe.minutes),
            *too_short(ladder, recipe.minutes),
        ),
        tuning=tuning,
        ladder=ladder,
    )
    if opened is None:
        return shown
    update = {
        "opened": f"{opened.folder.name}, {what_it_is(opened)}, {grid_words(checkpoint, opened)}",
        "bits_per_weight": bits_of_linears(checkpoint, opened) / quantized,
        "bytes_after": opened_bytes(opened),
        "warnings": (*opened_warnings(checkpoint, opened), *shown.warnings),
    }
    return shown.model_copy(update=update)


def _memory(work: costs.Work, settings: Settings) -> tuple[bool, int]:
    """Whether the weights of a block are on the device only while it is used, and the bytes that a run then needs.

    So it is where all of them have no room. Raises ``Refused`` with numbers where even that does not fit, or what the
    host's operator asked for.
    """
    recipe, free, on_processor = work.recipe, costs.free_bytes(settings), costs.on_processor(settings)

    def bytes_of(work: costs.Work, streamed: bool) -> int:
        return costs.memory_bytes(work, costs.sweep_bytes(settings), on_processor=on_processor, streamed=streamed)

    whole, one, device = bytes_of(work, False), bytes_of(work, True), f"memory of the device {settings.device}"
    streamed = settings.weights == "streamed" or (settings.weights == "auto" and free is not None and whole > free)
    needed = one if streamed else whole
    if streamed and recipe.distills and recipe.distill_by == "model":
        room = "read as a whole" if settings.weights != "auto" or free is None else f"and {gib(free)} are free"
        what = (
            "distillation by the predictions of the whole model needs it with its gradients in memory, "
            f"{gib(whole)}, {room}"
        )
        remedy = "Set distill_by to block, or use another host."
        raise Refused(what, device, remedy).about("distill", *_without_predictions())
    if streamed and recipe.rotates:
        raise Refused(
            f"a rotation needs the whole model in memory, {gib(whole)}: block by block each weight would be "
            "rotated again with every pass",
            device,
            "Set rotate to none, or use another host.",
        ).about("rotate", Fix("Leave the rotation out", {"rotate": "none"}))
    if free is not None and needed > free:
        plain = replace(work, recipe=recipe.model_copy(update={"distill": 0}))
        if recipe.distills and bytes_of(plain, streamed) <= free:
            raise Refused(
                f"distillation of scales block by block needs {gib(needed)}, and {gib(free)} are free",
                device,
                "Set distill to 0, use fewer or shorter calibration sequences, or another host.",
            ).about("distill", _without_distillation())
        if streamed:
            raise Refused(
                f"the run needs {gib(needed)} even block by block, and {gib(free)} are free",
                device,
                "Use fewer or shorter calibration sequences, fewer test tokens, or another host.",
            )
        raise Refused(
            f"the run needs {gib(needed)}, and {gib(free)} are free",
            device,
            f"Set SARQC_WEIGHTS to auto: block by block it takes {gib(one)}.",
        )
    return streamed, needed


def _disk(needed: int, settings: Settings) -> Iterator[str]:
    """A warning where a run has no room on the disk unless its layers are there already; ``NoRoom`` where even so.

    Object storage has room.
    """
    if settings.is_object_storage():
        return
    free = free_bytes(settings.resolved_state_dir())
    if needed <= free:
        return
    kept = sum(path.stat().st_size for path in settings.artefacts_dir().glob("*/*"))
    if needed > free + kept:
        raise NoRoom(
            f"the run writes about {gib(needed)}, and {gib(free)} of the disk are free",
            "disk of the state folder",
            "Make room on the disk, or give SARQC_STATE_DIR a larger one.",
        )
    size = f"the run writes about {gib(needed)} and {gib(free)} are free"
    yield f"{size}: it fits if its layers are here from before"


def _warnings(recipe: Recipe, checkpoint: Checkpoint, per_channel: tuple[str, ...], streamed: bool) -> list[str]:
    unread = filter(None, (checkpoint.notice, words_on_unread(checkpoint.unread)))
    warnings = [*_of_origin(recipe, checkpoint), *unread, *_of_decoder(checkpoint), *recipe.ignored()]
    if isinstance(checkpoint, RotatedCheckpoint):
        warnings.append(checkpoint.words)
    if recipe.to_method().unit == "group" and (left := _without_source(checkpoint)):
        modules = ", ".join(dict.fromkeys(layer.module for layer in left))
        warnings.append(
            f"no operation before {len(left)} of the {len(checkpoint.layers)} layers can take up channel scales: "
            f"these are rounded without any ({modules})"
        )
    largest, tokens = TUNED_LAMS[-1], recipe.samples * recipe.length
    width = max(layer.shape[1] for layer in checkpoint.layers)
    enough = _TOKENS_OF_A_CHANNEL * width
    if recipe.kind == "run" and recipe.to_method().damps and recipe.lam == 0 and tokens < enough:
        warnings.append(
            f"λ = 0 damps nothing, and {tokens:,} calibration tokens are few for {width:,} input "
            "channels: codes fit these tokens and lose on other text. Use λ = 0.01 or larger, or at least "
            f"{enough:,} tokens"
        )
    if recipe.to_method().lam is not None and isinstance(recipe.lam, float) and recipe.lam > largest:
        warnings.append(
            f"λ = {recipe.lam:g} is very large: 0.05 to 0.5 is usual, and tuning compares up to {largest:g}. "
            "Weights hardly follow the calibration text there"
        )
    if "expert_damping" in recipe.to_method().fitting() and all(layer.expert is None for layer in checkpoint.layers):
        warnings.append(
            f"expert_damping = {recipe.expert_damping} has no effect on {checkpoint.name}, which has no experts"
        )
    if per_channel:
        warnings.append(f"{len(per_channel)} layers are quantized per channel: the group size does not divide them")
    if recipe.inputs_from == "float":
        warnings.append("blocks take the float model's inputs: this run explores, and a final one will differ slightly")
    if streamed:
        again = ", and for accuracy again for every batch of items, which is slow" if recipe.tasks else ""
        warnings.append(f"the weights do not fit in memory as a whole: they are read block by block{again}")
    return warnings


def _of_decoder(checkpoint: Checkpoint) -> Iterator[str]:
    decoder = checkpoint.decoder
    if decoder is None:
        return
    blocks = "its" if len(decoder.kinds) < 2 else f"{len(decoder.kinds)} kinds of"
    words = f"{decoder.title} has no written family: the linears of {blocks} blocks were derived from config.json"
    floats = Counter({f"{module.path} ({module.reason})": module.parameters for module in decoder.floats})
    for layer in checkpoint.small_float_linears():
        path = f"{decoder.blocks}.*.{layer.path_in_block(decoder.blocks)}"
        floats[f"{path} (few rows or columns)"] += prod(layer.shape)
    if floats:
        all_parameters = sum(checkpoint.parameters_of(block) for block in range(checkpoint.n_blocks))
        share, named = floats.total() / all_parameters, ", ".join(floats)
        words = f"{words}; {percent(share)} of their parameters stay float: {named}"
    yield words


def _of_origin(recipe: Recipe, checkpoint: Checkpoint) -> Iterator[str]:
    if checkpoint.origin is None or not checkpoint.origin.words:
        return
    yield checkpoint.origin.words
    if checkpoint.origin.flatters(recipe.bits, recipe.group_size):
        yield (
            f"{recipe.bits} bits in groups of {recipe.group_size} are the grid that these weights come from: the "
            "result looks better than it would from the original weights"
        )


def output_is_free(folder: Path) -> None:
    """Returns when a folder can be written as a run's output; raises ``Refused`` when it holds something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused("the output folder is not empty", str(folder), "Give a new folder; nothing is overwritten.")
    can_be_written(folder)


def can_keep(settings: Settings) -> None:
    """Returns when a run can keep what it makes: the state folder and object storage can be written. Raises
    ``Refused``."""
    can_be_written(settings.resolved_state_dir())
    if settings.is_object_storage():
        place_at(settings.storage_root()).mark()


def can_be_written(folder: Path) -> None:
    """Returns when a folder is there and can be written, or can be made; raises ``Refused``. Nothing is left behind."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".sarqc-", dir=nearest):
            return
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise Refused(f"the folder can't be written: {reason}", str(folder), "Give another folder.") from None
