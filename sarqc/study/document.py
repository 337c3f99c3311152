"""Study: what a run leaves and what the Lab draws. A folder with ``study.json`` and ``arrays/<content>.bin``.

A study holds *lines*: one method at one width, over the axes (draw, gamma, lambda). Every quantity of a line is an
array whose axes are named in its reference, always in this order: draw, layer, gamma, lambda, then its own.

| array | axes | meaning |
|---|---|---|
| perplexity, accuracy | draw, gamma, lambda | of the whole quantized model; NaN where it was not measured |
| correct | draw, gamma, lambda, item | 1 where a test item was answered rightly, 0 otherwise, 255 not measured |
| recon | draw, layer, gamma, lambda | relative reconstruction error on calibration text |
| held_out | draw, layer, gamma, lambda | relative reconstruction error on unseen text; NaN where there is none |
| sar | draw, layer, gamma, lambda | L_sar with the line's own S, over ‖W S‖² |
| drift | draw, layer, gamma, lambda | ‖ΔW‖_F / ‖W‖_F |
| surface | layer, gamma, lambda, row, column | |ΔW| of the first draw, max-pooled, as uint8 |
| surface_mean | layer, gamma, lambda, row, column | the mean of |ΔW| in each cell |
| surface_sorted, surface_mean_sorted | layer, gamma, lambda, row, column | largest and mean |ΔW|, input channels by \
saliency, least salient first |
| surface_signed | layer, gamma, lambda, row, column | mean ΔW, channels by saliency; 128 stands for 0 |
| surface…_scale | layer | value of 255 in that surface: one scale for all λ and γ of a layer |
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
| candidate_train, candidate_validation | draw, layer, candidate_gamma, candidate_lambda | recon of what “auto” chose \
among, on the sequences it was solved on and on those it was judged on |
| candidate_perplexity | draw, candidate_lambda | on the sequences that one λ for the whole model was judged on |

Surfaces beside ``surface`` and the arrays of the group are missing in older studies.

A line with ``selected`` has one point, at lams (0,) and gammas (None,): every layer there has what was chosen for it.

Every schema version that was ever written can be opened: ``Study.open`` migrates older ones.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from sarqc.errors import NotFound, Refused
from sarqc.models.families import LayerInfo
from sarqc.study.experts import unreached_is_unknown

SCHEMA_VERSION = 3
SIGNED_ZERO = 128  # what stands for 0 in ``surface_signed``


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ArrayRef(_Document):
    """One array of a study: a little-endian, C-ordered file named by its content."""

    file: str = Field(pattern=r"^[0-9a-f]{32}\.bin$")
    dtype: Literal["float32", "uint8"]
    shape: tuple[int, ...]
    axes: tuple[str, ...]


class OneDraw(ArrayRef):
    """One draw of an array whose first axis is the draw: ``whole`` is what the file holds, ``at`` the place in it."""

    whole: ArrayRef
    at: int


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
    title: str
    baseline: str
    bits: int
    grid: str
    group_size: int | None
    lams: tuple[float, ...]  # one entry, 0, where the method has no λ
    gammas: tuple[float | None, ...]
    draws: tuple[int, ...]  # seeds of the calibration draws
    chosen: tuple[int, int] | None = None  # (gamma, lambda) position of the point that a run was asked for
    selected: Literal["layer", "model"] | None = None  # “auto”: λ and γ chosen for each layer, or λ for the model
    candidate_lams: tuple[float, ...] = ()
    candidate_gammas: tuple[float | None, ...] = ()
    sizes: tuple[int, ...] = ()  # numbers of calibration sequences of the arrays “by size”
    texts: tuple[dict[str, Any], ...] = ()  # prompts side by side, as events.TextsCompared says them
    speed: dict[str, Any] | None = None  # as events.SpeedMeasured says it
    arrays: dict[str, ArrayRef]

    @property
    def name(self) -> str:
        """What tells a line from the others of its width: the method, marked where λ was chosen by “auto”."""
        return f"{self.method}-auto" if self.selected else self.method

    @property
    def label(self) -> str:
        """The title for people, with “auto” where that chose λ."""
        return f"{self.title}, auto" if self.selected and not self.title.endswith("auto") else self.title


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
    _folder: Path | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        """Equal documents, wherever their arrays lie: these are named by their content."""
        return isinstance(other, Study) and dict(self) == dict(other)

    @classmethod
    def open(cls, folder: Path) -> Study:
        """The study in ``folder``. Raises ``NotFound``, or ``Refused`` for a newer or damaged one."""
        path = folder / "study.json"
        if not path.is_file():
            raise NotFound("there is no study here", str(folder), "A study is a folder with a study.json.")
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise Refused(f"study.json is damaged: {error}", str(folder), "Make or download it again.") from None
        version = document.get("schema_version")
        if not isinstance(version, int) or version > SCHEMA_VERSION:
            raise Refused(
                f"the study has schema version {version}, this sarqc reads up to {SCHEMA_VERSION}",
                str(folder),
                "Update sarqc.",
            )
        study = cls.model_validate(_migrated(document))
        study._folder = folder
        return study

    def line(self, name: str, bits: int) -> Line:
        """The line of a name at a width; a method's own name also finds its only line. Raises ``NotFound``."""
        for match in (lambda line: line.name, lambda line: line.method):
            for line in self.lines:
                if match(line) == name and line.bits == bits:
                    return line
        have = ", ".join(f"{line.name} at {line.bits} bits" for line in self.lines)
        raise NotFound(f"no line for {name} at {bits} bits", f"study {self.id}", f"It has {have}.")

    @property
    def folder(self) -> Path:
        """Where the study lies. Raises ``ValueError`` for one that was neither opened nor written."""
        if self._folder is None:
            raise ValueError(f"study {self.id} was neither opened nor written, so it has no folder")
        return self._folder

    def array(self, line: Line, name: str) -> np.ndarray:
        """A quantity of one of the study's lines as it is stored: read-only, mapped from the file, axes as in the
        table above. Raises ``NotFound`` where the line has no such quantity.
        """
        ref = line.arrays.get(name)
        if ref is None:
            have = ", ".join(line.arrays)
            raise NotFound(
                f"{line.name} at {line.bits} bits has no array “{name}”", f"study {self.id}", f"It has {have}."
            )
        return _mapped(self.folder, ref)

    def read(self, line: Line, name: str) -> np.ndarray | None:
        """A quantity of one of the study's lines as float64, axes as in the table above; None where it has none.

        NaN: not measured, not answered, or an error of a layer that no token reached.
        """
        if name not in line.arrays:
            return None
        array = self.array(line, name)
        if name == "correct":
            return np.where(array == 255, np.nan, array.astype(np.float64))
        if name.startswith(("recon", "held_out")):
            return unreached_is_unknown(array.astype(np.float64), self.read(line, "tokens"))
        return array.astype(np.float64)


