"""What the Lab shows: two figures, and below them five parts that open."""

from __future__ import annotations

import gradio as gr

from pages.layout import part
from pages.plot import choice, plot
from sarqc.web.browser_contract import DOORS, DRAWINGS, SHOWN


def _axis() -> str:
    """The λ axis of the main figure, as a slider: its track lies on the axis (assets/js/explorer/axis_slider.js)."""
    return """
<div class="lambda-axis" data-part="sliders" data-testid="sliders" data-panel data-control="sliders">
  <span class="track" data-control="lambda"><span class="band" data-part="band" data-control="band"></span>
    <input type="range" min="0" max="1" step="1" value="0" data-part="lambda" data-testid="lambda"
      aria-label="λ, weight of the penalty"></span>
</div>
"""


def _play() -> str:
    return """
<button type="button" class="quiet play" data-part="play" data-testid="play" data-control="play" aria-pressed="false"
  title="λ moves by itself">▶ play</button>
"""


def _acts() -> str:
    return """
<p class="door-acts">
  <span data-part="downloads"></span>
  <button type="button" class="quiet" data-part="copy" data-testid="copy" data-control="copy"
    title="The sentence and what it was measured on">Copy as text</button>
</p>
"""


def _numbers() -> str:
    return """
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


def _measured() -> str:
    return """
<section class="card" aria-labelledby="measured-title" data-panel data-control="measured">
  <header class="card-head"><h2 class="card-title" id="measured-title">How this was measured</h2></header>
  <dl class="measured" data-part="measured" data-testid="measured"></dl>
</section>
"""


def _tokens() -> str:
    return """
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


def _theorem() -> str:
    return """
<section class="card theorem-terms is-off" data-part="theorem-card" data-panel
  data-control="theorem">
  <header class="card-head"><h2 class="card-title">Theorem 1, term by term</h2></header>
  <dl data-part="theorem" data-testid="theorem"></dl>
</section>
"""


def _drawings(prefix: str) -> str:
    """What a cell says, where a study has more than one answer, and the switch between surfaces and flat maps."""
    pooled = (
        f'<label data-control="pool" hidden><select data-pool data-for="{prefix}" data-testid="pool" '
        'aria-label="What a cell of the surfaces says"></select></label>'
    )
    return choice("drawing", prefix, DRAWINGS, "Drawing of the surfaces") + pooled + _ENLARGE


# Of the main figure, explained in its menu.
_WORDS = ("recon", "drift", "penalty", "identity", "saliency", "baseline", "undamped", "draws", "band", "scale", "edge")

_ENLARGE = '<span class="figure-enlarge"></span>'


def _hero_picks() -> str:
    return """
<label data-control="scale"><select data-pick="scale" data-testid="pick-scale"
  aria-label="Scale of the errors"></select></label>
<label data-control="draw"><select data-pick="draw" data-testid="pick-draw"
  aria-label="Calibration draw"></select></label>
"""


def _map_pick() -> str:
    return """
<label data-control="quantity"><select data-pick="quantity" data-testid="pick-quantity"
  aria-label="Quantity of the map"></select></label>
"""


def _ruler_link() -> str:
    return """
<a class="quiet" data-part="ruler-run" data-testid="ruler-run">Run with this λ</a>
"""


def main_plots(prefix: str) -> None:
    """The Lab's main figures, in the order of a narrow screen: the curve over λ with its slider, and the drift."""
    shown = choice("quality", prefix, SHOWN, "Quantity shown", "show")
    plot(
        f"{prefix}hero",
        "Perplexity over λ",
        classes="plot-hero",
        words=_WORDS,
        options=shown + _hero_picks() + _ENLARGE + _play(),
        foot=_axis(),
    )
    with gr.Column(elem_classes=["evidence"]):
        for name in ("surfaces", "surfaces_flat"):
            plot(
                f"{prefix}{name}",
                "|Ŵ − W|",
                classes="plot-surfaces",
                words=("cells",),
                options=_drawings(prefix),
                hidden=name == "surfaces_flat",
            )


def doors(prefix: str, *, small_print: str) -> None:
    """The parts below the main figures, each closed until it is opened; ``small_print`` stands under their buttons."""
    buttons = "".join(
        (
            f'<button type="button" class="door-button" data-door="{name}" data-testid="door-{name}" '
            f'aria-expanded="false"\n          aria-controls="door-{name}"><b>{title}</b><span '
            f'data-finding="{name}"></span></button>'
        )
        for name, title in DOORS.items()
    )
    part(f'<div class="doors" data-part="doors" data-panel data-control="doors">{buttons}</div>', classes="area-doors")
    part(small_print, classes="area-small-print")
    for name, content in _CONTENT.items():
        with gr.Column(elem_id=f"door-{name}", elem_classes=["door", "is-off"]):
            content(prefix)


def _where(prefix: str) -> None:
    plot(f"{prefix}map", "Every layer", classes="plot-map plot-further plot-whole", tools=_map_pick())
    plot(f"{prefix}inspector", "Weight by weight", classes="plot-further plot-whole", hidden=True)


def _trade_off(prefix: str) -> None:
    plot(f"{prefix}curves", "Perplexity, error and drift over λ", classes="plot-tall", hidden=True)
    plot(
        f"{prefix}ruler",
        "You already regularise",
        classes="plot-further plot-whole",
        words=("undamped", "identity", "edge"),
        tools=_ruler_link(),
        hidden=True,
    )
    plot(f"{prefix}plane", "Error against drift", classes="plot-further", words=("radius", "hull", "edge"))
    plot(f"{prefix}deciles", "Root-mean-square drift by saliency decile", classes="plot-further", words=("deciles",))
    plot(f"{prefix}gamma_grid", "λ × γ", classes="plot-further", hidden=True)


def _steps(prefix: str) -> None:
    plot(f"{prefix}ladder", "What each step is worth", classes="plot-ladder", hidden=True)
    plot(
        f"{prefix}methods",
        "Every method of this study",
        classes="plot-methods",
        words=("draws", "edge"),
        hidden=True,
    )
    plot(f"{prefix}selection", "What “auto” chose", classes="plot-further", hidden=True)
    plot(f"{prefix}rounding", "Learned rounding, step by step", classes="plot-further", hidden=True)


def _text(prefix: str) -> None:
    plot(
        f"{prefix}gap",
        "More calibration text, smaller gap",
        classes="plot-further",
        words=("recon", "undamped", "edge"),
        hidden=True,
    )
    plot(f"{prefix}tokens", "Calibration tokens of each expert", classes="plot-further plot-tokens", hidden=True)
    plot(f"{prefix}tokens_error", "Error by tokens", classes="plot-further", hidden=True)
    part(_tokens())


def _proof(prefix: str) -> None:
    part(_acts())
    part(_measured())
    part(_numbers())
    plot(f"{prefix}theorem", "What the calibration text can’t see", classes="plot-further", hidden=True)
    part(_theorem())


_CONTENT = {"where": _where, "trade_off": _trade_off, "steps": _steps, "text": _text, "proof": _proof}
