"""Study: the result of a run, which the Lab draws; a folder with ``study.json`` and ``study.safetensors``.

A study holds *lines*: one method at one width, over the axes (draw, gamma, lambda). Every quantity of a line is an
array whose axes are named in its reference, always in this order: draw, layer, gamma, lambda, then its own. Its tensor
in ``study.safetensors`` is called ``line/bits/quantity``. Unknown values are NaN.

| array | axes | meaning |
|---|---|---|
| perplexity, accuracy | draw, gamma, lambda | of the whole quantized model; NaN where it was not measured |
| kl | draw, gamma, lambda | KL(float ‖ quantized) on the test text in nats, mean over tokens |
| log_ratios | draw, gamma, lambda, window | ln(perplexity / float model's) of each window of the test text |
| correct | draw, gamma, lambda, item | 1 where a test item was answered rightly, 0 otherwise, 255 not measured |
| recon | draw, layer, gamma, lambda | relative reconstruction error on calibration text; NaN where no token came |
| held_out | draw, layer, gamma, lambda | relative reconstruction error on unseen text; NaN where there is none |
| sar | draw, layer, gamma, lambda | L_sar with the line's own S, over ‖W S‖² |
| drift | draw, layer, gamma, lambda | ‖ΔW‖_F / ‖W‖_F |
| surface | layer, gamma, lambda, row, column | absolute ΔW of the first draw, max-pooled, as uint8 |
| surface_mean | layer, gamma, lambda, row, column | mean absolute ΔW in each cell |
| surface_sorted, surface_mean_sorted | layer, gamma, lambda, row, column | largest and mean absolute ΔW, input \
channels by saliency, least salient first |
| surface_signed | layer, gamma, lambda, row, column | mean ΔW, channels by saliency; 128 stands for 0 |
| surface…_scale | layer | value of 255 in that surface: one scale for all λ and γ of a layer, beyond which cells are \
cut |
| surface…_most | layer, gamma, lambda | the largest absolute value in that surface, above its scale where it is cut |
| group_place | layer, place | row and first input channel of the group with the largest squared weights; this and \
the following four rows are of the first draw |
| group_weight | layer, channel | its float weights, NaN beyond its end |
| group_codes | layer, gamma, lambda, channel | number of the level that each weight takes, from 0 |
| group_zero | layer, gamma, lambda | number of the level 0 |
| group_step | layer, gamma, lambda, channel | distance of neighbouring levels; one channel where all have the same |
| deciles | layer, gamma, lambda, decile | root-mean-square ΔW by decile of channel saliency, first draw |
| tokens | draw, layer | calibration tokens that reached the layer, few or none for some experts |
| weight_norm | draw, layer | ‖W‖_F; Theorem 1 needs this and the next three beside the relative quantities |
| token_norm | draw, layer | largest ‖x‖₂ of a token of the calibration and the unseen text |
| output_energy, held_out_energy | draw, layer | mean of ‖W x‖² over the tokens of the calibration and the unseen text |
| range_before, range_after | draw, layer | of a model whose residual stream was rotated before: mean over groups of \
max absolute weight / rms, of the original and of the rotated weight |
| rounding_before, rounding_after | draw, layer | ‖ΔW‖_F / ‖W‖_F of the same two, rounded to nearest on the line's \
grid |
| original_drift | draw, layer | ‖ΔW‖_F / ‖W‖_F of the chosen point after rotation and norm were undone; ``drift`` is \
that of the rotated weights |
| recon_by_size, held_out_by_size | draw, layer, size, gamma, lambda | the same errors, solved on ``sizes`` sequences |
| selected_lambda, selected_gamma | draw, layer | choice of “auto”; NaN for a method without γ |
| selected_strength | draw, layer | α of GPTAQ's shift, if “auto” chose it |
| candidate_train, candidate_validation | draw, layer, candidate_gamma, candidate_lambda | recon of the candidates \
of “auto” on the sequences they were solved on and on those they were judged on; of several α the one judged best |
| candidate_perplexity | draw, candidate_lambda | on the sequences that judge one λ for the whole model |

Surfaces beside ``surface``, the arrays of the group, and ``kl`` are missing in older studies. A line whose survey asked
for fewer pictures has one surface, or none and no group either.

The axis gamma holds values of α (``shift_strength``) or β (``first_order``) where a line's ``second`` says so; the
first of them is 0, and γ is then the method's own.

Errors, drift and pictures of a line with ``distill`` in its fitting are those of the codes before distillation.

A line with ``selected`` has one point, at lams (0,) and gammas (None,): every layer there has its own chosen values.

Every schema version that was ever written can be opened. Up to version 3 each array was a file of its own, named by its
content, and an error of a layer that no token reached was 0; both are still read, and errors come out as NaN.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
from pydantic import FailFast, Field, PrivateAttr, ValidationError, ValidationInfo, field_validator

from sarqc.errors import NotFound, Refused
from sarqc.files.modes import usual_mode
from sarqc.files.names import MOST_JSON, own_file
from sarqc.models.families import LayerInfo
from sarqc.plain import plain
from sarqc.quantization.methods import entry_of, public_method
from sarqc.recipe import FITTING, method_title, recorded, renamed
from sarqc.study import tensors
from sarqc.study.experts import Experts, experts_of, mask_unreached
from sarqc.study.stamp import Stamp, StudyPart, first_wrong

SCHEMA_VERSION = 4
SIGNED_ZERO = 128  # stands for 0 in ``surface_signed``
Result = TypeVar("Result")
Item = TypeVar("Item")
Row = Annotated[tuple[Item, ...], FailFast()]  # a million wrong values are one error
# What the axis “gamma” of a line may hold the values of, with its sign; FOEM's first-order term is β.
Second = Literal["gamma", "shift_strength", "first_order"]
SECOND_SIGNS: dict[Second, str] = {"gamma": "γ", "shift_strength": "α", "first_order": "β"}
ERRORS = ("recon", "held_out", "sar", "recon_by_size", "held_out_by_size")  # relative to the energy of the tokens

# Of a rotated model's layers, see the table above.
ROTATED = ("range_before", "range_after", "rounding_before", "rounding_after", "original_drift")

_AXES = ("draw", "layer", "size", "candidate_gamma", "candidate_lambda", "gamma", "lambda")  # in their order
MOST_VALUES = 2_000_000  # in study.json; the largest mixtures have 70,000 layers
MOST_NAMES = 100_000  # in an object of study.json
MOST_NUMBERS = 1 << 27  # in an array that figures are made of

RUNS_AWAY = 8.0  # times the middle of a layer's largest changes: without damping a layer may change a thousandfold


def common_scale(most: np.ndarray) -> np.ndarray:
    """Return one scale for all pictures of a layer, the largest value that does not run away.

    Values that run away would flatten all others.

    Args:
        most: (layer, …), the largest absolute value in each picture.

    Returns:
        The scales (layer,).
    """
    values = np.sort(most.reshape(len(most), -1), axis=-1)
    middle = values[:, [(values.shape[-1] - 1) // 2]]
    largest = np.where(values <= RUNS_AWAY * middle, values, 0).max(axis=-1)
    scale: np.ndarray = np.maximum(largest, np.finfo(np.float32).tiny)
    return scale


def eight_bits(values: np.ndarray, scale: np.ndarray, zero: int) -> np.ndarray:
    """Return values as uint8, of which 255 is the layer's scale; larger values are cut.

    Args:
        values: (layer, …).
        scale: (layer,).
        zero: The number that stands for 0; with 128 a -scale is 1, with 0 no value may be negative.
    """
    steps = np.clip(values / scale.reshape(-1, *[1] * (values.ndim - 1)), -1, 1) * (255 - zero)
    cells: np.ndarray = np.rint(steps + zero).astype(np.uint8)
    return cells


class ArrayRef(StudyPart):
    """Type, shape and axes of an array of a study: little-endian numbers in C order."""

    dtype: Literal["float32", "uint8"]
    shape: Row[int]
    axes: Row[str]
    file: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}\.bin$", exclude=True)  # up to version 3, in arrays/


class OneDraw(ArrayRef):
    """One draw of an array whose first axis is the draw; ``at`` is its place in the file."""

    at: int


class _Written(ArrayRef):
    """An array on its way into a study: ``part`` is the file in which its numbers wait."""

    part: Path


class ArrayBytes(NamedTuple):
    """Bytes of an array: a file in the study's folder, the offset in bytes, and the version of that file."""

    file: str
    offset: int
    version: str


