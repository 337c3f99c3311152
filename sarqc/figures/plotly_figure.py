"""A figure of the Lab as plotly's own object, at one γ and λ, in the colours of the light or the dark page.

The drawing is the dict that the page gets: here its bindings are resolved by indexing, its arrays are read from the
study, and its roles get their colours from the pages' style sheet. plotly is imported when a figure is made.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sarqc.figures.drawing import Figure
from sarqc.study.facts import LineFacts

if TYPE_CHECKING:
    import plotly.graph_objects as go

Theme = Literal["light", "dark"]
_ROLE = re.compile(r"var\((--[\w-]+)\)")


def plotly_figure(
    figure: Figure, facts: LineFacts, arrays: dict[str, Any], gamma: int, lam: int, colours: dict[str, str]
) -> go.Figure:
    """Draw ``figure`` at one γ and λ. ``arrays``: by their names in the view; ``colours``: see ``colours_of``."""
    import plotly.graph_objects as go

    parts = resolve(
        figure, {"gamma": gamma, "lambda": lam}, lambda name, point: _matrix(facts, arrays[name], name, point)
    )
    data, layout = (coloured(parts[part], colours) for part in ("data", "layout"))
    layout.setdefault("title", {"text": figure.get("title", "")})
    layout["paper_bgcolor"] = layout["plot_bgcolor"] = colours.get("--surface", "white")
    layout["margin"] = {**layout.get("margin", {}), "t": layout.get("margin", {}).get("t", 24) + 36}
    return go.Figure(data=data, layout=layout)


def resolve(figure: Figure, point: dict[str, int], matrix: Any) -> dict[str, Any]:
    """Return data and layout of a figure at a point. ``matrix(name, at)`` gives the rows of an array of the study
    there."""
    parts: dict[str, Any] = copy.deepcopy({part: figure[part] for part in ("data", "layout")})
    for binding in figure["bindings"]:
        if binding["path"] == "aria":
            continue
        if "array" in binding:
            value = matrix(binding["array"], point | ({"lambda": binding["lambda"]} if "lambda" in binding else {}))
        else:
            value = binding["values"]
            for axis in binding["over"]:
                value = value[point[axis]]
        _put(parts, binding["path"].split("."), value)
    return parts


def _put(place: Any, keys: list[str], value: Any) -> None:
    """Set place[a][3][c] for the path a.3.c, creating missing dicts on the way."""
    for key in keys[:-1]:
        place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
    place[keys[-1]] = value


def _matrix(facts: LineFacts, place: dict[str, Any], name: str, point: dict[str, int]) -> np.ndarray:
    """Return a pooled picture of the layer that the view shows, in the unit of the weights: (rows, columns)."""
    cells: np.ndarray = facts.study.array(facts.line, name, place["layer"])[point["gamma"], point["lambda"]]
    zero, scale = float(place["zero"]), float(place["scale"])
    return (cells.astype(np.float64) - zero) * (scale / (255 - zero))


def coloured(part: Any, colours: dict[str, str]) -> Any:
    """Replace every var(--role) in a part by the theme's colour."""
    if isinstance(part, dict):
        return {key: coloured(value, colours) for key, value in part.items()}
    if isinstance(part, list):
        return [coloured(value, colours) for value in part]
    return _ROLE.sub(lambda match: colours[match[1]], part) if isinstance(part, str) else part


@cache
def colours_of(styles: Path, theme: Theme = "light") -> dict[str, str]:
    """Return the colours of the pages by role, from the custom properties of their first style sheet."""
    text = styles.read_text(encoding="utf-8")
    colours: dict[str, str] = {}
    for selector in (":root", *((':root[data-theme="dark"]',) if theme == "dark" else ())):
        block = text[text.index(f"{selector} {{") :]
        block = block[: block.index("}")]
        colours |= {name: value.strip() for name, value in re.findall(r"(--[\w-]+):\s*([^;]+);", block)}
    return colours
