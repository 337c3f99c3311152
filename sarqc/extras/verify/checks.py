"""Checks of a study or an exported model by its stamp, and of its codes by solving them again.

Of an exported model every tensor is compared with the stamp or with the float model. Then linears that a seed chooses
are solved again, with nothing from the store of finished layers. Where a block reads what the quantized blocks before
it make, an exported model gives these blocks, whose codes were compared before, and each chosen linear is proven given
them. A study has no codes: there every linear before the chosen ones is solved too. Solving all proves the whole.
"""

import random
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from sarqc.calibration.block import whole_batches
from sarqc.calibration.corpora import tokenize_with
from sarqc.calibration.job import CalibrationJob, SolvedLayer, calibration_job
from sarqc.calibration.pipeline import calibrate, layers_by_block
from sarqc.checkpoints.codes import levels_of
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.keys import LAYER_FORMAT
from sarqc.engine.plan import Prepared, in_basis, prepare
from sarqc.engine.stamp import computing, hash_of, made_with, solved_hashes, stored_weights, text_of_stamp
from sarqc.errors import NotFound, Refused, SarqcError
from sarqc.extras.verify.exported import Exported, other_parts
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.models.loading import STORED, LoadedModel, choose_device, load
from sarqc.models.rotated_files import open_files
from sarqc.models.tokenizing import beginning_of
from sarqc.recipe import Recipe, recorded
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.stamp import Stamp, short_digest

LINEARS = 3  # solved again by default
_NAMED = 3  # differences listed by name
_SOLVED = "solved again"
_NAMES = ("model", "calibration", "quantized_checkpoint")  # fields of a recipe that may go by another name here
Outcome = Literal["equal", "different", "noted", "unchecked"]


@dataclass(frozen=True)
class Check:
    """A checked thing and its outcome: equal, different, different without being a failure by itself (noted), or
    impossible to check here (unchecked)."""

    what: str
    outcome: Outcome
    words: str


@dataclass(frozen=True)
class VerificationRequest:
    """Options of a verification beside the folder."""

    linears: int | None = LINEARS  # that are solved again; None: all
    seed: int = 0  # which chooses them
    model: str | None = None  # the float model, where it goes by another name here
    calibration: str | None = None  # the text, likewise
    quantized_checkpoint: str | None = None  # that a run measured or repaired, likewise


def verdict(checks: Iterable[Check]) -> Outcome:
    """Return the overall outcome: different, unchecked where something could not be checked, else equal."""
    outcomes = {check.outcome for check in checks}
    return "different" if "different" in outcomes else "unchecked" if "unchecked" in outcomes else "equal"


def verify(folder: Path, settings: Settings, request: VerificationRequest) -> Iterator[Check]:
    """Check a study or an exported model; yield each check as soon as it is done.

    Raises ``NotFound`` where there is neither in ``folder``, ``Refused`` where it has no stamp or can't be read.
    """
    study, stamp = stamp_in(folder)
    yield _check_digest(stamp)
    if study is not None:
        yield _check_recipe(study, stamp)
    with Exported.open(folder, stamp) if study is None else nullcontext() as exported:
        why = ""
        if exported is not None:
            yield (linears := _check_linears(exported))
            why = "" if linears.outcome == "equal" else "the files are not what the stamp says"
        prepared = yield from _check_original(stamp, study, exported, request, settings)
        if prepared is None:
            why = why or "the float model or the text is not here, or is another one"
        if why or prepared is None:
            yield _not_solved(why)
            return
        try:
            yield from _solve_again(stamp, exported, prepared, request, settings)
        except SarqcError as error:
            yield Check(_SOLVED, "unchecked", f"{error}")


def stamp_in(folder: Path) -> tuple[Study | None, Stamp]:
    """Return the study in a folder, or None of an exported model, and the stamp. Raise as ``verify``."""
    if not (folder / "study.json").is_file():
        if not (folder / "config.json").is_file():
            inner = [name for name in ("model", "study") if (folder / name).is_dir()]
            remedy = " or ".join(str(folder / name) for name in inner) or "the folder of a study or an exported model"
            raise NotFound("there is neither a study nor an exported model in it", str(folder), f"Give {remedy}.")
        return None, Stamp.read(folder)
    study = Study.open(folder)
    if study.stamp is None:
        why, remedy = _why_no_stamp(study)
        raise Refused(f"the study has no stamp: {why}", str(folder), remedy)
    return study, study.stamp


