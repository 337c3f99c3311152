"""What the Lab shows: figures, sliders, numbers, and how they were measured."""

from __future__ import annotations

import gradio as gr

from pages.layout import part
from pages.plot import choice, plot
from sarqc.web.browser_contract import DRAWINGS, QUALITIES

SLIDERS = """
<div class="card sliders" data-part="sliders" data-testid="sliders" data-panel data-control="sliders">
  <label class="slider slider-lambda" data-control="lambda"><span class="sign">λ</span>
    <span class="track"><span class="band" data-part="band" data-control="band"></span>
      <input type="range" min="0" max="1" step="1" value="0" data-part="lambda" data-testid="lambda"
             aria-label="λ, weight of the penalty"></span>
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


_THEOREM = """
<section class="card theorem-terms is-off" data-part="theorem-card" data-panel
  data-control="theorem">
  <header class="card-head"><h2 class="card-title">Theorem 1, term by term</h2></header>
  <dl data-part="theorem" data-testid="theorem"></dl>
</section>
"""


def drawings(prefix: str) -> str:
    """What a cell says, where a study has more than one answer, and the switch between surfaces and flat maps."""
    pooled = (
        f'<label data-control="pool" hidden><select data-pool data-for="{prefix}" '
        'data-testid="pool" aria-label="What a cell of the surfaces says"></select></label>'
    )
    return pooled + choice("drawing", prefix, DRAWINGS, "Drawing of the surfaces")


# Of the main figure, explained in its corner.
_WORDS = ("recon", "drift", "penalty", "identity", "saliency", "baseline", "undamped", "draws", "band", "scale", "edge")


def explorer_plots(prefix: str, tools: str = "") -> None:
    """The Lab's main figures, in the order of a narrow screen. ``tools``: more markup for the corner of the first."""
    quality = choice("quality", prefix, QUALITIES, "Quality shown", "show")
    plot(f"{prefix}hero", "What λ changes", classes="plot-hero", words=_WORDS, tools=tools + quality)
    with gr.Column(elem_classes=["evidence"]):
        plot(f"{prefix}surfaces", "|Ŵ − W|", classes="plot-surfaces", words=("cells",), tools=drawings(prefix))
        plot(
            f"{prefix}surfaces_flat",
            "|Ŵ − W|",
            classes="plot-surfaces",
            words=("cells",),
            tools=drawings(prefix),
            hidden=True,
        )
        plot(
            f"{prefix}deciles",
            "Root-mean-square drift by saliency decile",
            classes="plot-deciles",
            words=("deciles",),
        )


def further_plots(prefix: str) -> None:
    """What only some lines have, below the fold: hidden until the explorer has something to show."""
    plot(f"{prefix}inspector", "Weight by weight", classes="plot-further plot-whole", hidden=True)
    plot(f"{prefix}tokens", "Calibration tokens of each expert", classes="plot-further plot-tokens", hidden=True)
    plot(f"{prefix}tokens_error", "Error by tokens", classes="plot-further", hidden=True)
    part(_TOKENS)
    plot(f"{prefix}selection", "What “auto” chose", classes="plot-further", hidden=True)
    plot(
        f"{prefix}gap",
        "More calibration text, smaller gap",
        classes="plot-further",
        words=("recon", "undamped", "edge"),
        hidden=True,
    )
    plot(f"{prefix}theorem", "What the calibration text can’t see", classes="plot-further", hidden=True)
    part(_THEOREM)
