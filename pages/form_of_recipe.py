"""The form of a recipe, made from its fields: all its words come from the fields themselves.

The fields are Gradio components whose listeners run in the browser only: nothing here waits for the server.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

import gradio as gr
from pydantic.fields import FieldInfo

from pages.layout import part, script
from sarqc.quantization.methods import AS_FOUND, METHODS
from sarqc.recipe import Recipe, choice_words
from sarqc.recipe.fields import DESCRIPTORS
from sarqc.web.page_names import field_kind, literals, words

SCRIPT = "calibrate/calibrate_page.js"  # hears every change

# The fields in sight; a recipe keeps the others in its fold, or out of the form.
FIRST = {
    "Model and bits": ("model", "bits"),
    "How": ("method", "lam", "gamma"),
    "On what text": ("calibration", "test"),
}
FOLD = {  # titles and sections
    "How small": ("model", "size"),
    "Solver": ("method",),
    "Sequences": ("text",),
    "What to measure": ("measure",),
}
WIDE = ("method", "prompts")  # fields that take a whole row
# Offered, while anything else may be typed; the page fills empty lists with what this host has.
CHOICES: dict[str, list[str]] = {
    "group_size": ["32", "64", "128", "256", "per_channel"],
    **{name: [] for name in ("model", "quantized_checkpoint", "calibration", "test")},
}

# What stands below a field, filled by the page: the methods in groups, in place of Gradio's list of names; several
# values of λ or γ, each with a button that takes it away; what “auto” will do; the λ axis with the band of a study; the
# size of a quantized checkpoint; what the model suggests and a person has chosen otherwise; what others made of the
# model; one's own texts.
BELOW = {
    "bits": (
        '<p class="opened-size" data-testid="opened-size">Bits, grid and group size are those of its file.</p>',
        '<div class="suggestions" data-part="suggestions"></div>',
        '<div class="suggestions" data-part="opened"></div>',
    ),
    "test": ('<div class="own-texts" data-part="own-texts" data-testid="own-texts"></div>',),
    "method": ('<div class="method-list" data-part="methods"></div>',),
    "gamma": (
        '<div class="several-values" data-part="several-values" data-testid="several-values"></div>',
        '<p class="auto-note is-off" data-testid="auto-note" aria-live="polite"></p>',
        '<div class="lam-ruler" data-part="ruler" data-testid="lam-ruler"></div>',
    ),
}

# Filled by the page: three efforts, and the values of fields that are not in the form. Then the fold of further fields.
_FOLD = """
<div data-part="efforts"></div>
<div class="suggestions" data-part="also-set" data-testid="also-set" role="status"></div>
<button type="button" class="settings-toggle" data-part="settings-toggle" data-testid="advanced" aria-expanded="false"
  aria-controls="settings">Advanced</button>
"""

_SEVERAL = "“0, 0.1” makes two runs."


Field = gr.Dropdown | gr.Textbox | gr.Radio | gr.Checkbox | gr.Number


def recipe_form() -> list[str]:
    """Lay out the form, its first fields and a fold of others, and return the fields in its order.

    The fold is one of styles: Gradio makes the fields of its own folds when these are opened, and a number that the
    page puts into a field before that is lost.
    """
    components: dict[str, Field] = {}
    with gr.Column(elem_classes=["recipe-form"]):
        for title, names in FIRST.items():
            components |= _card(title, names)
        part(_FOLD, classes="slot-fold")
        with gr.Column(elem_id="settings", elem_classes=["form-settings"]):
            for title, sections in FOLD.items():
                own = [name for name, about in DESCRIPTORS.items() if about.section in sections]
                components |= _card(title, [name for name in own if DESCRIPTORS[name].form in ("fold", "given")])
    _listen(components)
    return list(components)


def _card(title: str, names: Sequence[str]) -> dict[str, Field]:
    """Lay out fields under a title, each with what stands below it."""
    fields: dict[str, Field] = {}
    part(f'<h2 class="form-title">{escape(title)}</h2>')
    with gr.Column(elem_classes=["form-fields"]):
        for name in names:
            fields[name] = field(name, Recipe.model_fields[name])
            for content in BELOW.get(name, ()):
                part(content, classes="field-wide")
    return fields


def field(name: str, info: FieldInfo) -> Field:
    """Return the form component of one recipe field; all its words come from the field itself."""
    help_text, unit = str(info.description), DESCRIPTORS[name].unit
    common: dict[str, Any] = {
        "label": f"{info.title} ({unit})" if unit else str(info.title),
        "info": f"{help_text} {_SEVERAL}" if words(info) else help_text,
        "elem_id": f"field-{name.replace('_', '-')}",
        "elem_classes": ["field", "field-wide"] if name in WIDE else ["field"],
    }
    kind, default = field_kind(info), None if info.is_required() else info.default
    if name == "bits":
        return gr.Radio([2, 3, 4], value=default, **common)
    if (offered := _choices(name, info)) is not None:
        is_open = name in CHOICES
        return gr.Dropdown(offered, value=default, allow_custom_value=is_open, filterable=is_open, **common)
    if kind == "truth":
        return gr.Checkbox(**common)
    if kind in ("whole", "number"):
        return gr.Number(value=default, precision=0 if kind == "whole" else None, **common)
    return gr.Textbox(max_lines=6 if kind == "lines" else 1, **common)


def _choices(name: str, info: FieldInfo) -> Sequence[str | tuple[str, str]] | None:
    if name == "method":  # hidden: the page has a list of its own
        return [*METHODS, AS_FOUND]
    if name in CHOICES or words(info):
        return CHOICES.get(name)
    return [(choice_words(choice), choice) for choice in literals(info.annotation)] or None


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
    for component in every:
        if not isinstance(component, gr.Textbox | gr.Number):  # the page itself hears these, see below
            component.change(None, every, None, js=on_change, **quietly)
    # Hidden: the page presses it after an input event of a text or number. Gradio's own event for texts hears keys
    # alone, not what is pasted, dropped, dictated or filled in by the browser.
    entered = gr.Button("Fields entered", elem_id="fields-entered", elem_classes=["is-off"])
    entered.click(None, every, None, js=on_change, **quietly)
