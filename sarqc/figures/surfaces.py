"""Figures of the weights themselves: |Ŵ − W| or Ŵ − W as surfaces and as maps."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from sarqc.figures.drawing import (
    PAPER,
    SLIM_BAR,
    BoundArray,
    Figure,
    Part,
    Span,
    add_note,
    base_layout,
    bind,
    bind_fields,
)
from sarqc.figures.numbers import number, point_names, significant
from sarqc.study.document import SIGNED_ZERO
from sarqc.study.facts import LineFacts, layer_slice, once_a_line
from sarqc.study.paired import mean_over_draws

# From blue to yellow like Cividis; its dark end could not be told from a dark page, and what drifts little is there.
SIZES = [[0, "rgb(72,122,184)"], [0.5, "rgb(158,172,142)"], [1, "rgb(255,233,69)"]]
BOTH_SIGNS = [[0, "var(--drift)"], [0.5, "var(--line)"], [1, "var(--recon)"]]
# Of notebooks; pages have a camera of their own (assets/js/charts/surface/projection.js).
CAMERA: dict[str, dict[str, float]] = {
    "eye": {"x": 1.17, "y": -1.27, "z": 0.8},
    "center": {"x": 0, "y": 0, "z": -0.15},
    "up": {"x": 0, "y": 0, "z": 1},
}
LIGHTING = {
    "lighting": {"ambient": 0.75, "diffuse": 0.55, "specular": 0.05, "roughness": 0.9, "fresnel": 0.05},
    "contours": {axis: {"highlight": False} for axis in "xyz"},
}


@dataclass(frozen=True)
class Pooling:
    """One way of pooling ΔW; the first is what every study with surfaces has."""

    name: str  # in links
    array: str
    title: str  # in the page's choice
    words: str  # in sentences
    by_saliency: bool = False  # inputs from the least to the most salient
    signed: bool = False  # ΔW and not |ΔW|


POOLINGS = (
    Pooling("max", "surface", "largest", "largest of each cell"),
    Pooling("mean", "surface_mean", "mean", "mean of each cell"),
    Pooling(
        "max-saliency",
        "surface_sorted",
        "largest, by saliency",
        "largest of each cell, inputs by saliency",
        True,
    ),
    Pooling(
        "mean-saliency",
        "surface_mean_sorted",
        "mean, by saliency",
        "mean of each cell, inputs by saliency",
        True,
    ),
    Pooling(
        "signed",
        "surface_signed",
        "signed, by saliency",
        "signed mean of each cell, inputs by saliency",
        True,
        True,
    ),
)


class ArrayPlace(TypedDict):
    """Where the numbers of one layer's picture are: bytes of a file of the study, their form, and their unit."""

    file: str
    version: str
    dtype: str
    axes: list[str]
    shape: list[int]
    offset: int  # bytes
    length: int  # bytes
    scale: float  # what 255 stands for
    zero: int  # what stands for 0


class PoolingChoice(TypedDict):
    """A way of pooling that a page offers; ``by_saliency``: inputs from the least to the most salient."""

    name: str
    title: str
    by_saliency: bool


Arrays = dict[str, ArrayPlace]


def surface_arrays(facts: LineFacts, layer: int) -> Arrays:
    """Return the places of one layer's pooled pictures for the browser, by name: file and its version, the bytes of
    that layer, shape, the value of 255 and the number for 0; empty without pictures."""
    arrays: Arrays = {}
    for pooling in POOLINGS:
        name = pooling.array
        ref, scale = facts.line.arrays.get(name), facts.read(f"{name}_scale", layer)
        if ref is None or scale is None:
            continue
        offset, length = layer_slice(ref, layer)
        place = facts.study.place(facts.line, name)
        arrays[name] = {
            "file": place.file,
            "version": place.version,
            "dtype": ref.dtype,
            "axes": list(ref.axes[1:]),
            "shape": list(ref.shape[1:]),
            "offset": place.offset + offset,
            "length": length,
            "scale": float(scale),
            "zero": SIGNED_ZERO if pooling.signed else 0,
        }
    return arrays


def pooling_choices(arrays: Arrays) -> list[PoolingChoice]:
    """Return a page's choices: name, title, and whether the inputs are sorted by saliency."""
    return [
        {"name": pooling.name, "title": pooling.title, "by_saliency": pooling.by_saliency}
        for pooling in POOLINGS
        if pooling.array in arrays
    ]