def _why_no_stamp(study: Study) -> tuple[str, str]:
    if study.recipe is None:
        return "it is a survey or was gathered, and a stamp is of the codes of one run", "Give the study of one run."
    if study.recipe.get("kind") == "tune":
        return "tuning keeps no codes", "Run the recipe that it ends with, and give that study."
    return "it was made before there were any", "Run its recipe again."


def _check_digest(stamp: Stamp) -> Check:
    stated, own = short_digest(stamp.digest), short_digest(stamp.own_digest())
    return _check_equal(
        "stamp",
        stamp.digest == stamp.own_digest(),
        f"The digest {stated}… is that of what the stamp says.",
        f"It has the digest {stated}…, and what it says has {own}…: it was changed.",
    )


def _not_solved(why: str) -> Check:
    return Check(_SOLVED, "unchecked", f"Nothing was solved again: {why}.")


def _check_equal(what: str, is_equal: bool, same: str, other: str) -> Check:
    return Check(what, "equal", same) if is_equal else Check(what, "different", other)


def _check_recipe(study: Study, stamp: Stamp) -> Check:
    recipe = study.recipe or {}
    other = [name for name, value in stamp.recipe.items() if not _is_same_name(recipe.get(name), value)]
    return _check_many("recipe", dict.fromkeys(other, "is another one than in the stamp"), "It is that of the stamp.")


def _is_same_name(given: object, stamped: object) -> bool:
    return given == stamped or (isinstance(given, str) and isinstance(stamped, str) and Path(given).name == stamped)


def _check_linears(exported: Exported) -> Check:
    count = len(exported.stamp.layers)
    same = f"Codes, scales, zero points or biases, and weights of {count} linears are those of the stamp."
    if exported.format == "plain":
        same = f"The weights of {count} linears are those of the stamp; the format has no codes."
    return _check_many("quantized linears", exported.other_linears(), same)


def _check_original(
    stamp: Stamp, study: Study | None, exported: Exported | None, request: VerificationRequest, settings: Settings
) -> Generator[Check, None, Prepared | None]:
    """Compare the float model and the text with the stamp, and the files with the float model; return what a run of the
    stamp's recipe continues from, None where it would be another run."""
    try:
        recipe = _recipe(stamp, study, request)
        checkpoint = in_basis(checkpoint_of(recipe.model, recipe.revision, settings, download=True), recipe)
    except SarqcError as error:
        yield _unchecked("float model", error, "--model")
        return None
    weights = _check_weights(checkpoint, stamp)
    yield weights
    if exported is not None:
        whose = "the rotated float model's" if recipe.rotates else "the float model's"
        changed = ", or have taken up scales or were tuned as the stamp says" if stamp.folded else ""
        same = f"They are {whose}{changed}."
        yield _check_many("other tensors", exported.other_tensors(checkpoint), same)
        other = dict.fromkeys(exported.other_settings(checkpoint), "is not the float model's")
        yield _check_many("config.json", other, "It says what the float model's does.")
    try:
        prepared = prepare(recipe, settings, download=True)
    except SarqcError as error:
        yield _unchecked("calibration tokens", error, "--calibration")
        return None
    tokens = _check_tokens(prepared, stamp)
    yield tokens
    if exported is not None:
        yield _check_tokenizer(prepared, exported, settings)
    return prepared if weights.outcome == tokens.outcome == "equal" else None


def _unchecked(what: str, error: SarqcError, flag: str) -> Check:
    hint = f" {flag} says what it is called here." if isinstance(error, NotFound) else ""
    return Check(what, "unchecked", f"{error}{hint}")


def _recipe(stamp: Stamp, study: Study | None, request: VerificationRequest) -> Recipe:
    own = (study.recipe if study is not None else None) or {}
    document: dict[str, Any] = {name: own.get(name, value) for name, value in recorded(stamp.recipe).items()}
    document |= {name: value for name in _NAMES if (value := getattr(request, name)) is not None}
    if stamp.text.part:  # one text was calibrated on and measured on: the first half is drawn from only then
        document |= {"test": document["calibration"], "test_tokens": 2}
    return Recipe.parse(document)


