"""How quantities look, by role: colours, dashes and markers, and the type of a figure.

Colours are written ``var(--role)`` and resolved where the theme is known.
"""

from __future__ import annotations

from typing import TypedDict


class Role(TypedDict):
    """How a quantity is drawn, in plotly's words."""

    color: str
    dash: str
    symbol: str


# One colour, one dash and one marker for each quantity, everywhere. Of two that share a panel the one that matters is
# solid and dark: the error on unseen text before that on calibration text, drift before the penalty.
QUALITY: Role = {"color": "var(--quality)", "dash": "solid", "symbol": "diamond"}
RECON: Role = {"color": "var(--recon)", "dash": "dot", "symbol": "circle"}
HELD_OUT: Role = {"color": "var(--held-out)", "dash": "solid", "symbol": "circle"}
DRIFT: Role = {"color": "var(--drift)", "dash": "solid", "symbol": "square"}
PENALTY: Role = {"color": "var(--penalty)", "dash": "dash", "symbol": "circle"}
ROLES = {"quality": QUALITY, "recon": RECON, "held_out": HELD_OUT, "drift": DRIFT, "penalty": PENALTY}
REFERENCE = {"color": "var(--ink-2)", "width": 1, "dash": "2px 3px"}  # the line of the float model
SHADES = "Cividis"
# Cividis in five places, from dark to light: plotly knows the whole by name only.
CIVIDIS = ((0, 32, 76), (61, 78, 107), (124, 123, 120), (186, 174, 108), (255, 233, 69))
# Of colours.
SLIM_BAR = {"thickness": 8, "len": 1.0, "x": 1.02, "xpad": 0, "ypad": 2, "outlinewidth": 0, "ticks": ""}
FONT = {
    "family": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "size": 12,
    "color": "var(--ink-2)",
}


def ink_of(style: Role) -> str:
    """Return the colour of words about a quantity."""
    return style["color"].replace(")", "-ink)")