def surface_layer(facts: LineFacts) -> int:
    """Return the layer whose surface is shown: the chosen one, or for all layers the one that drifts most."""
    return _drifts_most(facts) if facts.layer is None else facts.layer


@once_a_line
def _drifts_most(facts: LineFacts) -> int:
    drift = facts.read("drift")
    if drift is None:
        return 0
    means = mean_over_draws(drift)  # L G M
    return int(np.argmax(np.median(np.nan_to_num(means), axis=(1, 2))))  # whatever it does without damping


def weight_figures(facts: LineFacts, arrays: Arrays, layer: int) -> dict[str, Figure | None]:
    """Return every drawing of the weight changes by name; those of a further pooling have its name after a colon."""
    figures: dict[str, Figure | None] = dict.fromkeys(("surfaces", "surfaces_flat"))
    for pooling in POOLINGS:
        end = "" if pooling is POOLINGS[0] else f":{pooling.name}"
        if pooling.array in arrays:
            figures |= {
                f"surfaces{end}": surfaces(facts, arrays, layer, pooling, flat=False),
                f"surfaces_flat{end}": surfaces(facts, arrays, layer, pooling, flat=True),
            }
    return figures


def surfaces(facts: LineFacts, arrays: Arrays, layer: int, pooling: Pooling = POOLINGS[0], *, flat: bool) -> Figure:
    """Return |Ŵ − W| at the smallest λ and at the shown one, on one scale. ``flat`` draws them as maps.

    Pages draw both as parts of one surface; plotly draws two.
    """
    array = arrays[pooling.array]
    scale = array["scale"]
    margins = {"left": 24, "right": 60, "top": 24, "bottom": 24}
    layout = base_layout(**margins if flat else {"left": 8, "right": 8, "top": 8, "bottom": 0})
    quantity, low = ("Ŵ − W", -scale) if pooling.signed else ("|Ŵ − W|", 0)
    figure: Figure = {"data": [], "layout": layout, "bindings": []}
    for side, (x0, x1) in enumerate(_sides(facts, 0.06 if flat else 0.0)):
        trace: Part = {
            "z": [],
            "colorscale": BOTH_SIGNS if pooling.signed else SIZES,
            "showscale": False,
            **_places(facts, layer, array, pooling),
            "hovertemplate": f"{quantity} %{{z:.3r}}<br>{_WHERE[pooling.by_saliency]}<extra></extra>",
        }
        suffix = "" if side == 0 else "2"
        if flat:
            trace |= {"type": "heatmap", "zmin": low, "zmax": scale} | _flat_axes(layout, suffix, (x0, x1), pooling)
            if x1 == 1.0:  # one scale for both sides
                bar = {**SLIM_BAR, "nticks": 4, "title": {"text": quantity, "font": {"size": 11}}}
                trace |= {"showscale": True, "colorbar": bar}
        else:
            trace |= {"type": "surface", "cmin": low, "cmax": scale, "scene": f"scene{suffix}", **LIGHTING}
            layout[f"scene{suffix}"] = _scene((1 - x1, 1 - x0), scale, pooling, quantity)
        figure["data"].append(trace)
    _bind_sides(figure, facts, pooling.array, quantity, cut_values(facts, layer, pooling.array, scale), flat=flat)
    first, *_ = points = point_names(facts.line)
    words = [
        f"Size of the weight changes in {facts.study.layers[layer].name}, {pooling.words}, "
        f"{f'at {first} and at {point}, on one scale' if len(points) > 1 else f'({first}),'} up to {number(scale, 3)}."
        for point in points
    ]
    figure["bindings"].append(bind("aria", words, "lambda"))
    return figure


def _sides(facts: LineFacts, gap: float) -> list[Span]:
    """Return the extent of each side, of maps across the figure, of surfaces from its top: the smallest λ and the shown
    one, or a lone one."""
    if len(facts.line.lams) < 2:
        return [(0.0, 1.0)]
    return [(0.0, (1 - gap / 2) / 2), ((1 + gap / 2) / 2, 1.0)]


_WHERE = {
    False: "inputs from %{x}, outputs from %{y}",
    True: "inputs from saliency rank %{x}, outputs from %{y}",
}


