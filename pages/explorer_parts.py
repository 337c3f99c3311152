"""Parts of the Lab: two figures, and below them five parts that open."""

import gradio as gr

from pages.layout import part
from pages.plot import choice, plot
from sarqc.web.page_names import DOORS, DRAWINGS, SHOWN

# The λ axis of the main figure, as a slider: its track lies on the axis (assets/js/explorer/axis_slider.js).
_AXIS = """
<div class="lambda-axis" data-part="sliders" data-testid="sliders" data-panel data-control="sliders">
  <span class="track" data-control="lambda"><span class="band" data-part="band" data-control="band"></span>
    <input type="range" min="0" max="1" step="1" value="0" data-part="lambda" data-testid="lambda"
      aria-label="λ, weight of the penalty"></span>
</div>
"""

_PLAY = """
<button type="button" class="quiet play" data-part="play" data-testid="play" data-control="play" aria-pressed="false"
  title="λ moves by itself">▶ play</button>
"""

_ACTS = """
<p class="door-acts">
  <span data-part="downloads"></span>
  <button type="button" class="quiet" data-part="copy" data-testid="copy" data-control="copy"
    title="The sentence and what it was measured on">Copy as text</button>
</p>
"""

_NUMBERS = """
<section class="card" aria-labelledby="numbers-title" data-panel data-control="numbers">
  <header class="card-head"><h2 class="card-title" id="numbers-title">The numbers</h2>
    <div class="card-tools">
      <button type="button" class="quiet" data-part="csv" data-testid="csv">Download CSV</button>
    </div>
  </header>
  <div class="table-scroll" data-part="table" tabindex="0" role="region"
    aria-label="Table of the numbers"></div>
</section>
"""

_MEASURED = """
<section class="card" aria-labelledby="measured-title" data-panel data-control="measured">
  <header class="card-head"><h2 class="card-title" id="measured-title">How this was measured</h2></header>
  <dl class="measured" data-part="measured" data-testid="measured"></dl>
</section>
"""

# Of the main figure, explained in its menu.
_WORDS = ("recon", "drift", "penalty", "identity", "saliency", "baseline", "undamped", "draws", "band", "edge")

_ENLARGE = '<span class="figure-enlarge"></span>'

# The quantity of a cell, where a study has several, and the switch between surfaces and flat maps.
_POOL = """
<label data-control="pool" hidden><select data-pool data-for="lab-" data-testid="pool"
  aria-label="What a cell of the surfaces says"></select></label>
"""
_DRAWINGS = choice("drawing", "lab-", DRAWINGS, "Drawing of the surfaces") + _POOL + _ENLARGE

_HERO_PICKS = """
<label data-control="draw"><select data-pick="draw" data-testid="pick-draw"
  aria-label="Calibration draw"></select></label>
"""

_MAP_PICK = """
<label data-control="quantity"><select data-pick="quantity" data-testid="pick-quantity"
  aria-label="Quantity of the map"></select></label>
"""


def main_plots() -> None:
    """Lay out the main figures in the order of a narrow screen: the curve over λ with its slider, and the drift."""
    quantities = choice("quality", "lab-", SHOWN, "Quantity shown", "show")
    plot(
        "lab-hero",
        "Perplexity over λ",
        classes="plot-hero",
        words=_WORDS,
        options=quantities + _HERO_PICKS + _ENLARGE + _PLAY,
        foot=_AXIS,
    )
    with gr.Column(elem_classes=["evidence"]):
        for name in ("surfaces", "surfaces_flat"):
            plot(
                f"lab-{name}",
                "|Ŵ − W|",
                classes="plot-surfaces",
                words=("cells",),
                options=_DRAWINGS,
                hidden=name == "surfaces_flat",
            )


_DOOR = """
<button type="button" class="door-button" data-door="{name}" data-testid="door-{name}" data-panel data-control="doors"
  aria-expanded="false" aria-controls="door-{name}"><b>{title}</b><span data-finding="{name}"></span></button>
"""
_SMALL_PRINT = (
    '<div data-control="sentence"><p class="small-print" data-part="small-print" data-testid="small-print"></p></div>'
)


def doors() -> None:
    """Lay out the parts below the main figures, each behind its button and closed until it is opened."""
    with gr.Column(elem_classes=["doors"]):
        for name, content in _CONTENT.items():
            part(_DOOR.format(name=name, title=DOORS[name]), classes="area-door")
            with gr.Column(elem_id=f"door-{name}", elem_classes=["door", "is-off"]):
                content()
        part(_SMALL_PRINT, classes="area-small-print")


def _layers() -> None:
    plot("lab-map", "Every layer", classes="plot-map plot-further plot-whole", tools=_MAP_PICK)
    plot("lab-inspector", "Weight by weight", classes="plot-further plot-whole", hidden=True)


def _trade_off() -> None:
    plot("lab-curves", "Perplexity, error and drift over λ", classes="plot-tall", hidden=True)
    plot(
        "lab-ruler",
        "You already regularise",
        classes="plot-further plot-whole",
        words=("undamped", "identity", "edge"),
        hidden=True,
    )
    plot("lab-plane", "Error against drift", classes="plot-further", words=("radius", "hull", "edge"))
    plot("lab-deciles", "Root-mean-square drift by saliency decile", classes="plot-further", words=("deciles",))
    plot("lab-gamma_grid", "λ × γ", classes="plot-further", hidden=True)


def _steps() -> None:
    plot("lab-ladder", "What each step is worth", classes="plot-ladder", hidden=True)
    plot(
        "lab-methods",
        "Every method of this study",
        classes="plot-methods",
        words=("draws", "edge"),
        hidden=True,
    )
    plot("lab-rounding", "Learned rounding, step by step", classes="plot-further", hidden=True)


def _calibration_text() -> None:
    plot(
        "lab-gap",
        "More calibration text, smaller gap",
        classes="plot-further",
        words=("recon", "undamped", "edge"),
        hidden=True,
    )


def _proof() -> None:
    part(_ACTS)
    part(_MEASURED)
    part(_NUMBERS)
    plot("lab-theorem", "What the calibration text can’t see", classes="plot-further plot-whole", hidden=True)


_CONTENT = {"where": _layers, "trade_off": _trade_off, "steps": _steps, "text": _calibration_text, "proof": _proof}
