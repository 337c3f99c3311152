"""The Lab: one sentence, and everything on the page is evidence for it."""

from __future__ import annotations

import gradio as gr

from pages.layout import part, top_bar
from pages.plot import choice, plot

_PICKS = """
<div class="picks" data-testid="picks">
  <label data-control="study"><select data-pick="study" data-testid="pick-study" aria-label="Study"></select></label>
  <label data-control="bits"><select data-pick="bits" data-testid="pick-bits" aria-label="Bits"></select></label>
  <label data-control="method"><select data-pick="method" data-testid="pick-method"
    aria-label="Method"></select></label>
  <label data-control="layer" hidden><select data-pick="block" data-testid="pick-block"
    aria-label="Block"></select></label>
  <label data-control="layer"><select data-pick="layer" data-testid="pick-layer" aria-label="Layer"></select></label>
  <span class="grid-name" data-part="grid" data-testid="grid"></span>
  <button type="button" class="quiet" data-part="compute" data-testid="compute" data-control="compute"
    title="Solve this layer anew at many λ, on this host" hidden>Compute here</button>
  <span class="picks-end">
    <a class="quiet" data-part="download" data-testid="download" data-control="download"
       title="This study as a zip file" download hidden>Download</a>
    <button type="button" class="quiet" data-part="copy" data-testid="copy" data-control="copy">Copy as text</button>
    <button type="button" class="quiet" data-part="share" data-testid="share" data-control="share">Share</button>
  </span>
</div>
<p class="waiting" role="status">Fetching the study</p>
<div data-part="computing"></div>
<div data-part="problem"></div>
<div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>
<p class="sentence" data-part="sentence" data-testid="sentence" data-control="sentence" aria-live="polite"
  aria-atomic="true"></p>
<p class="small-print" data-part="small-print" data-testid="small-print" data-control="sentence"></p>
"""

_HERO_PICKS = """
<label data-control="scale"><select data-pick="scale" data-testid="pick-scale"
  aria-label="Scale of the errors"></select></label>
<label data-control="draw"><select data-pick="draw" data-testid="pick-draw"
  aria-label="Calibration draw"></select></label>
"""

_MAP_PICK = """
<label data-control="quantity"><select data-pick="quantity" data-testid="pick-quantity"
  aria-label="Quantity of the map"></select></label>
"""

SLIDERS = """
<div class="card sliders" data-part="sliders" data-testid="sliders" data-panel data-control="sliders">
  <label class="slider slider-lambda" data-control="lambda"><span class="sign">λ</span>
    <span class="track"><span class="band" data-part="band"></span>
      <input type="range" min="0" max="1" step="1" value="0" data-part="lambda" data-testid="lambda"
             aria-label="λ, weight of the drift penalty"></span>
    <output data-part="lambda-value" data-testid="lambda-value">0</output></label>
  <label class="slider slider-gamma" data-part="gamma-box" data-control="gamma" hidden><span class="sign">γ</span>
    <span class="track"><input type="range" min="0" max="1" step="1" value="0" data-part="gamma" data-testid="gamma"
             aria-label="γ, how saliency mixes activations and weights"></span>
    <output data-part="gamma-value" data-testid="gamma-value">0</output></label>
  <span class="hint" aria-hidden="true">← → to step</span>
  <button type="button" class="quiet play" data-part="play" data-testid="play" data-control="play"
    aria-pressed="false">▶ play</button>
</div>
"""

NUMBERS = """
<section class="card" aria-labelledby="numbers-title" data-panel data-control="numbers">
  <header class="card-head"><h2 class="card-title" id="numbers-title">The numbers</h2>
    <div class="card-tools">
      <button type="button" class="quiet" data-part="csv" data-testid="csv">Download CSV</button>
    </div>
  </header>
  <div class="table-scroll" data-part="table" tabindex="0" role="region" aria-label="Table of the numbers"></div>
</section>
"""