def _places(facts: LineFacts, layer: int, array: ArrayPlace, pooling: Pooling) -> dict[str, list[Any]]:
    """Return the first input and output channel of each cell, and as ``meta`` the numbers of outputs and inputs and the
    name of an input's number."""
    outputs, inputs = facts.study.layers[layer].shape
    rows, columns = array["shape"][-2:]
    return {
        "x": [at * inputs // columns for at in range(columns)],
        "y": [at * outputs // rows for at in range(rows)],
        "meta": [outputs, inputs, "saliency rank" if pooling.by_saliency else "input"],  # keys of the page
    }


def _flat_axes(layout: Part, suffix: str, domain: Span, pooling: Pooling) -> dict[str, str]:
    """Add a map's two axes to the layout, named and without ticks; return their names for its trace."""
    bare = {"fixedrange": True, "showgrid": False, "zeroline": False, "ticks": "", "showticklabels": False}
    across = {"text": "input, by saliency" if pooling.by_saliency else "input", "standoff": 4}
    layout[f"xaxis{suffix}"] = {**bare, "domain": list(domain), "anchor": f"y{suffix}", "title": across}
    layout[f"yaxis{suffix}"] = {**bare, "anchor": f"x{suffix}"}
    if not suffix:
        layout["yaxis"]["title"] = {"text": "output", "standoff": 4}
    return {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}


def cut_values(facts: LineFacts, layer: int, array: str, scale: float) -> list[list[float | None]]:
    """Return the largest absolute value of each picture that has some above its scale, where they are cut: G M."""
    most = facts.read(f"{array}_most", layer)
    if most is None:  # of a study from before pictures were cut
        return [[None] * len(facts.line.lams) for _ in facts.line.gammas]
    return [[value if value > 1.001 * scale else None for value in row] for row in most.tolist()]


def _bind_sides(
    figure: Figure, facts: LineFacts, array: str, quantity: str, cut: list[list[float | None]], *, flat: bool
) -> None:
    """Bind the traces to the smallest λ and to the shown one, with names above maps and beside surfaces."""
    sides = _sides(facts, 0.0)
    texts = [
        [
            f"{name}: cut, up to {significant(most)}" if most is not None else f"{quantity}, {name}" if flat else name
            for name, most in zip(point_names(facts.line), row, strict=True)
        ]
        for row in cut
    ]  # G M
    for side, (x0, x1) in enumerate(sides):
        bound: BoundArray = {"path": f"data.{side}.z", "array": array}
        if side < len(sides) - 1:
            bound["lambda"] = 0
        figure["bindings"].append(bound)
        if flat:
            place = {"x": (x0 + x1) / 2, "y": 1, "xanchor": "center", "yanchor": "bottom", "yshift": 2}
        else:
            place = {"x": 0.02, "y": 1 - x0, "xanchor": "left", "yanchor": "top", "yshift": -2}
        path = add_note(figure, texts[0][0], "var(--ink)", **place, **PAPER)
        if side < len(sides) - 1:
            bind_fields(figure, path, {"text": [row[0] for row in texts]}, "gamma")
        elif side == 1:
            bind_fields(figure, path, {"text": texts})


def _scene(domain: Span, scale: float, pooling: Pooling, quantity: str) -> Part:
    quiet = {
        "showgrid": True,
        "gridcolor": "var(--line)",
        "zeroline": False,
        "showspikes": False,
        "showbackground": False,
        "showline": True,
        "linecolor": "var(--ink-3)",
        "ticks": "",
        "tickfont": {"size": 10},
    }
    side = {**quiet, "showticklabels": False}
    low = -1.02 * scale if pooling.signed else 0
    font = {"size": 11, "color": "var(--ink-2)"}
    inputs = "inputs by saliency" if pooling.by_saliency else "input channels"
    return {
        "domain": {"x": [0, 1], "y": list(domain)},
        "aspectmode": "manual",
        "aspectratio": {"x": 1.15, "y": 1.15, "z": 0.62},
        "camera": CAMERA,
        "xaxis": {**side, "title": {"text": inputs, "font": font}},
        "yaxis": {**side, "title": {"text": "output channels", "font": font}},
        "zaxis": {**quiet, "range": [low, scale * 1.02], "nticks": 4, "title": {"text": quantity, "font": font}},
    }
