"""Calibrate: the recipe's form, the live plan beside it, and its run.

The plan is the only thing that waits for the server; the page asks for it over REST like everybody else.
"""

import json
from html import escape

import gradio as gr

from pages.form_of_recipe import SCRIPT, recipe_form
from pages.layout import Page, part, published_by_the_paper
from pages.plot import plot
from sarqc.settings import Settings
from sarqc.web.profile import is_private

_PLAN = """
<section class="card plan" data-part="plan-card" aria-labelledby="plan-title">
  <header class="card-head"><h2 class="card-title" id="plan-title">The plan</h2
    ><span class="checking" data-part="checking" data-testid="checking" role="status"></span></header>
  <div class="plan-body" data-part="plan" data-testid="plan" aria-live="polite"></div>
  <div class="plan-foot">
    <div class="plan-acts">
      <button type="button" class="act" data-part="start" data-testid="start" disabled
        >Start calibration</button>
      <span class="tune-box" role="group" aria-label="Find the λ of this model">
        <button type="button" class="act-quiet" data-part="tune" data-testid="tune" disabled>Find my λ</button>
        <label><span class="visually-hidden">Budget for finding λ</span>
          <select class="field-select" data-part="budget" data-testid="budget"></select></label>
      </span>
      <p class="budget-words" data-part="budget-words" aria-hidden="true"></p>
    </div>
    <span class="plan-note" data-part="plan-note" role="status"></span>
    <div class="plan-note tune-note" data-part="tune-note" data-testid="tune-note" role="status"></div>
    <div class="tune-box ladder-box" role="group" aria-label="What each step is worth on this model">
      <button type="button" class="act-quiet" data-part="ladder" data-testid="ladder" disabled
        >What is each step worth on my model?</button>
      <label><span class="visually-hidden">Budget for measuring the steps</span>
        <select class="field-select" data-part="ladder-budget" data-testid="ladder-budget"></select></label>
    </div>
    <div class="plan-note tune-note" data-part="ladder-note" data-testid="ladder-note" role="status"></div>
  </div>
  <div class="plan-texts" data-part="plan-texts"></div>
</section>
<section class="card run" data-part="run-card" data-testid="run" hidden aria-labelledby="run-title"></section>
<section class="card recipe-card" data-part="recipe-card" data-testid="recipe-card" hidden
  aria-label="Recipe">
</section>
"""

# Drawn while a tuning run goes on, and after it, with the log and the foot below.
_TUNING_WORDS = """
<div class="study-words">
  <p class="sentence" data-part="tuning-sentence" data-testid="tuning-sentence" aria-live="polite"></p>
  <div class="tuning-clock" data-part="tuning-clock"></div>
</div>
"""
_TUNING_NEXT = '<div data-part="tuning-next"></div>'

_TUNING_LOG = """
<div role="log" aria-label="Turning points"><ol class="tuning-log" data-part="tuning-log"
  data-testid="tuning-log"></ol></div>
"""

_TUNING_FOOT = """
<ul class="tuning-legend" data-part="tuning-legend" data-testid="tuning-legend"
  aria-label="Marks of the figure"></ul>
<p class="small-print" data-part="tuning-small-print" data-testid="tuning-small-print"></p>
<section class="card tuning-end" data-part="tuning-end" aria-label="The run"></section>
<section class="card recipe-card" data-part="tuning-recipe" aria-label="Recipe"></section>
"""

# Drawn while the ladder of a model is measured, and after it, with the foot below.
_LADDER_WORDS = """
<div class="study-words">
  <p class="sentence" data-part="ladder-sentence" data-testid="ladder-sentence" aria-live="polite"></p>
  <div class="tuning-clock" data-part="ladder-clock"></div>
</div>
"""

_LADDER_FOOT = """
<p class="small-print" data-part="ladder-small-print" data-testid="ladder-small-print"></p>
<div data-part="ladder-next"></div>
<section class="card tuning-end" data-part="ladder-end" aria-label="The run"></section>
<section class="card recipe-card" data-part="ladder-recipe" aria-label="Recipe"></section>
"""

# Drawn while a run learns rounding with early stopping, and after it.
_ROUNDING_WORDS = """
<p class="small-print" data-part="rounding-words" data-testid="rounding-words" aria-live="polite"></p>
<div data-part="rounding-trouble"></div>
"""

# Filled by the page where a run has measured them.
_SIDE_BY_SIDE = """
<section class="card" data-part="texts-card" data-testid="texts" hidden aria-labelledby="texts-title"></section>
<section class="card" data-part="speed-card" data-testid="speed" data-published="PUBLISHED" hidden
  aria-labelledby="speed-title"></section>
"""

# Words about unusable parts of the address.
_LINK_NOTE = '<div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>'


def build(settings: Settings) -> None:
    """Lay out the form with its plan beside it, or a run in their place."""
    with gr.Column(elem_id="content", elem_classes=["page", "calibrate"]):
        part(_LINK_NOTE, classes="slot-note")
        with gr.Column(elem_classes=["workbench"]):
            names = json.dumps(recipe_form())
            folders = settings.model_dirs if is_private(settings) else ""  # strangers are shown no paths
            side = f'<div class="side" data-fields="{escape(names)}" data-folders="{escape(folders)}">{_PLAN}</div>'
            part(side, script=SCRIPT, classes="area-side")
        published = json.dumps(published_by_the_paper(settings)["speed"], ensure_ascii=False)
        with gr.Column(elem_classes=["tuning-run"]):
            part(_TUNING_WORDS)
            with gr.Column(elem_classes=["tuning-race"]):
                part(_TUNING_NEXT, classes="area-next")
                plot("tuning", "The search for λ", classes="plot-hero")
                part(_TUNING_LOG, classes="area-log")
            part(_TUNING_FOOT)
        with gr.Column(elem_classes=["ladder-run"]):
            part(_LADDER_WORDS)
            plot("ladder", "What each step is worth", classes="plot-ladder")
            part(_LADDER_FOOT)
        with gr.Column(elem_classes=["rounding-run"]):
            plot("rounding", "Learned rounding, step by step", classes="plot-rounding")
            part(_ROUNDING_WORDS)
        part(_SIDE_BY_SIDE.replace("PUBLISHED", escape(published)))


PAGE = Page(
    "Calibrate",
    "/calibrate",
    build,
    scripts=(SCRIPT,),
    styles=("calibrate", "run", "tune", "texts"),
    heading="Quantize a language model",
    about="Choose a model, bits and a method: a plan says time and memory before anything starts. Then the run, what "
    "it lost against the float model, and its export.",
)