def _mapped(folder: Path, ref: ArrayRef) -> np.ndarray:
    if isinstance(ref, OneDraw):
        return _mapped(folder, ref.whole)[ref.at : ref.at + 1]
    dtype = np.dtype(ref.dtype).newbyteorder("<")
    return np.memmap(folder / "arrays" / ref.file, dtype=dtype, mode="r").reshape(ref.shape)


def one_draw(study: Study, seed: int) -> Study:
    """The study as if only the calibration draw of this seed had been made: without error bars, and without the
    pictures, which are of the first draw, for any other. Lines without that draw are left out.

    Raises ``NotFound`` where no line has it.
    """
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
            arrays[name] = OneDraw(file=ref.file, dtype=ref.dtype, shape=shape, axes=ref.axes, whole=ref, at=at)
        elif at == 0:
            arrays[name] = ref
    return line.model_copy(update={"draws": (line.draws[at],), "arrays": arrays})


class StudyWriter:
    """Collects arrays in a temporary folder beside ``folder``; ``finish`` puts the whole in place at once."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        (self._partial / "arrays").mkdir()

    def add(self, array: np.ndarray, axes: tuple[str, ...]) -> ArrayRef:
        """Stores an array (float kinds as float32, uint8 as it is) and returns its reference."""
        if array.ndim != len(axes):
            raise ValueError(f"{array.ndim} dimensions but axes {axes}")
        dtype = "uint8" if array.dtype == np.uint8 else "float32"
        payload = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()
        name = f"{hashlib.sha256(payload).hexdigest()[:32]}.bin"
        (self._partial / "arrays" / name).write_bytes(payload)
        return ArrayRef(file=name, dtype=dtype, shape=array.shape, axes=axes)

    def finish(self, study: Study) -> Study:
        """Writes ``study.json`` and moves the folder into place, replacing an older one of that name. The study that is
        returned reads its arrays there."""
        document = study.model_dump(mode="json")
        (self._partial / "study.json").write_text(
            json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
        if self.folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-old-", dir=self.folder.parent))
            self.folder.rename(old / "study")
            self._partial.rename(self.folder)
            shutil.rmtree(old)
        else:
            self._partial.rename(self.folder)
        self.folder.chmod(0o755)
        study._folder = self.folder
        return study

    def discard(self) -> None:
        shutil.rmtree(self._partial, ignore_errors=True)


def _plain(value: Any) -> Any:
    """JSON has no NaN: a number that was not measured is null."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _migrated(document: dict[str, Any]) -> dict[str, Any]:
    """Older documents brought to ``SCHEMA_VERSION``.

    Version 1 knew neither “auto” nor sizes, version 2 neither texts nor speed; the defaults say just that.
    """
    return document | {"schema_version": SCHEMA_VERSION}
