"""The Lab: one sentence, and everything on the page is evidence for it."""

from html import escape

import gradio as gr

from pages.explorer_parts import doors, main_plots
from pages.layout import Page, part
from sarqc.settings import Settings
from sarqc.web.link_preview import FirstSight

# As the page comes; the script sets it for the shown method, with λ and γ to move.
_OBJECTIVE = """<span class="objective" aria-hidden="true"><span class="min">min<sub><i>Ŵ</i></sub></span>
    <span class="term" data-term="recon"><span class="set">‖(<i>Ŵ</i> − <i>W</i>)&thinsp;<i>X</i>‖<sup>2</sup></span>
      <span class="caption">reconstruction error</span></span>
    <span class="plus">+</span> <span class="knob"><i>λ</i></span>
    <span class="term" data-term="drift"><span class="set">‖(<i>Ŵ</i> − <i>W</i>)&thinsp;<i>S</i>‖<sup>2</sup></span>
      <span class="caption">penalty</span></span></span>"""

_EQUATION = f"""
<div class="equation" data-panel data-control="equation" data-part="equation" data-testid="equation" role="group"
  aria-label="Ŵ is chosen to minimise the reconstruction error plus λ times a penalty on its drift from W.">
  {_OBJECTIVE}
</div>
"""


def _subject(model: str, bits: str, grid: str) -> str:
    """Return the page's subject in words; ``model`` and ``grid`` begin with a comma, or are empty."""
    return (
        f"<b>SARQC</b> rounds the weights <i>W</i> of a language model{model} to {bits} bits{grid}, and keeps the "
        "result, <i>Ŵ</i>, near <i>W</i>: <i>λ</i> says how strongly."
    )


def _skeleton(sight: FirstSight | None) -> str:
    """Return the page as it looks before its scripts run: Gradio's elements take long to come.

    It has its sentence and its finding where they are known, as assets/js/explorer/words_part.js and
    assets/js/charts/plot_host.js write them.
    """
    css_class = what = sentence = title = ""
    if sight is None:
        what = _subject("", "a few", "")
    else:
        css_class, what = " is-known", _subject(f", {escape(sight.model)},", str(sight.bits), "")
        sentence, title = "".join(_sentence_part(**piece) for piece in sight.sentence), escape(sight.title)
        if sight.finding:
            title = f'<span class="card-finding">{escape(sight.finding)}</span><span class="card-name">{title}</span>'
    return f"""
<div class="skeleton{css_class}" aria-hidden="true"><div class="lab page">
  <div class="block area-equation"><div class="equation" data-control="equation">{_OBJECTIVE}</div></div>
  <div class="area-about"><p class="what">{what}</p></div>
  <div class="area-picks"><div class="picks"></div></div>
  <div class="area-told"><div class="told" data-control="sentence"><p class="sentence">{sentence}</p></div></div>
  <div class="story"><div class="card plot-card plot-hero" data-control="hero">
      <header class="card-head"><h2 class="card-title">{title}</h2></header></div>
    <div class="evidence"><div class="card plot-card plot-surfaces" data-control="surfaces"></div></div></div>
</div></div>
"""


def _sentence_part(text: str, role: str, verdict: bool) -> str:
    kind = "verdict" if verdict else f"role-{role}"
    return f'<strong class="{kind}">{escape(text)}</strong>' if role else escape(text)


_WHAT = _subject(
    '<span data-part="what"></span>',
    '<span data-part="what-bits">a few</span>',
    '<span data-part="grid" data-testid="grid"></span>',
)

_PICKS = """
<div class="picks" data-testid="picks">
  <label data-control="study"><select data-pick="model" data-testid="pick-model"
    aria-label="Model"></select></label>
  <label data-control="study"><select data-pick="study" data-testid="pick-study"
    aria-label="Study"></select></label>
  <label data-control="bits"><select data-pick="bits" data-testid="pick-bits"
    aria-label="Bits"></select></label>
  <label data-control="method"><select data-pick="method" data-testid="pick-method"
    aria-label="Method"></select></label>
  <label data-control="layer" hidden><select data-pick="block" data-testid="pick-block"
    aria-label="Block"></select></label>
  <label data-control="layer"><select data-pick="layer" data-testid="pick-layer"
    aria-label="Layer"></select></label>
  <button type="button" class="quiet" data-part="compute" data-testid="compute" data-control="compute"
    title="Solve this layer anew at many λ, on this host" hidden>Compute here</button>
  <span class="picks-end">
    <button type="button" class="act" data-part="use" data-testid="use" data-control="use"
      title="A run with these settings" hidden>Use these settings</button>
    <button type="button" class="quiet" data-part="share" data-testid="share"
      data-control="share">Share</button>
  </span>
</div>
"""

_STATUS = """
<p class="waiting" role="status">Fetching the study</p>
<div data-part="computing"></div>
<div data-part="problem"></div>
<div data-part="ways"></div>
<div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>
<div class="told" data-control="sentence">
  <p class="sentence" data-part="sentence" data-testid="sentence" aria-live="polite" aria-atomic="true"></p>
</div>
"""

_CONTINUED = """
<section class="card continued is-off" data-part="continued" data-panel data-control="continued" data-testid="continued"
  aria-label="A sentence continued" aria-live="polite"></section>
"""

_TRY = """
<section class="card try-card is-off" aria-labelledby="try-title" data-part="try-card" data-panel data-control="try">
  <header class="card-head"><h2 class="card-title" id="try-title">The model on a sentence</h2></header>
  <div data-part="try" data-testid="try"></div>
</section>
"""


def build(settings: Settings) -> None:
    """Lay out the equation, pickers and the sentence above the main figures, and the parts below them."""
    with gr.Column(elem_id="content", elem_classes=["lab", "page"]):
        part(_EQUATION, classes="area-equation")
        part(f'<p class="what" data-testid="what">{_WHAT}</p>', classes="area-about")
        part(_PICKS, classes="area-picks")
        part(_STATUS, script="lab/lab_page.js", classes="area-told")
        with gr.Column(elem_classes=["story"]):
            main_plots()
        part(_CONTINUED, classes="area-continued")
        doors()
        part(_TRY, classes="area-try")


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
