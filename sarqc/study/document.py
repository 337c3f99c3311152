"""Study: what a run leaves and what the Lab draws. A folder with ``study.json`` and ``study.safetensors``.

A study holds *lines*: one method at one width, over the axes (draw, gamma, lambda). Every quantity of a line is an
array whose axes are named in its reference, always in this order: draw, layer, gamma, lambda, then its own. Its tensor
in ``study.safetensors`` is called ``line/bits/quantity``. What is not known is NaN.

| array | axes | meaning |
|---|---|---|
| perplexity, accuracy | draw, gamma, lambda | of the whole quantized model; NaN where it was not measured |
| kl | draw, gamma, lambda | KL(float ‖ quantized) on the test text in nats, mean over tokens |
| correct | draw, gamma, lambda, item | 1 where a test item was answered rightly, 0 otherwise, 255 not measured |
| recon | draw, layer, gamma, lambda | relative reconstruction error on calibration text; NaN where no token came |
| held_out | draw, layer, gamma, lambda | relative reconstruction error on unseen text; NaN where there is none |
| sar | draw, layer, gamma, lambda | L_sar with the line's own S, over ‖W S‖² |
| drift | draw, layer, gamma, lambda | ‖ΔW‖_F / ‖W‖_F |
| surface | layer, gamma, lambda, row, column | |ΔW| of the first draw, max-pooled, as uint8 |
| surface_mean | layer, gamma, lambda, row, column | the mean of |ΔW| in each cell |
| surface_sorted, surface_mean_sorted | layer, gamma, lambda, row, column | largest and mean |ΔW|, input channels by \
saliency, least salient first |
| surface_signed | layer, gamma, lambda, row, column | mean ΔW, channels by saliency; 128 stands for 0 |
| surface…_scale | layer | value of 255 in that surface: one scale for all λ and γ of a layer, beyond which cells are \
cut |
| surface…_most | layer, gamma, lambda | the largest absolute value in that surface, above its scale where it is cut |
| group_place | layer, place | row and first input channel of the group with the largest squared weights; this and \
what follows of the first draw |
| group_weight | layer, channel | its float weights, NaN beyond its end |
| group_codes | layer, gamma, lambda, channel | number of the level that each weight takes, from 0 |
| group_zero | layer, gamma, lambda | number of the level 0 |
| group_step | layer, gamma, lambda, channel | distance of neighbouring levels; one channel where all have the same |
| deciles | layer, gamma, lambda, decile | root-mean-square ΔW by decile of channel saliency, first draw |
| tokens | draw, layer | calibration tokens that reached the layer, few or none for some experts |
| weight_norm | draw, layer | ‖W‖_F; this and the next three are what Theorem 1 needs beside the relative quantities |
| token_norm | draw, layer | largest ‖x‖₂ of a token of the calibration and the unseen text |
| output_energy, held_out_energy | draw, layer | mean of ‖W x‖² over the tokens of the calibration and the unseen text |
| recon_by_size, held_out_by_size | draw, layer, size, gamma, lambda | the same errors, solved on ``sizes`` sequences |
| selected_lambda, selected_gamma | draw, layer | what “auto” chose; NaN where there is no γ |
| selected_strength | draw, layer | α of GPTAQ's shift that “auto” chose, where it was asked to |
| candidate_train, candidate_validation | draw, layer, candidate_gamma, candidate_lambda | recon of what “auto” chose \
among, on the sequences it was solved on and on those it was judged on; of several α the one judged best |
| candidate_perplexity | draw, candidate_lambda | on the sequences that one λ for the whole model was judged on |

Surfaces beside ``surface``, the arrays of the group and ``kl`` are missing in older studies. A line whose survey asked
for fewer pictures has one surface, or none and no group either.

A line with ``selected`` has one point, at lams (0,) and gammas (None,): every layer there has what was chosen for it.

Every schema version that was ever written can be opened. Up to version 3 each array was a file of its own, named by its
content, and an error of a layer that no token reached was 0; both are still read, and errors come out as NaN.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Hashable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from sarqc.errors import NotFound, Refused
from sarqc.files.modes import usual_mode
from sarqc.models.families import LayerInfo
from sarqc.plain import plain
from sarqc.quantization.methods import FITTING, METHODS, public_method, title_of
from sarqc.recipe import renamed
from sarqc.study import tensors
from sarqc.study.experts import Experts, experts_of, unreached_is_unknown
from sarqc.study.stamp import Stamp

SCHEMA_VERSION = 4
SIGNED_ZERO = 128  # what stands for 0 in ``surface_signed``
Told = TypeVar("Told")
ERRORS = ("recon", "held_out", "sar", "recon_by_size", "held_out_by_size")  # relative to what tokens brought


RUNS_AWAY = 8.0  # times the middle of a layer's largest changes: without damping a layer may change a thousandfold


def common_scale(most: np.ndarray) -> np.ndarray:
    """One scale for all pictures of a layer, from the largest absolute value in each, (layer, …) -> (layer,): the
    largest of those that do not run away, which would flatten the others."""
    of_layer = np.sort(most.reshape(len(most), -1), axis=-1)
    middle = of_layer[:, [(of_layer.shape[-1] - 1) // 2]]
    largest = np.where(of_layer <= RUNS_AWAY * middle, of_layer, 0).max(axis=-1)
    scale: np.ndarray = np.maximum(largest, np.finfo(np.float32).tiny)
    return scale


def eight_bits(values: np.ndarray, scale: np.ndarray, zero: int) -> np.ndarray:
    """Values (layer, …) as uint8, of which 255 is the layer's scale, (layer,); what is larger is cut.

    ``zero`` stands for 0: with 128 a -scale is 1; with 0 no value may be negative.
    """
    steps = np.clip(values / scale.reshape(-1, *[1] * (values.ndim - 1)), -1, 1) * (255 - zero)
    cells: np.ndarray = np.rint(steps + zero).astype(np.uint8)
    return cells


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArrayRef(_Document):
    """What an array of a study is: little-endian numbers in C order, with named axes."""

    dtype: Literal["float32", "uint8"]
    shape: tuple[int, ...]
    axes: tuple[str, ...]
    file: str | None = Field(default=None, pattern=r"^[0-9a-f]{32}\.bin$", exclude=True)  # up to version 3, in arrays/


class OneDraw(ArrayRef):
    """One draw of an array whose first axis is the draw: ``at`` is its place in what the file holds."""

    at: int


class _Written(ArrayRef):
    """An array on its way into a study: ``part`` is the file in which its numbers wait."""

    part: Path


class ArrayBytes(NamedTuple):
    """Where an array's bytes are: a file in the study's folder, from a byte on, and the version of that file."""

    file: str
    offset: int
    version: str


class ModelFacts(_Document):
    """The float model that everything is compared with."""

    name: str
    parameters: int
    share_quantized: float
    perplexity: float | None = None
    accuracy: float | None = None
    accuracy_standard_error: float | None = None


class Line(_Document):
    """One method at one bit width over its own axes."""

    method: str
    title: str  # as a study was written; an opened one has that of today
    baseline: str
    bits: int
    grid: str
    group_size: int | None
    lams: tuple[float, ...]  # one entry, 0, where the method has no λ
    gammas: tuple[float | None, ...]
    draws: tuple[int, ...]  # seeds of the calibration draws
    # What is not plain of range, order, refine, expert_damping and warm_start; left out of the document if empty.
    fitting: dict[str, str | int] = Field(default_factory=dict, exclude_if=lambda fitting: not fitting)
    chosen: tuple[int, int] | None = None  # (gamma, lambda) position of the point that a run was asked for
    selected: Literal["layer", "model"] | None = None  # “auto”: λ and γ chosen for each layer, or λ for the model
    candidate_lams: tuple[float, ...] = ()
    candidate_gammas: tuple[float | None, ...] = ()
    sizes: tuple[int, ...] = ()  # numbers of calibration sequences of the arrays “by size”
    texts: tuple[dict[str, Any], ...] = ()  # prompts side by side, as events.TextsCompared says them
    speed: dict[str, Any] | None = None  # as events.SpeedMeasured says it
    arrays: dict[str, ArrayRef]

    @field_validator("fitting", mode="before")
    @classmethod
    def _take_former_names(cls, fitting: Any) -> Any:
        return renamed(fitting) if isinstance(fitting, dict) else fitting

    @property
    def name(self) -> str:
        """What tells a line from the others of its width: the method, how its grid is fitted, whether by “auto”."""
        marks = [f"refine{value}" if name == "refine" else str(value) for name, value in self.fitting.items()]
        return "-".join([self.method, *marks, *(["auto"] if self.selected else [])])

    @property
    def label(self) -> str:
        """The title for people, with “auto” where that chose λ."""
        return f"{self.title}, auto" if self.selected else self.title


class Study(_Document):
    """The whole of a ``study.json``. Numbers live in arrays, which a study that was opened or written reads from its
    folder: ``read`` for calculations, ``array`` as they are stored.
    """

    schema_version: int = SCHEMA_VERSION
    id: str = Field(pattern=r"^[A-Za-z0-9._-]+$")
    title: str
    created: str  # ISO 8601, UTC
    prefix: Literal["quantized", "float"]  # "float" results are labelled “explore”
    model: ModelFacts
    protocol: dict[str, Any]  # calibration, held_out, test, task: plain facts; versions of libraries
    recipe: dict[str, Any] | None = None  # of the run that left it
    layers: tuple[LayerInfo, ...]
    lines: tuple[Line, ...]
    layer_reports: dict[str, dict[str, Any]] = Field(default_factory=dict)  # of the chosen point, by layer name
    flags: tuple[str, ...] = ()
    stamp: Stamp | None = Field(default=None, exclude_if=lambda stamp: stamp is None)  # of the run that left it
    checksum: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")  # SHA-256 of study.safetensors
    _folder: Path | None = PrivateAttr(default=None)

    @field_validator("recipe", mode="before")
    @classmethod
    def _take_former_names(cls, recipe: Any) -> Any:
        return renamed(recipe) if isinstance(recipe, dict) else recipe

    _once: dict[Hashable, Any] = PrivateAttr(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Equal documents, wherever they lie: the checksum stands for the arrays."""
        fields = type(self).model_fields
        return isinstance(other, Study) and all(getattr(self, name) == getattr(other, name) for name in fields)

    def __copy__(self) -> Self:
        """A copy may get other lines or layers: it finds out anew what was kept."""
        copied = super().__copy__()
        copied._once = {}
        return copied

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The study in ``folder``, with today's titles of the methods that are known here.

        Raises ``NotFound``, or ``Refused`` for a newer or damaged one.
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
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])[:100]
            what = f"study.json is wrong at {place}: {first['msg'][0].lower() + first['msg'][1:]}"
            raise Refused(what, where, tensors.REMEDY) from None
        study = study.model_copy(update={"lines": tuple(map(_with_title_of_today, study.lines))})
        study._folder = folder
        return study

    def line(self, name: str, bits: int) -> Line:
        """The line of a name at a width; a method's own names also find its only line. Raises ``NotFound``."""
        name = public_method(name)
        of_width = [line for line in self.lines if line.bits == bits]
        exact = [line for line in of_width if line.name == name]
        if matches := exact or [line for line in of_width if line.method == name]:
            return matches[0]
        have = ", ".join(f"{line.name} at {line.bits} bits" for line in self.lines)
        raise NotFound(f"no line for {name} at {bits} bits", f"study {self.id}", f"It has {have}.")

    @cached_property
    def experts(self) -> Experts | None:
        """Where the experts among the layers are; None where all layers are dense."""
        return experts_of(self.layers)

    @property
    def folder(self) -> Path:
        """Where the study lies. Raises ``ValueError`` for one that was neither opened nor written."""
        if self._folder is None:
            raise ValueError(f"study {self.id} was neither opened nor written, so it has no folder")
        return self._folder

    def array(self, line: Line, name: str, layer: int | None = None) -> np.ndarray:
        """A quantity of one of the study's lines as it is stored: read-only, axes as in the table above. With ``layer``
        that layer's numbers alone, without their axis: of thousands of layers nothing else is read. Raises ``NotFound``
        where the line has no such quantity, ``Refused`` where its file has changed.
        """
        ref = line.arrays.get(name)
        if ref is None:
            have = ", ".join(line.arrays)
            raise NotFound(
                f"{line.name} at {line.bits} bits has no array “{name}”", f"study {self.id}", f"It has {have}."
            )
        where = None if layer is None else ref.axes.index("layer")
        whole = self._whole(line, name, where, layer)
        array = whole[ref.at : ref.at + 1] if isinstance(ref, OneDraw) else whole
        shape = ref.shape if where is None else (*ref.shape[:where], *ref.shape[where + 1 :])
        if array.shape != shape or array.dtype != np.dtype(ref.dtype):
            raise self._misshapen(line, name, array.shape)
        return array

    def _misshapen(self, line: Line, name: str, shape: tuple[int, ...]) -> Refused:
        what = f"{name} of {line.name} at {line.bits} bits has the shape {shape} and not {line.arrays[name].shape}"
        return Refused(what, f"study {self.id}", tensors.REMEDY)

    def _whole(self, line: Line, name: str, axis: int | None, layer: int | None) -> np.ndarray:
        """All draws of an array, or those of a layer; of a former version with NaN for the errors that were stored as 0
        for 0/0."""
        ref = line.arrays[name]
        if ref.file is None:
            tensor = self._tensor(line, name)
            if len(tensor.shape) != len(ref.shape):
                raise self._misshapen(line, name, tensor.shape)
            return tensors.read_tensor(self.folder / tensors.FILE, tensor, axis or 0, layer)
        dtype = np.dtype(ref.dtype).newbyteorder("<")
        path = self.folder / "arrays" / ref.file
        try:
            array: np.ndarray = np.fromfile(path, dtype=dtype).reshape(-1, *ref.shape[1:])
        except (OSError, ValueError) as error:
            raise Refused(f"{path.name} is damaged: {error}", f"study {self.id}", tensors.REMEDY) from None
        if name in ERRORS and "tokens" in line.arrays:
            array = unreached_is_unknown(array, self._whole(line, "tokens", None, None))
        return array if axis is None or layer is None else array.take(layer, axis)

    def _tensor(self, line: Line, name: str) -> tensors.Tensor:
        full = tensor_name(line, name)
        tensor = tensors.tensors_of(self.folder / tensors.FILE).get(full)
        if tensor is None:
            raise Refused(f"{tensors.FILE} has no tensor “{full}”", f"study {self.id}", tensors.REMEDY)
        return tensor

    def place(self, line: Line, name: str) -> ArrayBytes:
        """Where the bytes of a quantity of one of the study's lines are, all of its draws."""
        file = line.arrays[name].file
        if file is not None:
            return ArrayBytes(f"arrays/{file}", 0, file.removesuffix(".bin"))
        return ArrayBytes(tensors.FILE, self._tensor(line, name).offset, self.checksum)

    def read(self, line: Line, name: str, layer: int | None = None) -> np.ndarray | None:
        """A quantity of one of the study's lines as float64, axes as in the table above; None where it has none.

        NaN: not measured, not answered, or an error of a layer that no token reached. ``layer`` as of ``array``.
        """
        if name not in line.arrays:
            return None
        array = self.array(line, name, layer)
        return np.where(array == 255, np.nan, array) if name == "correct" else array.astype(np.float64)

    def once(self, line: Line | None, what: str, make: Callable[[], Told]) -> Told:
        """What ``make`` says of one of the study's lines, or of the whole, kept: for what takes long to find out."""
        key = (line and (line.name, line.bits, line.draws), what)
        if key not in self._once:
            self._once[key] = make()
        told: Told = self._once[key]
        return told