class ModelFacts(StudyPart):
    """Facts about the float model that everything is compared with."""

    name: str
    parameters: int
    share_quantized: float
    perplexity: float | None = None
    accuracy: float | None = None
    accuracy_standard_error: float | None = None


class LaterBlocks(StudyPart):
    """λ and γ of a line from a block on, where they are not those before it; None: as before."""

    from_block: int
    lam: float | None = None
    gamma: float | None = None

    @property
    def words(self) -> str:
        """“from block 20: 0.3” after a λ; with γ “from block 20: λ = 0.3, γ = 0.5”."""
        if self.gamma is None:
            return f"from block {self.from_block}: {self.lam:g}"
        lam = "" if self.lam is None else f"λ = {self.lam:g}, "
        return f"from block {self.from_block}: {lam}γ = {self.gamma:g}"


class ContinuedPrompt(StudyPart):
    """A prompt continued with the likeliest tokens: by the float model, and quantized at each point of a line."""

    prompt: str
    draw: int  # seed of the calibration draw of all points
    float_model: str
    baseline: str  # of the line
    points: Row[Row[str]]  # gamma lambda; empty where none was made


# Fitting whose values do not say what they are.
_NAMED_MARKS = ("refine", "refit", "distill", "distill_codes", "distill_norms", "distill_lambda")


