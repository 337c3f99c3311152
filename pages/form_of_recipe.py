"""The form of a recipe, made from its fields: all its words come from the fields themselves.

The fields are Gradio components whose listeners run in the browser only: nothing here waits for the server.
"""

import json
from html import escape
from typing import Any, Literal

import gradio as gr
from pydantic.fields import FieldInfo

from pages.layout import part, script
from sarqc.quantization.methods import AS_FOUND, METHODS, entry_of
from sarqc.recipe import Recipe, choice_words, field_extra
from sarqc.web.page_names import field_kind, literals, words

SCRIPT = "calibrate/calibrate_page.js"  # hears every change

# The first fields; all others have a default that suits most models, and stand in a fold.
FIRST = {
    "Model and bits": ("model", "bits"),
    "On what text": ("calibration", "test"),
}
SECTIONS = {
    "model": "Model",
    "size": "How small",
    "method": "How",
    "text": "Sequences",
    "measure": "What to measure",
}
SUGGESTIONS = {"group_size": ["32", "64", "128", "256", "per_channel"]}  # offered; any other value may be typed
WIDE = ("model", "bits", "method", "grid", "prompts")  # fields that take a whole row
OPEN_CHOICES = ("model", "quantized_checkpoint", "calibration", "test")  # filled by the page from what this host offers

# What “auto” will do, in the words that the page makes of the method and the form's values.
_AUTO_NOTE = '<p class="auto-note is-off" data-testid="auto-note" aria-live="polite"></p>'

# Filled by the page: several values of λ or γ, each with a button that takes it away.
_CHIPS = '<div class="several-values" data-part="several-values" data-testid="several-values"></div>'

# Filled by the page: the methods in groups, in place of Gradio's list of names.
_METHODS = '<div class="method-list" data-part="methods"></div>'

# Filled by the page: three efforts, which are fields of the fold.
_EFFORTS = '<div data-part="efforts"></div>'

# The fold of all other fields, with their values.
_FOLD = """
<button type="button" class="settings-toggle" data-part="settings-toggle" data-testid="advanced" aria-expanded="false"
  aria-controls="settings">Advanced</button>
<p class="settings-words" data-part="settings-words" data-testid="settings-words"></p>
"""

# Filled by the page: the paper's grid or the best one, which are three fields of the fold.
_GRIDS = '<div data-part="grids"></div>'

# Filled by the page: what the model suggests and a person has chosen otherwise.
_SUGGESTIONS = '<div class="suggestions" data-part="suggestions"></div>'

# Shown by the page in place of the size of a quantized checkpoint.
_OPENED_SIZE = '<p class="opened-size" data-testid="opened-size">Bits, grid and group size are those of its file.</p>'

# Filled by the page: what others made of the model, on this host.
_OPENED = '<div class="suggestions" data-part="opened"></div>'

_SEVERAL = "Several, with commas between them, make several runs."

# Filled by the page: one's own texts, with a way to bring one.
_OWN_TEXTS = '<div class="own-texts" data-part="own-texts" data-testid="own-texts"></div>'


Field = gr.Dropdown | gr.Textbox | gr.Radio | gr.Checkbox | gr.Number


def recipe_form() -> list[str]:
    """Lay out the form, its first fields and a fold of all others, and return the fields in its order.

    The fold is one of styles: Gradio makes the fields of its own folds when these are opened, and a number that the
    page puts into a field before that is lost.
    """
    components: dict[str, Field] = {}
    first = [name for names in FIRST.values() for name in names]
    by_rank = sorted(Recipe.model_fields.items(), key=lambda item: field_extra(item[1]).advanced)

    with gr.Column(elem_classes=["recipe-form"]):
        for title, names in FIRST.items():
            part(f'<h2 class="form-title">{escape(title)}</h2>')
            with gr.Column(elem_classes=["form-fields"]):
                for name in names:
                    components[name] = field(name, Recipe.model_fields[name])
                if "model" in names:
                    part(_OPENED_SIZE, classes="field-wide opened-alone")
                    part(_SUGGESTIONS, classes="field-wide")
                    part(_OPENED, classes="field-wide")
                if "calibration" in names:
                    part(_OWN_TEXTS, classes="field-wide")
        part(_EFFORTS, classes="slot-efforts")
        part(_FOLD, classes="slot-fold")
        with gr.Column(elem_id="settings", elem_classes=["form-settings"]):
            for section, title in SECTIONS.items():
                part(f'<h2 class="form-title">{escape(title)}</h2>')
                with gr.Column(elem_classes=["form-fields"]):
                    if section == "size":
                        part(_GRIDS, classes="field-wide slot-grids")
                    if section == "method":
                        part(_METHODS, classes="field-wide")
                        part(_CHIPS, classes="field-wide")
                        part(_AUTO_NOTE, classes="field-wide")
                    for name, info in by_rank:
                        if field_extra(info).section == section and name not in (*first, "effort"):
                            components[name] = field(name, info)
    _listen(components)
    return list(components)