def _with_title_of_today(line: Line) -> Line:
    """One name for a method wherever it is shown, whatever it was called when the study was written."""
    if line.method not in METHODS or not set(line.fitting) <= set(FITTING):
        return line
    return line.model_copy(update={"title": title_of(line.method, line.fitting)})


def _read_document(folder: Path) -> dict[str, Any]:
    """What a study.json holds. Raises ``NotFound``, or ``Refused`` for what can't be sent on as JSON either."""
    where = f"study {folder.name}"
    try:
        document = json.loads((folder / "study.json").read_text(encoding="utf-8"), parse_constant=_no_constant)
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()  # no infinity, no half of a character
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound("there is no study here", where, "A study is a folder with a study.json.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Refused(f"study.json is damaged and can't be read: {reason}", where, tensors.REMEDY) from None
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def array_files(study: Study) -> list[str]:
    """The files that the arrays of a study are in, by their paths in its folder."""
    refs = [ref for line in study.lines for ref in line.arrays.values()]
    return sorted({tensors.FILE if ref.file is None else f"arrays/{ref.file}" for ref in refs})


def tensor_name(line: Line, name: str) -> str:
    """What the array of a line is called in ``study.safetensors``."""
    return f"{line.name}/{line.bits}/{name}"


def one_draw(study: Study, seed: int) -> Study:
    """The study as if only the calibration draw of this seed had been made: without error bars, and without the
    pictures, which are of the first draw, for any other. Lines without that draw are left out.

    Raises ``NotFound`` where no line has it.
    """
    return study.once(None, f"draw {seed}", lambda: _one_draw(study, seed))


def _one_draw(study: Study, seed: int) -> Study:
    lines = [_line_of_draw(line, line.draws.index(seed)) for line in study.lines if seed in line.draws]
    if not lines:
        have = ", ".join(str(one) for one in dict.fromkeys(one for line in study.lines for one in line.draws))
        raise NotFound(f"there is no calibration draw {seed}", f"study {study.id}", f"It has {have}.")
    return study.model_copy(update={"lines": tuple(lines)})


def _line_of_draw(line: Line, at: int) -> Line:
    arrays: dict[str, ArrayRef] = {}
    for name, ref in line.arrays.items():
        if ref.axes[0] == "draw":
            shape = (1, *ref.shape[1:])
            arrays[name] = OneDraw(dtype=ref.dtype, shape=shape, axes=ref.axes, file=ref.file, at=at)
        elif at == 0:
            arrays[name] = ref
    return line.model_copy(update={"draws": (line.draws[at],), "arrays": arrays})


class StudyWriter:
    """Collects arrays in a temporary folder beside ``folder``; ``finish`` puts the whole in place at once."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        self._parts = Path(tempfile.mkdtemp(prefix="parts-", dir=self._partial))
        self._count = 0

    def add(self, array: np.ndarray, axes: tuple[str, ...]) -> ArrayRef:
        """Takes an array (float kinds as float32, uint8 as it is) and returns its reference, for a line of the study
        that ``finish`` is given."""
        if array.ndim != len(axes):
            raise ValueError(f"{array.ndim} dimensions but axes {axes}")
        dtype: Literal["float32", "uint8"] = "uint8" if array.dtype == np.uint8 else "float32"
        part = self._parts / str(self._count)
        self._count += 1
        part.write_bytes(np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes())
        return _Written(dtype=dtype, shape=array.shape, axes=axes, part=part)

    def finish(self, study: Study) -> Study:
        """Writes both files and moves the folder into place, replacing an older one of that name. The study that is
        returned reads its arrays there.

        Raises ``ValueError`` for two lines of one name and width, and for arrays that were not added here.
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
        shutil.rmtree(self._partial, ignore_errors=True)


def rewrite(study: Study, folder: Path) -> Study:
    """Writes a study that was opened, of whatever version, to ``folder`` in the current one, with the same numbers."""
    writer = StudyWriter(folder)
    try:
        lines = tuple(copied(study, line, writer) for line in study.lines)
        return writer.finish(study.model_copy(update={"lines": lines}))
    except BaseException:
        writer.discard()
        raise


def copied(study: Study, line: Line, writer: StudyWriter) -> Line:
    """A line of a study that was opened, with its numbers, for the study that the writer makes."""
    arrays = {name: writer.add(study.array(line, name), ref.axes) for name, ref in line.arrays.items()}
    return line.model_copy(update={"arrays": arrays})


def write_document(study: Study, folder: Path) -> None:
    """Writes ``study.json``, without blanks: a large one would be twice its size with them."""
    document = plain(study.model_dump(mode="json"))
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    (folder / "study.json").write_text(text + "\n", encoding="utf-8")
