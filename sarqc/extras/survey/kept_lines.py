"""A line of a survey, solved on one draw, as one safetensors file: a survey that was stopped need not solve again what
it has measured."""

import json
from dataclasses import dataclass

import numpy as np
import safetensors.numpy

from sarqc.calibration.pictures import CURVE_ARRAYS, LayerCurve
from sarqc.files.artefacts import ArtefactStore

SUFFIX = ".line"


@dataclass(frozen=True, eq=False)
class SolvedLine:
    """Curves of all layers, errors by number of sequences where the line asks for them, and at each point (γ, λ) the
    key of the model with its weights."""

    curves: list[list[LayerCurve]]  # [layer][gamma]
    by_size: dict[str, np.ndarray]  # layer × size × γ × λ
    models: dict[tuple[int, int], str]


def write_line(store: ArtefactStore, key: str, line: SolvedLine) -> None:
    """Store a line under its key."""
    document = {
        "lams": line.curves[0][0].lams,
        "tokens": [curves[0].tokens for curves in line.curves],
        "gammas": len(line.curves[0]),
        "models": [[*point, model] for point, model in line.models.items()],
    }
    tensors = {f"by_size.{name}": values for name, values in line.by_size.items()}
    for layer, by_gamma in enumerate(line.curves):
        for g, curve in enumerate(by_gamma):
            tensors |= {f"{layer}.{g}.{name}": np.asarray(getattr(curve, name), order="C") for name in CURVE_ARRAYS}
    tensors["document"] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    store.write(key, SUFFIX, safetensors.numpy.save(tensors))


def read_line(store: ArtefactStore, key: str) -> SolvedLine | None:
    """Return the line stored under a key, or None."""
    payload = store.read(key, SUFFIX)
    if payload is None:
        return None
    tensors = safetensors.numpy.load(payload)
    document = json.loads(tensors.pop("document").tobytes())
    lams = tuple(document["lams"])

    def curve(layer: int, g: int, tokens: int) -> LayerCurve:
        stored = {name: tensors.get(f"{layer}.{g}.{name}") for name in CURVE_ARRAYS}
        arrays = {name: array for name, array in stored.items() if array is not None}  # see ``LayerNumbers``
        return LayerCurve(lams, tokens, **arrays)

    curves = [
        [curve(layer, g, tokens) for g in range(document["gammas"])] for layer, tokens in enumerate(document["tokens"])
    ]
    by_size = {name.removeprefix("by_size."): values for name, values in tensors.items() if name.startswith("by_size.")}
    return SolvedLine(curves, by_size, {(g, m): model for g, m, model in document["models"]})