class Line(StudyPart):
    """One method at one bit width over its own axes."""

    method: str
    title: str  # as a study was written; an opened one has that of today
    baseline: str
    bits: int
    grid: str
    group_size: int | None
    lams: Row[float]  # one entry, 0, for a method without λ
    gammas: Row[float | None]  # of ``second``
    second: Second = Field(default="gamma", exclude_if=lambda second: second == "gamma")
    draws: Row[int]  # seeds of the calibration draws
    # What is not plain of ``recipe.FITTING``; left out of the document if empty.
    fitting: dict[str, str | int | float] = Field(default_factory=dict, exclude_if=lambda fitting: not fitting)
    chosen: tuple[int, int] | None = None  # (gamma, lambda) position of the point that a run was asked for
    selected: Literal["layer", "model"] | None = None  # “auto”: λ and γ chosen for each layer, or λ for the model
    candidate_lams: Row[float] = ()
    candidate_gammas: Row[float | None] = ()
    sizes: Row[int] = ()  # numbers of calibration sequences of the arrays “by size”
    later: LaterBlocks | None = Field(default=None, exclude_if=lambda later: later is None)
    texts: Row[dict[str, Any]] = ()  # prompts side by side, as events.TextsCompared says them
    continued: ContinuedPrompt | None = Field(default=None, exclude_if=lambda continued: continued is None)
    speed: dict[str, Any] | None = None  # as events.SpeedMeasured says it
    # Of the baseline on the line's grid and texts, where a run measured it and no line has it.
    baseline_perplexity: float | None = Field(default=None, exclude_if=lambda value: value is None)
    arrays: dict[str, ArrayRef]

    @field_validator("continued")
    @classmethod
    def _has_every_point(cls, continued: ContinuedPrompt | None, info: ValidationInfo) -> ContinuedPrompt | None:
        axes = len(info.data.get("gammas", ())), len(info.data.get("lams", ()))
        if continued is not None and [len(row) for row in continued.points] != [axes[1]] * axes[0]:
            raise ValueError(f"it has not {axes[0]} × {axes[1]} points")
        return continued

    @field_validator("fitting", mode="before")
    @classmethod
    def _take_former_names(cls, fitting: Any) -> Any:
        return renamed(fitting) if isinstance(fitting, dict) else fitting

    @property
    def name(self) -> str:
        """Name that sets the line apart from others of its width: method, fitting of the grid, later blocks, “auto”."""
        fitting = dict(self.fitting)
        beta = fitting.pop("first_order", None)
        marks = [f"{name}{value}" if name in _NAMED_MARKS else str(value) for name, value in fitting.items()]
        if beta is not None:
            marks.append(f"beta{beta:g}")
        if self.second != "gamma":
            marks.append(self.second.replace("_", "-"))
        if self.later is not None:
            values = (("lambda", self.later.lam), ("gamma", self.later.gamma))
            later = [f"{name}{value:g}" for name, value in values if value is not None]
            marks += [f"from{self.later.from_block}", *later]
        return "-".join([self.method, *marks, *(["auto"] if self.selected else [])])

    @property
    def label(self) -> str:
        """The title for people, with “auto” if that chose λ, and with what changes at a block."""
        title = self.spoken_title
        if self.later is not None:
            lam = f"λ = {self.lams[0]:g}"
            gamma = "" if self.later.gamma is None else f", γ = {self.gammas[0]:g}"
            return f"{title}, {lam}{gamma}, {self.later.words}"
        if self.second != "gamma":
            return f"{title}, over {self.sign}"
        return f"{title}, auto" if self.selected else title

    @property
    def spoken_title(self) -> str:
        """Title; that of a method unknown here as it stands."""
        is_known = entry_of(self.method) is not None and set(self.fitting) <= set(FITTING)
        return method_title(self.method, self.fitting) if is_known else self.title

    @property
    def sign(self) -> str:
        """Sign of the values on the axis “gamma”."""
        return SECOND_SIGNS[self.second]


