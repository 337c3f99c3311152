"""Studies of single runs as one study: the results of a batch, perhaps from many hosts, for the Lab.

Runs of one method, grid and width become one line over their draws, γ and λ. Points that no run has measured stay
unknown, and pictures of weights stay in the studies of the runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.engine.study_output import study_writer
from sarqc.errors import Refused
from sarqc.study.document import ArrayRef, Line, Study, StudyWriter

_PLACES = {"draw": "draws", "gamma": "gammas", "lambda": "lams"}  # the axes along which runs differ
_VARYING = ("versions", "device")  # parts of a protocol that may differ within a batch
_DRAW_FIELDS = ("seed", "sha256")
_AUTO_FIELDS = ("validation_samples", "calibrated_on", "judged_on")
_EMPTY = {"float32": math.nan, "uint8": 255}


@dataclass(frozen=True)
class _Run:
    """One line of a study, with the places of its points in the joined line."""

    study: Study
    line: Line

    def places(self, whole: Line) -> dict[str, list[int]]:
        """Return the positions of this line's values among those of the whole, by axis."""
        return {
            axis: [getattr(whole, name).index(value) for value in getattr(self.line, name)]
            for axis, name in _PLACES.items()
        }


def studies_below(folder: Path) -> list[Study]:
    """Return every study in a folder or below it, by path.

    Raises:
        Refused: If there is none, or one is damaged.
    """
    studies = [Study.open(path.parent) for path in sorted(folder.rglob("study.json"))]
    if not studies:
        raise Refused("it has no study", str(folder), "Give the folder that the runs wrote their studies to.")
    return studies


def gather(studies: Sequence[Study], folder: Path) -> Study:
    """Write one study with the lines of all to ``folder``; its name is the study's id.

    Raises:
        Refused: If the studies are of different models or were measured differently.
    """
    first = studies[0]
    for study in studies[1:]:
        _check(first, study)
    groups: dict[tuple[object, ...], list[_Run]] = {}
    for study in studies:
        for line in study.lines:
            key = (line.name, line.bits, line.grid, line.group_size)
            groups.setdefault(key, []).append(_Run(study, line))
    _check_names(groups)
    with study_writer(folder) as writer:
        return writer.finish(
            Study(
                id=folder.name,
                title=f"{first.model.name}, {len(studies)} runs",
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                prefix=first.prefix,
                model=next((study.model for study in studies if study.model.accuracy is not None), first.model),
                protocol=first.protocol,
                layers=first.layers,
                lines=tuple(_join(runs, writer) for runs in groups.values()),
                flags=tuple(sorted({flag for study in studies for flag in study.flags})),
            )
        )


def _check(first: Study, other: Study) -> None:
    parts: dict[str, list[Any]] = {
        "the model": [(study.model.name, study.model.parameters, study.layers) for study in (first, other)],
        "the inputs of layers": [study.prefix for study in (first, other)],
    }
    for name in sorted({*first.protocol, *other.protocol} - {*_VARYING}):
        parts[f"the protocol’s {name}"] = _comparable_parts(first.protocol.get(name), other.protocol.get(name))
    for what, (mine, theirs) in parts.items():
        if mine != theirs:
            raise Refused(
                f"{what} is another one than in {first.id}", f"study {other.id}", "Gather runs of one batch at a time."
            )


def _comparable_parts(*parts: Any) -> list[Any]:
    """Return two parts of protocols without fields of “auto”, and without the draw where draws differ."""
    if not all(isinstance(part, dict) for part in parts):
        return list(parts)
    same_draw = len({part.get("seed") for part in parts}) == 1
    ignored = {*_VARYING, *_AUTO_FIELDS} | (set() if same_draw else {*_DRAW_FIELDS})
    return [{name: value for name, value in part.items() if name not in ignored} for part in parts]


def _check_names(groups: dict[tuple[object, ...], list[_Run]]) -> None:
    """Check that a study tells its lines apart by name and width."""
    names: dict[tuple[object, ...], list[_Run]] = {}
    for (name, bits, *_), runs in groups.items():
        named = names.setdefault((name, bits), runs)
        if named is not runs:
            what = f"{name} at {bits} bits has another grid or group size than in {named[0].study.id}"
            raise Refused(what, f"study {runs[0].study.id}", "Gather runs of one grid and group size at a time.")


def _join(runs: Sequence[_Run], writer: StudyWriter) -> Line:
    """Return one line over all draws, γ and λ of the runs."""
    lines = [run.line for run in runs]
    axes = {name: {value for line in lines for value in getattr(line, name)} for name in _PLACES.values()}
    update: dict[str, Any] = {
        name: tuple(sorted(values, key=lambda value: -math.inf if value is None else value))
        for name, values in axes.items()
    }
    if len(lines) > 1:
        update |= {"chosen": None, "texts": (), "speed": None}
    whole = lines[0].model_copy(update=update)
    # Without pictures of the weights of one of several runs.
    names = dict.fromkeys(
        name for line in lines for name, ref in line.arrays.items() if "draw" in ref.axes or len(runs) == 1
    )
    return whole.model_copy(update={"arrays": {name: _scatter(runs, whole, name, writer) for name in names}})


def _scatter(runs: Sequence[_Run], whole: Line, name: str, writer: StudyWriter) -> ArrayRef:
    """Write an array of the whole line with every run's numbers in their places; the first known number is taken."""
    known = [(run, run.line.arrays[name]) for run in runs if name in run.line.arrays]
    ref = known[0][1]
    shape = [
        len(getattr(whole, _PLACES[axis])) if axis in _PLACES else length
        for axis, length in zip(ref.axes, ref.shape, strict=True)
    ]
    joined = np.full(shape, _EMPTY[ref.dtype], dtype=ref.dtype)
    for run, _ in known:
        place = run.places(whole)
        index = np.ix_(*(place.get(axis, range(length)) for axis, length in zip(ref.axes, shape, strict=True)))
        existing = joined[index]
        is_known = ~np.isnan(existing) if ref.dtype == "float32" else existing != _EMPTY["uint8"]
        joined[index] = np.where(is_known, existing, run.study.array(run.line, name))
    return writer.add(joined, ref.axes)
