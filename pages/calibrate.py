"""Calibrate: a form made from the recipe's fields, the live plan beside it, and the run that it becomes.

The form's fields are Gradio components whose listeners run in the browser only: nothing here waits for the server
but the plan itself, which the page asks for over REST like everybody else.
"""

from __future__ import annotations

import json
from html import escape
from typing import Any

import gradio as gr
from pydantic.fields import FieldInfo

from pages.lab import MEASURED, NUMBERS, SLIDERS, explorer_plots, further_plots
from pages.layout import part, script, top_bar
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe, field_extra
from sarqc.settings import Settings
from sarqc.web.browser_contract import field_kind, literals, words

SECTIONS = {
    "model": "Model",
    "size": "How small",
    "method": "How",
    "text": "On what text",
    "measure": "What to measure",
}
SUGGESTIONS = {"group_size": ["32", "64", "128", "256", "per_channel"]}  # offered; any other value may be typed
WIDE = ("model", "method", "grid", "calibration", "prompts")  # fields that take a whole row
OPEN_CHOICES = ("model", "calibration", "test")  # filled by the page from what this host offers

_PLAN = """
<section class="card plan" data-part="plan-card" aria-labelledby="plan-title">
  <header class="card-head"><h2 class="card-title" id="plan-title">The plan</h2></header>
  <div class="plan-body" data-part="plan" data-testid="plan" aria-live="polite"></div>
  <div class="plan-foot">
    <button type="button" class="act" data-part="start" data-testid="start" disabled>Start calibration</button>
    <span class="plan-note" data-part="plan-note"></span>
  </div>
</section>
<section class="card recipe-card" data-part="recipe-card" data-testid="recipe-card" hidden aria-label="Recipe">
</section>
<section class="card run" data-part="run-card" data-testid="run" hidden aria-labelledby="run-title"></section>
"""

# What “auto” will do, in the words that the page makes of the method and the form's values.
_AUTO_NOTE = '<p class="auto-note is-off" data-testid="auto-note" aria-live="polite"></p>'

# Filled by the page where a run has measured them.
_SIDE_BY_SIDE = """
<section class="card" data-part="texts-card" data-testid="texts" hidden aria-labelledby="texts-title"></section>
<section class="card" data-part="speed-card" data-testid="speed" data-published="PUBLISHED" hidden
  aria-labelledby="speed-title"></section>
"""

# Says in words what of the address could not be used.
_LINK_NOTE = '<div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>'

_STUDY_HEAD = """
<div data-part="problem"></div>
<div class="study-words">
  <p class="sentence" data-part="sentence" data-testid="sentence" data-control="sentence" aria-live="polite"></p>
  <p class="small-print" data-part="small-print" data-testid="small-print" data-control="sentence"></p>
</div>
"""


def build(settings: Settings) -> None:
    """The page at “/calibrate”."""
    top_bar("Calibrate")
    fields = list(Recipe.model_fields)
    components: dict[str, Any] = {}
    with gr.Column(elem_classes=["page", "calibrate"]):
        part(_LINK_NOTE, classes="slot-note")
        with gr.Column(elem_classes=["workbench"]):
            with gr.Column(elem_classes=["recipe-form"]):
                for section, title in SECTIONS.items():
                    part(f'<h2 class="form-title">{escape(title)}</h2>')
                    with gr.Column(elem_classes=["form-fields"]):
                        for name in fields:
                            info = Recipe.model_fields[name]
                            if field_extra(info)["section"] == section and not field_extra(info)["advanced"]:
                                components[name] = field(name, info)
                        if section == "method":
                            part(_AUTO_NOTE, classes="field-wide")
                with gr.Accordion("Advanced", open=False, elem_classes=["form-advanced"]):
                    for name in fields:
                        if field_extra(Recipe.model_fields[name])["advanced"]:
                            components[name] = field(name, Recipe.model_fields[name])
            names = json.dumps(list(components))
            part(
                f'<div class="side" data-fields="{escape(names)}">{_PLAN}</div>',
                script="calibrate/calibrate_page.js",
                classes="area-side",
            )
        published = (settings.assets_dir / "published_speed.json").read_text(encoding="utf-8")
        part(_SIDE_BY_SIDE.replace("PUBLISHED", escape(published)))
        with gr.Column(elem_classes=["run-study"]):
            part(_STUDY_HEAD)
            with gr.Column(elem_classes=["story"]):
                explorer_plots("run-")
            part(SLIDERS, classes="area-sliders")
            with gr.Column(elem_classes=["below"]):
                further_plots("run-")
                part(NUMBERS)
                part(MEASURED)
    _listen(components)