def _check_weights(checkpoint: Checkpoint, stamp: Stamp) -> Check:
    weights = stored_weights(checkpoint, open_files(checkpoint))
    if len(weights.blocks) != len(stamp.weights.blocks):
        words = f"{checkpoint.name} has {len(weights.blocks)} blocks, and the stamp is of {len(stamp.weights.blocks)}."
        return Check("float model", "different", words)
    other = {
        f"block {index}": "has other weights"
        for index, (here, there) in enumerate(zip(weights.blocks, stamp.weights.blocks, strict=True))
        if here != there
    }
    if weights.outside != stamp.weights.outside:
        other = {"what is outside the blocks": "has other weights"} | other
    return _check_many("float model", other, f"{checkpoint.name} has the weights of the stamp.")


def _check_tokens(prepared: Prepared, stamp: Stamp) -> Check:
    calibration = prepared.sequences.calibration
    size = f"{len(calibration)} sequences of {calibration.shape[1]} tokens of {prepared.recipe.calibration}"
    return _check_equal(
        "calibration tokens",
        text_of_stamp(prepared.calibration, prepared.sequences).tokens == stamp.text.tokens,
        f"{size} are those of the stamp.",
        f"{size} are others than those of the stamp: the text or the tokenizer is another one.",
    )


def _check_tokenizer(prepared: Prepared, exported: Exported, settings: Settings) -> Check:
    calibration, checkpoint = prepared.calibration, prepared.checkpoint
    try:
        theirs = tokenize_with(exported.folder, prepared.recipe.calibration, checkpoint, settings)
        begin = beginning_of(exported.folder, checkpoint.name, checkpoint.architecture.vocab_size)
    except SarqcError as error:
        return Check("tokenizer", "different", f"That of the files can't be used: {error}")
    ids = theirs.with_beginning(calibration.begin, calibration.begin).ids[: len(calibration.ids)]
    return _check_equal(
        "tokenizer",
        np.array_equal(ids, calibration.ids) and (not calibration.begin or begin == calibration.begin),
        "That of the files makes the same tokens of the text.",
        "That of the files makes other tokens of the text.",
    )


def _solve_again(
    stamp: Stamp, exported: Exported | None, prepared: Prepared, request: VerificationRequest, settings: Settings
) -> Iterator[Check]:
    if prepared.recipe.distills:
        yield _not_solved("the scales were distilled after that, which is not repeated")
        return
    imported = None
    if prepared.opened is not None:
        imported = ImportedModel(prepared.opened, prepared.checkpoint)
        yield (
            opened := _check_equal(
                "quantized checkpoint",
                imported.fingerprint == stamp.opened,
                "Its files are those of the stamp.",
                "Its files are others than those of the stamp.",
            )
        )
        if opened.outcome != "equal":
            yield _not_solved("another checkpoint was opened")
            return
    scratch = settings.scratch_dir() if prepared.streamed else None
    holding = [] if imported is None else [imported.dtype]
    loaded = load(prepared.checkpoint, choose_device(settings.device), scratch=scratch, holding=holding)
    job = _job(stamp, prepared, imported)
    with _threads(stamp.computing.threads):
        yield _check_environment(stamp, loaded, job)
        names = list(stamp.layers)
        if names != [layer.name for layer in prepared.checkpoint.layers]:
            yield Check(_SOLVED, "different", "The recipe quantizes other linears than the stamp has.")
            return
        chosen = names
        if request.linears is not None and request.linears < len(names):
            chosen = random.Random(request.seed).sample(names, request.linears)
        # The files give the blocks before; where all are solved, these are made anew too.
        given = exported if job.inputs_from == "quantized" and len(chosen) < len(names) else None
        solving = _layers_to_solve(loaded, job, {*chosen}, is_given=given is not None)
        other = _compare_solved(loaded, job, solving, stamp, exported, given, settings)
    words = _solved_words(stamp, chosen, len(solving), given is not None, request.seed)
    yield _check_many(_SOLVED, other, words)


def _job(stamp: Stamp, prepared: Prepared, imported: ImportedModel | None) -> CalibrationJob:
    """Return what a run of the recipe calibrates; the λ that “auto” chose for the whole model is not chosen again."""
    job = calibration_job(prepared.recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel, imported)
    if stamp.lam is None:
        return job
    return replace(job, method=next(method for method in prepared.recipe.candidates() if method.lam == stamp.lam))


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Give a context as many threads as the last bits of the stamp's codes depend on; None: they depend on none."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_environment(stamp: Stamp, loaded: LoadedModel, job: CalibrationJob) -> Check:
    there = {"layer format": stamp.layer_format, **stamp.made_with, **stamp.computing.model_dump(exclude_none=True)}
    here = {
        "layer format": LAYER_FORMAT,
        **made_with(loaded.device),
        **computing(loaded, job).model_dump(exclude_none=True),
    }
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    if not names:
        return Check("versions and device", "equal", "They are those of the stamp.")
    words = "; ".join(f"{name} {there.get(name, 'none')} there, {here.get(name, 'none')} here" for name in names)
    return Check("versions and device", "noted", f"{words}. The codes decide.")