class Study(StudyPart):
    """Content of a ``study.json``, with access to the arrays.

    A study that was opened or written reads its arrays from its folder: ``read`` for calculations, ``array`` as stored.
    """

    schema_version: int = SCHEMA_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    title: str
    created: str  # ISO 8601, UTC
    prefix: Literal["quantized", "float"]  # "float" results are labelled “explore”
    model: ModelFacts
    protocol: dict[str, Any]  # calibration, held_out, test, task: plain facts; versions of libraries
    recipe: dict[str, Any] | None = None  # of the run that made it
    layers: Row[LayerInfo]
    lines: Row[Line]
    layer_reports: dict[str, dict[str, Any]] = Field(default_factory=dict)  # of the chosen point, by layer name
    flags: Row[str] = ()
    stamp: Stamp | None = Field(default=None, exclude_if=lambda stamp: stamp is None)  # of the run that made it
    checksum: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")  # SHA-256 of study.safetensors
    _folder: Path | None = PrivateAttr(default=None)

    @field_validator("recipe", mode="before")
    @classmethod
    def _take_former_names(cls, recipe: Any) -> Any:
        return recorded(recipe) if isinstance(recipe, dict) else recipe

    _once: dict[Hashable, Any] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Compare documents, wherever they lie: the checksum stands for the arrays."""
        fields = type(self).model_fields
        return isinstance(other, Study) and all(getattr(self, name) == getattr(other, name) for name in fields)

    def __copy__(self) -> Self:
        """Return a copy without cached results, since it may get other lines or layers."""
        copied = super().__copy__()
        copied._once = {}
        return copied

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Return the study in a folder, with today's titles of known methods.

        Raises:
            NotFound: If there is no study.
            Refused: If the study is newer than this version, or damaged.
        """
        document, where = _read_document(folder), f"study {folder.name}"
        version = document.get("schema_version")
        if type(version) is not int or version > SCHEMA_VERSION:
            raise Refused(
                f"the study has schema version {str(version)[:20]}, this sarqc reads up to {SCHEMA_VERSION}",
                where,
                "Update sarqc.",
            )
        try:
            study = cls.model_validate(document | {"schema_version": SCHEMA_VERSION})
        except ValidationError as error:
            raise Refused(f"study.json {first_wrong(error)}", where, tensors.REMEDY) from None
        lines = tuple(line.model_copy(update={"title": line.spoken_title}) for line in study.lines)
        study = study.model_copy(update={"lines": lines})
        study._folder = folder
        _check_shapes(study, where)
        return study

    def line(self, name: str, bits: int) -> Line:
        """Return the line of a name at a width; a method's own names also match its only line.

        Raises:
            NotFound: If there is no such line.
        """
        name = public_method(name)
        candidates = [line for line in self.lines if line.bits == bits]
        exact = [line for line in candidates if line.name == name]
        if matches := exact or [line for line in candidates if line.method == name]:
            return matches[0]
        have = ", ".join(f"{line.name} at {line.bits} bits" for line in self.lines)
        raise NotFound(f"no line for {name} at {bits} bits", f"study {self.id}", f"It has {have}.")

    @cached_property
    def experts(self) -> Experts | None:
        """The experts among the layers; None if all layers are dense."""
        return experts_of(self.layers)

    @property
    def is_in_memory(self) -> bool:
        """True for a study that was neither opened nor written."""
        return self._folder is None

    @property
    def folder(self) -> Path:
        """Folder of the study.

        Raises:
            ValueError: If the study was neither opened nor written.
        """
        if self._folder is None:
            raise ValueError(f"study {self.id} was neither opened nor written, so it has no folder")
        return self._folder

    def file(self, name: str) -> Path:
        """Return the path of a file in the folder.

        Raises:
            NotFound: If there is none.
            Refused: If it is not a regular file, or if a link leads out of the folder.
        """
        path, where = own_file(self.folder, name), f"study {self.folder.name}"
        if path is None and not os.path.lexists(self.folder / name):
            raise NotFound(f"{name} is missing", where, tensors.REMEDY)
        if path is None:
            raise Refused(f"{name} is not a regular file of the study", where, tensors.REMEDY)
        return path

    def array(self, line: Line, name: str, layer: int | None = None) -> np.ndarray:
        """Return a quantity of a line as it is stored, read-only, with the axes of the table above.

        Args:
            line: A line of this study.
            name: Name of the quantity.
            layer: Position of a layer, whose numbers alone are read and returned, without their axis; None for all
                layers.

        Raises:
            NotFound: If the line does not have the quantity.
            Refused: If the file has changed.
        """
        ref = line.arrays.get(name)
        if ref is None:
            have = ", ".join(line.arrays)
            raise NotFound(
                f"{line.name} at {line.bits} bits has no array “{name}”", f"study {self.id}", f"It has {have}."
            )
        axis = None if layer is None else ref.axes.index("layer")
        whole = self._whole(line, name, axis, layer)
        array = whole[ref.at : ref.at + 1] if isinstance(ref, OneDraw) else whole
        shape = ref.shape if axis is None else (*ref.shape[:axis], *ref.shape[axis + 1 :])
        if array.shape != shape or array.dtype != np.dtype(ref.dtype):
            raise self._misshapen(line, name, array.shape)
        return array

    def _misshapen(self, line: Line, name: str, shape: tuple[int, ...]) -> Refused:
        what = f"{name} of {line.name} at {line.bits} bits has the shape {shape} and not {line.arrays[name].shape}"
        return Refused(what, f"study {self.id}", tensors.REMEDY)

    def _whole(self, line: Line, name: str, axis: int | None, layer: int | None) -> np.ndarray:
        """Return all draws of an array, or those of a layer; in former versions zeros stored for 0/0 become NaN."""
        ref = line.arrays[name]
        if ref.file is None:
            tensor = self._tensor(line, name)
            if len(tensor.shape) != len(ref.shape):
                raise self._misshapen(line, name, tensor.shape)
            return tensors.read_tensor(self.folder / tensors.FILE, tensor, axis or 0, layer)
        dtype = np.dtype(ref.dtype).newbyteorder("<")
        path = self.file(f"arrays/{ref.file}")
        try:
            array: np.ndarray = np.fromfile(path, dtype=dtype).reshape(-1, *ref.shape[1:])
        except (OSError, ValueError) as error:
            raise Refused(f"{path.name} is damaged: {error}", f"study {self.id}", tensors.REMEDY) from None
        if name in ERRORS and "tokens" in line.arrays:
            array = mask_unreached(array, self._whole(line, "tokens", None, None))
        return array if axis is None or layer is None else array.take(layer, axis)

    def _tensor(self, line: Line, name: str) -> tensors.Tensor:
        full = tensor_name(line, name)
        tensor = tensors.tensors_of(self.folder / tensors.FILE).get(full)
        if tensor is None:
            raise Refused(f"{tensors.FILE} has no tensor “{full}”", f"study {self.id}", tensors.REMEDY)
        return tensor

    def place(self, line: Line, name: str) -> ArrayBytes:
        """Return the place of a quantity's bytes, of all its draws."""
        file = line.arrays[name].file
        if file is not None:
            return ArrayBytes(f"arrays/{file}", 0, file.removesuffix(".bin"))
        return ArrayBytes(tensors.FILE, self._tensor(line, name).offset, self.checksum)

    def read(self, line: Line, name: str, layer: int | None = None) -> np.ndarray | None:
        """Return a quantity of a line as float64, with the axes of the table above; None if the line does not have it.

        NaN was not measured, not answered, or is an error of a layer that no token reached.

        Args:
            line: A line of this study.
            name: Name of the quantity.
            layer: As for ``array``.
        """
        if name not in line.arrays:
            return None
        array = self.array(line, name, layer)
        if array.size > MOST_NUMBERS:
            what = f"{name} of {line.name} at {line.bits} bits has more than {MOST_NUMBERS:,} numbers"
            raise Refused(what, f"study {self.id}", tensors.REMEDY)
        return np.where(array == 255, np.nan, array) if name == "correct" else array.astype(np.float64)

    def once(self, line: Line | None, name: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result of ``make``, computed once and cached, for slow ones.

        Args:
            line: The line that the result is about; None for the whole study.
            name: Name of the result.
            make: Function that computes it.
        """
        key = (line and (line.name, line.bits, line.draws), name)
        if key not in self._once:
            self._once[key] = make()
        result: Result = self._once[key]
        return result


def _read_document(folder: Path) -> dict[str, Any]:
    """Read a study.json; refuse it if it can't be sent on as JSON either."""
    where = f"study {folder.name}"
    try:
        if not (folder / "study.json").exists():
            raise FileNotFoundError
        path = own_file(folder, "study.json")
        if path is None or path.stat().st_size > MOST_JSON:
            raise ValueError(f"it is not a regular file of the study with up to {MOST_JSON >> 20} MiB")
        text = path.read_text(encoding="utf-8")
        if sum(map(text.count, ",[{")) > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        document = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()  # no infinity, no half of a character
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("no study here", where, "A study is a folder with a study.json.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"study.json is damaged and can't be read: {reason}", where, tensors.REMEDY) from None
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_NAMES:
        raise ValueError(f"an object in it has more than {MOST_NAMES:,} names")
    return dict(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def _check_shapes(study: Study, where: str) -> None:
    """Refuse a study with an array that lacks the axes given by its line and the study."""
    for line in study.lines:
        lengths = {
            "draw": len(line.draws),
            "layer": len(study.layers),
            "gamma": len(line.gammas),
            "lambda": len(line.lams),
            "size": len(line.sizes),
            "candidate_gamma": len(line.candidate_gammas),
            "candidate_lambda": len(line.candidate_lams),
        }
        for name, ref in line.arrays.items():
            if not _fits(ref, lengths):
                what = f"the shape of {name} of {line.name} at {line.bits} bits does not fit its axes"
                raise Refused(what, where, tensors.REMEDY)


def _fits(ref: ArrayRef, lengths: dict[str, int]) -> bool:
    known = [_AXES.index(axis) for axis in ref.axes if axis in _AXES]
    in_order = known == sorted(set(known)) and ref.axes[: len(known)] == tuple(_AXES[place] for place in known)
    return (
        in_order
        and len(ref.shape) == len(ref.axes)
        and all(size >= 1 and size == lengths.get(axis, size) for axis, size in zip(ref.axes, ref.shape, strict=True))
    )


def array_files(study: Study) -> list[str]:
    """Return the paths of a study's array files in its folder."""
    refs = [ref for line in study.lines for ref in line.arrays.values()]
    return sorted({tensors.FILE if ref.file is None else f"arrays/{ref.file}" for ref in refs})


def tensor_name(line: Line, name: str) -> str:
    """Return the name of a line's array in ``study.safetensors``."""
    return f"{line.name}/{line.bits}/{name}"


def one_draw(study: Study, seed: int) -> Study:
    """Return the study reduced to the calibration draw of one seed.

    It has no error bars, and no pictures unless the draw is the first, whose pictures they are. Lines without that draw
    are left out.

    Raises:
        NotFound: If no line has the draw.
    """
    return study.once(None, f"draw {seed}", lambda: _select_draw(study, seed))


def _select_draw(study: Study, seed: int) -> Study:
    lines = [_reduce_line(line, line.draws.index(seed)) for line in study.lines if seed in line.draws]
    if not lines:
        have = ", ".join(str(draw) for draw in dict.fromkeys(draw for line in study.lines for draw in line.draws))
        raise NotFound(f"no calibration draw {seed}", f"study {study.id}", f"It has {have}.")
    return study.model_copy(update={"lines": tuple(lines)})


def _reduce_line(line: Line, at: int) -> Line:
    arrays: dict[str, ArrayRef] = {}
    for name, ref in line.arrays.items():
        if ref.axes[0] == "draw":
            shape = (1, *ref.shape[1:])
            arrays[name] = OneDraw(dtype=ref.dtype, shape=shape, axes=ref.axes, file=ref.file, at=at)
        elif at == 0:
            arrays[name] = ref
    return line.model_copy(update={"draws": (line.draws[at],), "arrays": arrays})


class StudyWriter:
    """Writer that collects arrays in a temporary folder; ``finish`` puts the whole study in place at once.

    Args:
        folder: Folder of the study; the temporary folder is beside it.
    """

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        self._parts = Path(tempfile.mkdtemp(prefix="parts-", dir=self._partial))
        self._count = 0

    def add(self, array: np.ndarray, axes: tuple[str, ...]) -> ArrayRef:
        """Add an array (float kinds as float32, uint8 as it is).

        Returns:
            Its reference, for a line of the study that ``finish`` is given.

        Raises:
            ValueError: If the number of axes is not that of the array.
        """
        if array.ndim != len(axes):
            raise ValueError(f"{array.ndim} dimensions but axes {axes}")
        dtype: Literal["float32", "uint8"] = "uint8" if array.dtype == np.uint8 else "float32"
        part = self._parts / str(self._count)
        self._count += 1
        part.write_bytes(np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes())
        return _Written(dtype=dtype, shape=array.shape, axes=axes, part=part)

    def finish(self, study: Study) -> Study:
        """Write both files and move the folder into place, replacing an older study of that name.

        Returns:
            The study, which reads its arrays there.

        Raises:
            ValueError: For two lines of one name and width, and for arrays that were not added here.
        """
        parts: dict[str, tuple[str, tuple[int, ...], Path]] = {}
        lines = []
        for line in study.lines:
            refs = {}
            for name, ref in line.arrays.items():
                full = tensor_name(line, name)
                if not isinstance(ref, _Written) or full in parts:
                    raise ValueError(f"{full} is there twice" if full in parts else f"{full} was not added here")
                parts[full] = (ref.dtype, ref.shape, ref.part)
                refs[name] = ArrayRef(dtype=ref.dtype, shape=ref.shape, axes=ref.axes)
            lines.append(line.model_copy(update={"arrays": refs}))
        checksum = tensors.write_tensors(self._partial / tensors.FILE, parts)
        shutil.rmtree(self._parts)
        study = study.model_copy(update={"lines": tuple(lines), "checksum": checksum})
        write_document(study, self._partial)
        if self.folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-old-", dir=self.folder.parent))
            self.folder.rename(old / "study")
            self._partial.rename(self.folder)
            shutil.rmtree(old)
        else:
            self._partial.rename(self.folder)
        self.folder.chmod(usual_mode(0o755))
        study._folder = self.folder
        return study

    def discard(self) -> None:
        """Remove the temporary folder."""
        shutil.rmtree(self._partial, ignore_errors=True)


def rewrite(study: Study, folder: Path) -> Study:
    """Write a study of any version to ``folder`` in the current version, with the same numbers."""
    writer = StudyWriter(folder)
    try:
        lines = tuple(copied(study, line, writer) for line in study.lines)
        return writer.finish(study.model_copy(update={"lines": lines}))
    except BaseException:
        writer.discard()
        raise


def copied(study: Study, line: Line, writer: StudyWriter) -> Line:
    """Return a line of an opened study with its numbers, for the study that the writer makes."""
    arrays = {name: writer.add(study.array(line, name), ref.axes) for name, ref in line.arrays.items()}
    return line.model_copy(update={"arrays": arrays})


def write_document(study: Study, folder: Path) -> None:
    """Write ``study.json``, without blanks, which would double the size of a large document."""
    document = plain(study.model_dump(mode="json"))
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    (folder / "study.json").write_text(text + "\n", encoding="utf-8")