def _listen(components: dict[str, Any]) -> None:
    """Browser-only listeners: fill the form at the start and for a new model, and plan again after each change."""
    every = list(components.values())
    module = script("calibrate/calibrate_page.js")
    blocks = gr.context.Context.root_block
    assert blocks is not None
    blocks.load(None, None, every, js=f"async () => (await {module}).initialValues()", api_visibility="private")
    components["model"].change(
        None,
        every,
        every,
        js=f"async (...values) => (await {module}).modelChanged(values)",
        api_visibility="private",
        show_progress="hidden",
    )
    for name, component in components.items():
        for button in getattr(component, "buttons", None) or ():
            word = json.dumps(button.value)
            button.click(
                None,
                component,
                component,
                js=f"(value) => (value === {word} ? '' : {word})",
                api_visibility="private",
                show_progress="hidden",
            )
        by_hand = isinstance(component, gr.Textbox | gr.Number) and not words(Recipe.model_fields[name])
        event = component.input if by_hand else component.change
        event(
            None,
            every,
            None,
            js=f"(...values) => {{ {module}.then((page) => page.formChanged(values)); }}",
            api_visibility="private",
            show_progress="hidden",
        )


def field(name: str, info: FieldInfo) -> Any:
    """The form component of one recipe field; everything it says comes from the field itself."""
    label, help_text, unit = str(info.title), str(info.description), field_extra(info)["unit"]
    common = {
        "label": f"{label} ({unit})" if unit and unit not in label.lower() else label,
        "info": help_text,
        "elem_id": f"field-{name.replace('_', '-')}",
        "elem_classes": ["field", "field-wide"] if name in WIDE else ["field"],
    }
    kind, default = field_kind(info), None if info.is_required() else info.default
    if name == "method":
        choices = [(f"{entry.title} · {key}", key) for key, entry in METHODS.items()]
        return gr.Dropdown(choices, value=default, **common)
    if name in OPEN_CHOICES:
        return gr.Dropdown([], value=None, allow_custom_value=True, **common)
    if name in SUGGESTIONS:
        return gr.Dropdown(SUGGESTIONS[name], value=str(default), allow_custom_value=True, **common)
    if offered := words(info):  # a number, or a word that is a click away
        buttons = [gr.Button(word) for word in offered]
        return gr.Textbox(value="", max_lines=1, buttons=buttons, **common)
    literal = literals(info.annotation)
    if literal:
        return gr.Radio([(choice.replace("_", " "), choice) for choice in literal], value=default, **common)
    if kind == "whole" and (span := _span(info)) is not None and span[1] - span[0] <= 4:
        return gr.Radio(list(range(span[0], span[1] + 1)), value=default, **common)
    if kind == "truth":
        return gr.Checkbox(value=bool(default), **common)
    if kind == "lines":
        return gr.Textbox(value="", lines=2, max_lines=6, **common)
    if kind in ("whole", "number"):
        return gr.Number(value=default, precision=0 if kind == "whole" else None, **common)
    return gr.Textbox(value=default if isinstance(default, str) else "", max_lines=1, **common)


def _span(info: FieldInfo) -> tuple[int, int] | None:
    low = next((m.ge for m in info.metadata if getattr(m, "ge", None) is not None), None)
    high = next((m.le for m in info.metadata if getattr(m, "le", None) is not None), None)
    return None if low is None or high is None else (int(low), int(high))