def _layers_to_solve(loaded: LoadedModel, job: CalibrationJob, chosen: set[str], *, is_given: bool) -> list[LayerInfo]:
    """Return the chosen linears, those that are solved together with them, and, where nothing gives the quantized
    blocks before, all linears in these."""
    last = max(layer.block for layer in loaded.checkpoint.layers if layer.name in chosen)
    solving: list[LayerInfo] = []
    for index, layers in layers_by_block(loaded.checkpoint.layers).items():
        chosen_here = chosen.intersection(layer.name for layer in layers)
        comes_before = index < last and job.inputs_from == "quantized" and not is_given
        if comes_before or (chosen_here and job.method.unit != "layer"):
            solving += layers
        elif chosen_here:
            by_name = {layer.name: layer for layer in layers}
            storages = {name: loaded.stored_as(f"{name}.weight") for name in by_name}
            solving += whole_batches(by_name, storages, chosen_here).values()
    return solving


def _compare_solved(
    loaded: LoadedModel,
    job: CalibrationJob,
    solving: list[LayerInfo],
    stamp: Stamp,
    exported: Exported | None,
    given: Exported | None,
    settings: Settings,
) -> dict[str, str]:
    names, blocks = [layer.name for layer in solving], {layer.block for layer in solving}
    differences: dict[str, str] = {}

    def after_block(index: int, block: nn.Module) -> None:
        if index in blocks and stamp.folded:
            differences.update(_other_folds(loaded, index, stamp))
        if given is not None and index < max(blocks):
            given.fill(loaded, index)

    alone = replace(loaded, checkpoint=replace(loaded.checkpoint, only_names=frozenset(names)))
    steps = calibrate(
        alone, job, None, dict.fromkeys(names, ""), budget_bytes=sweep_bytes(settings), after_block=after_block
    )
    for step in steps:
        if isinstance(step, SolvedLayer):
            name, grid = step.info.name, job.grids[step.info.name]
            other = other_parts(solved_hashes(step.quantized, grid, job), stamp.layers[name], stamp)
            if other:
                levels = None if exported is None else exported.levels(name)
                differences[name] = "other " + ", ".join(other)
                if levels is not None:
                    count = int((levels.codes != levels_of(step.quantized, grid).codes).sum())
                    differences[name] += f" ({count:,} of {levels.codes.numel():,} codes)"
    return differences


def _other_folds(loaded: LoadedModel, index: int, stamp: Stamp) -> dict[str, str]:
    """Return tensors of a block with other folded scales than the stamp's."""
    differences = {}
    for name, value in loaded.stored_tensors(index):
        if name in stamp.folded:
            stored = value.detach().to("cpu", STORED[loaded.checkpoint.dtypes[name]])
            if hash_of(stored) != stamp.folded[name]:
                differences[name] = "took up other scales"
    return differences


def _solved_words(stamp: Stamp, chosen: list[str], solved: int, is_given: bool, seed: int) -> str:
    total = len(stamp.layers)
    if len(chosen) == total:
        words = f"All {total} linears: every code, scale, zero point or bias, and weight is that of the stamp."
    else:
        named = ", ".join(chosen[:_NAMED]) + (" and others" if len(chosen) > _NAMED else "")
        others = solved - len(chosen)
        more = f", with {others} that they are solved after or together with" if others else ""
        words = (
            f"{len(chosen)} of {total} linears, chosen by seed {seed}{more}: every code, scale, zero point or "
            f"bias, and weight is that of the stamp ({named})."
        )
    if is_given:
        words += " The quantized blocks before them were taken from the files."
    if stamp.lam is not None:
        words += f" λ = {stamp.lam:g}, which “auto” chose for the whole model, was not chosen again."
    return words


def _check_many(what: str, other: Mapping[str, str], same: str) -> Check:
    """Return a check of many things by name; ``other``: what is wrong with those that differ."""
    if not other:
        return Check(what, "equal", same)
    named = "; ".join(f"{name}: {words}" for name, words in list(other.items())[:_NAMED])
    more = f"; and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
    return Check(what, "different", f"{named}{more}.")
