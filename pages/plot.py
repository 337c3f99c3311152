"""The one plot component: an element that lives as long as the page, drawn by assets/js/charts/plot_host.js.

gr.Plot makes its element anew with every value, so that a camera or a cell with the focus is lost. This one is an empty
card; figures come from the REST interface and never pass through a component's value.
"""

from collections.abc import Mapping, Sequence
from html import escape

import gradio as gr

from pages.layout import part


def plot(
    name: str,
    title: str,
    *,
    classes: str = "",
    words: Sequence[str] = (),
    tools: str = "",
    options: str = "",
    foot: str = "",
    hidden: bool = False,
) -> gr.HTML:
    """Lay out a named place for a figure.

    ``words`` of the glossary are explained there; ``tools`` is markup of ours for the card's right upper corner,
    ``options`` for its menu, ``foot`` for below the figure. A link can hide it by its name without the page's prefix;
    both drawings of the surfaces go by one name.

    A function and not a subclass of gr.HTML: Gradio writes a stub file beside every module that subclasses it.
    """
    about = _about(name, words) if words else ""
    menu = options and f'<div class="figure-options" hidden>{options}{about}</div>'
    css_classes = escape(f"{classes} is-off" if hidden else classes)
    control, title = escape(name.split("-", 1)[-1].removesuffix("_flat")), escape(title)
    markup = f"""
<section class="card plot-card {css_classes}" data-plot="{escape(name)}" data-testid="plot-{escape(name)}" data-panel
  data-control="{control}">
  <header class="card-head"><h2 class="card-title" id="title-{escape(name)}">{title}</h2
    ><div class="card-tools">{"" if options else about}{tools}</div></header>
  <div class="plot-frame" role="img" aria-label="{title}"><div class="plot-canvas"></div></div>
  {foot}
  <p class="plot-notice" role="status"></p>
  {menu}
</section>
"""
    return part(markup, script="charts/plot_host.js", classes=f"slot-{name}")


def _about(name: str, words: Sequence[str]) -> str:
    """Return the button that explains words of a figure, by their names in assets/js/base/glossary.js."""
    own = f"about-{escape(name)}"
    return (
        f'<button type="button" class="quiet about" data-about="{escape(" ".join(words))}" id="{own}" '
        f'aria-labelledby="{own} title-{escape(name)}" aria-label="Terms explained:"><i class="info" '
        'aria-hidden="true">i</i></button>'
    )


def choice(kind: str, prefix: str, options: Mapping[str, str], label: str, control: str = "") -> str:
    """Return the markup of a small switch.

    ``kind`` is the data attribute that the scripts listen to, ``options`` are messages by their values there,
    ``control`` is its name in a link where that is another.
    """
    buttons = "".join(
        (
            f'<button type="button" data-{escape(kind)}="{escape(value)}" data-for="{escape(prefix)}" '
            f'aria-pressed="{str(index == 0).lower()}">{escape(text)}</button>'
        )
        for index, (value, text) in enumerate(options.items())
    )
    name = escape(control or kind)
    return f'<div class="switch" role="group" data-control="{name}" aria-label="{escape(label)}">{buttons}</div>'
