"""Runs: every run of this host as a table that follows them; size against quality, and a comparison of those picked."""

import gradio as gr

from pages.layout import Page, part
from pages.plot import choice, plot
from sarqc.settings import Settings
from sarqc.web.page_names import SIZES


def _runs(root: str) -> str:
    inspected = "What others quantized: see what it lost, and whether its codes can be better"
    return f"""
<div class="runs-head">
  <input type="search" data-part="filter" data-testid="filter" maxlength="1000"
         placeholder="Filter: name, #tag, model, method, state" aria-label="Filter runs">
  <span class="runs-sort" data-part="sort"></span>
  <select data-part="group" data-testid="group" aria-label="Group runs">
    <option value="">Each run</option>
    <option value="seeds">Seeds together</option>
    <option value="batch">Batches together</option>
  </select>
  <span class="runs-count" data-part="count" data-testid="count" role="status"></span>
  <span class="runs-end">
    <button type="button" class="act-quiet" data-part="open-study" data-testid="open-study"
            title="The zip file that a study's Download gives">Open a study</button>
    <input type="file" accept=".zip,application/zip" data-part="study-file" data-testid="study-file" hidden>
    <a class="act-quiet" href="{root}/calibrate#inspect" data-testid="inspect"
       title="{inspected}">Inspect a checkpoint</a>
    <a class="act" href="{root}/calibrate">New run</a>
  </span>
</div>
<div data-part="problem"></div>
<div data-part="study-problem"></div>
<section class="card runs-card">
  <div class="runs-picked" data-part="picked"></div>
  <div class="table-scroll" data-part="table" data-testid="runs" tabindex="0" role="region"
    aria-label="Runs"></div>
  <div data-part="pages"></div>
</section>
"""


_STUDIES = """
<section class="card studies" aria-labelledby="studies-title" hidden>
  <header class="card-head"><h2 class="card-title" id="studies-title">Studies without a run here</h2></header>
  <div class="table-scroll" data-part="studies" data-testid="studies"></div>
</section>
"""

_COMPARE = """
<div class="compare-tables">
  <section class="card" aria-labelledby="differences-title">
    <header class="card-head"><h2 class="card-title" id="differences-title"
      >Where the recipes differ</h2></header>
    <div class="table-scroll" data-part="differences" data-testid="differences"></div>
  </section>
  <section class="card" aria-labelledby="compared-title">
    <header class="card-head"><h2 class="card-title" id="compared-title">The numbers</h2></header>
    <div class="table-scroll" data-part="compared" data-testid="compared"></div>
  </section>
</div>
"""

_COMPARE_MORE = """
<div class="compare-tables compare-more">
  <section class="card" aria-labelledby="texts-title" hidden>
    <header class="card-head"><h2 class="card-title" id="texts-title"
      >Texts: mean KL to the float model, nats a token</h2></header>
    <div class="table-scroll" data-part="texts" data-testid="compared-texts"></div>
  </section>
  <section class="card" aria-labelledby="layers-title" hidden>
    <header class="card-head"><h2 class="card-title" id="layers-title" data-part="layers-title"></h2></header>
    <div class="table-scroll compare-layers" data-part="layers" data-testid="compared-layers" tabindex="0" role="group"
      aria-labelledby="layers-title"></div>
  </section>
</div>
"""

_PARETO = """
<div class="pareto-words" data-part="pareto-words" data-testid="pareto-words" role="status"></div>
"""


def build(settings: Settings) -> None:
    """Lay out the table, and the comparison below it."""
    with gr.Column(elem_id="content", elem_classes=["page", "runs-page"]):
        part(_runs(settings.root()), script="runs/runs_page.js")
        with gr.Column(elem_classes=["pareto"]):
            tools = choice("size", "pareto", SIZES, "Size")
            plot("pareto", "Size against quality", classes="plot-pareto", tools=tools)
            part(_PARETO)
        with gr.Column(elem_classes=["compare"]):
            part(_COMPARE)
            plot("compare", "Curves over λ", classes="plot-compare")
            part(_COMPARE_MORE, classes="slot-compare-more")
        part(_STUDIES, script="runs/studies_list.js")


PAGE = Page(
    "Runs",
    "/runs",
    build,
    scripts=("runs/runs_page.js", "runs/studies_list.js"),
    styles=("runs",),
    heading="Quantized models, side by side",
    about="Every quantized model of this host: its size against its quality, what it lost, and any of them compared.",
)