def field(name: str, info: FieldInfo) -> Field:
    """Return the form component of one recipe field; all its words come from the field itself."""
    label, help_text, unit = str(info.title), str(info.description), field_extra(info).unit
    common: dict[str, Any] = {
        "label": f"{label} ({unit})" if unit and unit.lower() not in label.lower() else label,
        "info": f"{help_text} {_SEVERAL}" if words(info) else help_text,
        "elem_id": f"field-{name.replace('_', '-')}",
        "elem_classes": ["field", "field-wide"] if name in WIDE else ["field"],
    }
    kind, default = field_kind(info), None if info.is_required() else info.default
    if name == "method":
        every = {**METHODS, AS_FOUND: entry_of(AS_FOUND)}
        choices = [(f"{entry.title} · {key}", key) for key, entry in every.items() if entry is not None]
        return gr.Dropdown(choices, value=default, **common)
    if name in OPEN_CHOICES:
        return gr.Dropdown([], value=None, allow_custom_value=True, **common)
    if name in SUGGESTIONS:
        return gr.Dropdown(SUGGESTIONS[name], value=str(default), allow_custom_value=True, **common)
    if offered := words(info):  # a number, or a word that is a click away
        buttons: list[Literal["copy"] | gr.Button] = [gr.Button(word) for word in offered]
        return gr.Textbox(value="", max_lines=1, buttons=buttons, **common)
    if literal := literals(info.annotation):
        return gr.Radio([(choice_words(choice), choice) for choice in literal], value=default, **common)
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


def _listen(components: dict[str, Field]) -> None:
    """Add browser-only listeners: fill the form at the start and for a new model, and plan again after each change."""
    quietly: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
    every = list(components.values())
    module, root = script(SCRIPT), gr.context.Context.root_block
    assert root is not None
    on_change = f"(...values) => {{ {module}.then((page) => page.formChanged(values)); }}"
    root.load(None, None, every, js=f"async () => (await {module}).initialValues()", api_visibility="private")
    # Hidden: the page presses it when it has changed a field, or the texts to choose from are others.
    fields_changed = gr.Button("Fields changed", elem_id="fields-changed", elem_classes=["is-off"])
    fields_changed.click(None, None, every, js=f"async () => (await {module}).fieldsChanged()", **quietly)
    on_model_change = f"async (...values) => (await {module}).modelChanged(values)"
    components["model"].change(None, every, every, js=on_model_change, **quietly)
    for name, component in components.items():
        for button in getattr(component, "buttons", None) or ():
            word = json.dumps(button.value)
            button.click(None, component, component, js=f"(value) => (value === {word} ? '' : {word})", **quietly)
        if isinstance(component, gr.Textbox | gr.Number) and not words(Recipe.model_fields[name]):
            continue  # the page itself hears them, see below
        component.change(None, every, None, js=on_change, **quietly)
    # Hidden: the page presses it after an input event of a text or number. Gradio's own event for texts hears keys
    # alone, not what is pasted, dropped, dictated or filled in by the browser.
    entered = gr.Button("Fields entered", elem_id="fields-entered", elem_classes=["is-off"])
    entered.click(None, every, None, js=on_change, **quietly)