MEASURED = """
<section class="card" aria-labelledby="measured-title" data-panel data-control="measured">
  <header class="card-head"><h2 class="card-title" id="measured-title">How this was measured</h2></header>
  <dl class="measured" data-part="measured" data-testid="measured"></dl>
</section>
"""

_TOKENS = """
<section class="card tokens-numbers is-off">
  <p data-part="tokens-words" data-testid="tokens-words"></p>
  <details data-part="tokens-table" data-testid="tokens-table">
    <summary>Calibration tokens of each expert, as numbers</summary>
    <div class="layers-tools">
      <button type="button" class="quiet" data-part="tokens-csv" data-testid="tokens-csv">Download CSV</button>
    </div>
    <div class="table-scroll" data-part="tokens-numbers" tabindex="0" role="region"
         aria-label="Table of the calibration tokens"></div>
  </details>
</section>
"""


def drawings(prefix: str) -> str:
    """What a cell says, where a study has more than one answer, and the switch between surfaces and flat maps."""
    options = [("surface", "3-D"), ("flat", "flat"), ("difference", "difference")]
    pooled = (
        f'<label data-control="pool" hidden><select data-pool data-for="{prefix}" '
        'data-testid="pool" aria-label="What a cell of the surfaces says"></select></label>'
    )
    return pooled + choice("drawing", prefix, options, "Drawing of the surfaces")


def explorer_plots(prefix: str, tools: str = "") -> None:
    """The figures that the Lab and a finished run share, in the order of a narrow screen; ``tools`` is further markup
    for the first one's corner."""
    options = [("perplexity", "Perplexity"), ("accuracy", "Accuracy")]
    quality = choice("quality", prefix, options, "Quality shown", "show")
    plot(f"{prefix}hero", "What λ changes", classes="plot-hero", tools=tools + quality)
    with gr.Column(elem_classes=["evidence"]):
        plot(f"{prefix}surfaces", "|Ŵ − W|", classes="plot-surfaces", tools=drawings(prefix))
        plot(f"{prefix}surfaces_flat", "|Ŵ − W|", classes="plot-surfaces", tools=drawings(prefix), hidden=True)
        plot(f"{prefix}deciles", "Root-mean-square drift by saliency decile", classes="plot-deciles")


def further_plots(prefix: str) -> None:
    """What only some lines have, below the fold: hidden until the explorer has something to show."""
    plot(f"{prefix}inspector", "Weight by weight", classes="plot-further plot-whole", hidden=True)
    plot(f"{prefix}tokens", "Calibration tokens of each expert", classes="plot-further plot-tokens", hidden=True)
    plot(f"{prefix}tokens_error", "Error by tokens", classes="plot-further", hidden=True)
    part(_TOKENS)
    plot(f"{prefix}selection", "What “auto” chose", classes="plot-further", hidden=True)
    plot(f"{prefix}gap", "More calibration text, smaller gap", classes="plot-further", hidden=True)


def build() -> None:
    """The page at “/”."""
    top_bar("Lab")
    with gr.Column(elem_classes=["lab", "page"]):
        part(_PICKS, script="lab/lab_page.js", classes="area-words")
        with gr.Column(elem_classes=["story"]):
            explorer_plots("lab-", _HERO_PICKS)
        part(SLIDERS, classes="area-sliders")
        with gr.Column(elem_classes=["planes"]):
            plot("lab-map", "Every layer", classes="plot-small plot-map", tools=_MAP_PICK)
            plot("lab-plane", "Error against drift", classes="plot-small")
            plot("lab-gamma_grid", "λ × γ", classes="plot-small", hidden=True)
        with gr.Column(elem_classes=["below"]):
            further_plots("lab-")
            part(MEASURED)
            plot("lab-methods", "Every method of this study", classes="plot-further plot-methods", hidden=True)
        part(NUMBERS, classes="area-numbers")
