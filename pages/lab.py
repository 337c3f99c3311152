"""The Lab: one sentence, and everything on the page is evidence for it."""

from __future__ import annotations

from html import escape

import gradio as gr

from pages.explorer_parts import doors, main_plots
from pages.layout import Page, part
from sarqc.settings import Settings
from sarqc.web.link_preview import FirstSight


def _objective() -> str:
    """As the page comes; the script sets it for the shown method, with λ and γ to move."""
    return """<span class="objective" aria-hidden="true"><span class="min">min<sub><i>Ŵ</i></sub></span>
    <span class="term" data-term="recon"><span class="set">‖(<i>Ŵ</i> − <i>W</i>)&thinsp;<i>X</i>‖<sup>2</sup></span>
      <span class="caption">reconstruction error</span></span>
    <span class="plus">+</span> <span class="knob"><i>λ</i></span>
    <span class="term" data-term="drift"><span class="set">‖(<i>Ŵ</i> − <i>W</i>)&thinsp;<i>S</i>‖<sup>2</sup></span>
      <span class="caption">penalty</span></span></span>"""


def _equation() -> str:
    label = "Ŵ is chosen to minimise the reconstruction error plus λ times a penalty on its drift from W."
    return f"""
<div class="equation" data-panel data-control="equation" data-part="equation" data-testid="equation" role="group"
  aria-label="{label}">
  {_objective()}
</div>
"""


def _what(model: str, bits: str, grid: str) -> str:
    """What the page is about; ``model`` and ``grid`` begin with a comma, or are empty."""
    rounded = f"The weights <i>W</i> of a language model{model} are rounded to {bits} bits: <i>Ŵ</i>{grid}."
    kept = (
        "<b>SARQC</b>, saliency-aware regularized quantization calibration, keeps <i>Ŵ</i> near <i>W</i>; "
        "<i>λ</i> says how strongly."
    )
    return f"{rounded} {kept}"


# What is seen of the page before its first view, at the same places: Gradio's elements take long to come.
_SKELETON = """
<div class="skeleton{known}" aria-hidden="true"><div class="lab page">
  <div class="block area-equation"><div class="equation" data-control="equation">{objective}</div></div>
  <div class="area-about"><p class="what">{what}</p></div>
  <div class="area-picks"><div class="picks"></div></div>
  <div class="area-told"><div class="told" data-control="sentence"><p class="sentence">{sentence}</p></div></div>
  <div class="story"><div class="card plot-card plot-hero" data-control="hero">
      <header class="card-head"><h2 class="card-title">{title}</h2></header></div>
    <div class="evidence"><div class="card plot-card plot-surfaces" data-control="surfaces"></div></div></div>
</div></div>
"""


def _skeleton(sight: FirstSight | None) -> str:
    """The page before its scripts: with its sentence and its finding where they are known."""
    if sight is None:
        nothing = dict.fromkeys(("known", "sentence", "title"), "")
        return _SKELETON.format(objective=_objective(), what=_what("", "a few", ""), **nothing)
    return _SKELETON.format(
        known=" is-known",
        objective=_objective(),
        what=_what(f", {escape(sight.model)},", str(sight.bits), ""),
        sentence="".join(_spoken(piece["text"], piece["role"], verdict=piece["verdict"]) for piece in sight.sentence),
        title=_heading(sight),
    )


def _heading(sight: FirstSight) -> str:
    """The heading of the main figure, as assets/js/charts/plot_host.js writes it."""
    if not sight.finding:
        return escape(sight.title)
    finding, name = escape(sight.finding), escape(sight.title)
    return f'<span class="card-finding">{finding}</span><span class="card-name">{name}</span>'


def _spoken(text: str, role: str, *, verdict: bool) -> str:
    """A piece of the sentence, as assets/js/explorer/words_part.js writes it."""
    kind = "verdict" if verdict else f"role-{role}"
    return f'<strong class="{kind}">{escape(text)}</strong>' if role else escape(text)


def _about() -> str:
    what = _what(
        '<span data-part="what"></span>',
        '<span data-part="what-bits">a few</span>',
        '<span data-part="grid" data-testid="grid"></span>',
    )
    return f'<p class="what" data-testid="what">{what}</p>'


def _picks() -> str:
    solve_anew = "Solve this layer anew at many λ, on this host"
    return f"""
<div class="picks" data-testid="picks">
  <label data-control="study"><select data-pick="study" data-testid="pick-study"
    aria-label="Study"></select></label>
  <label data-control="bits"><select data-pick="bits" data-testid="pick-bits"
    aria-label="Bits"></select></label>
  <label data-control="method"><select data-pick="method" data-testid="pick-method"
    aria-label="Method"></select></label>
  <label data-control="method" hidden><select data-pick="fitting" data-testid="pick-fitting"
    aria-label="How the grid is fitted"></select></label>
  <label data-control="layer" hidden><select data-pick="block" data-testid="pick-block"
    aria-label="Block"></select></label>
  <label data-control="layer"><select data-pick="layer" data-testid="pick-layer"
    aria-label="Layer"></select></label>
  <button type="button" class="quiet" data-part="compute" data-testid="compute" data-control="compute"
    title="{solve_anew}" hidden>Compute here</button>
  <span class="picks-end">
    <button type="button" class="act" data-part="use" data-testid="use" data-control="use"
      title="A run with these settings" hidden>Use these settings</button>
    <button type="button" class="quiet" data-part="share" data-testid="share"
      data-control="share">Share</button>
  </span>
</div>
"""


def _told() -> str:
    return """
<p class="waiting" role="status">Fetching the study</p>
<div data-part="computing"></div>
<div data-part="problem"></div>
<div data-part="ways"></div>
<div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>
<div class="told" data-control="sentence">
  <p class="sentence" data-part="sentence" data-testid="sentence" aria-live="polite" aria-atomic="true"></p>
</div>
"""


_SMALL_PRINT = (
    '<div data-control="sentence"><p class="small-print" data-part="small-print" data-testid="small-print"></p></div>'
)


def _try() -> str:
    return """
<section class="card try-card is-off" aria-labelledby="try-title" data-part="try-card" data-panel data-control="try">
  <header class="card-head"><h2 class="card-title" id="try-title">The model on a sentence</h2></header>
  <div data-part="try" data-testid="try"></div>
</section>
"""


def build(settings: Settings) -> None:
    """The equation, pickers and the sentence above the main figures, and the parts below them."""
    with gr.Column(elem_id="content", elem_classes=["lab", "page"]):
        part(_equation(), classes="area-equation")
        part(_about(), classes="area-about")
        part(_picks(), classes="area-picks")
        part(_told(), script="lab/lab_page.js", classes="area-told")
        with gr.Column(elem_classes=["story"]):
            main_plots("lab-")
        doors("lab-", small_print=_SMALL_PRINT)
        part(_try(), classes="area-try")


PAGE = Page(
    "Lab",
    "/",
    build,
    "What λ does to a quantized model",
    scripts=("charts/plot_host.js", "lab/lab_page.js"),
    asks="lab/lab_page.js",
    styles=("equation", "lab", "try", "lecture"),
    skeleton=_skeleton,
)
