"""Learn: ten steps, each of which asks before it shows. Words: assets/tour.json, figures: assets/js/learn."""

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from pages.layout import Page, part, published_by_the_paper
from sarqc.settings import Settings

_ROLE = re.compile(r"\{(\w+):([^}]+)\}")  # in tour.json: {recon:these words} in that quantity's colour
_RAISED = re.compile(r"\^\{([^}]+)\}")  # x^{γ}


def words(text: str) -> str:
    """Return a text of the tour as markup: escaped, with its coloured and its raised words."""
    return _RAISED.sub(r"<sup>\1</sup>", _ROLE.sub(r'<strong class="role-\1">\2</strong>', escape(text)))


def plain_words(text: str) -> str:
    """Return a text of the tour without its markup."""
    return _ROLE.sub(r"\2", text)


def tour(settings: Settings) -> dict[str, Any]:
    """Return the steps of the tour with their words."""
    read: dict[str, Any] = json.loads((settings.assets_dir / "tour.json").read_text(encoding="utf-8"))
    return read


def build(settings: Settings) -> None:
    """Lay out the steps, of which one shows."""
    data = tour(settings)
    published = json.dumps(published_by_the_paper(settings)["results"], ensure_ascii=False)
    study, pretrained = (escape(json.dumps(data[name])) for name in ("study", "pretrained"))
    steps, root = data["steps"], settings.root()
    sections = "".join(_section(step, number, len(steps)) for number, step in enumerate(steps, 1))
    progress = "".join(
        (
            f'<li><button type="button" data-go="{number}" data-control="step-{number}" aria-label="Step '
            f'{number}: {escape(step["title"])}"></button></li>'
        )
        for number, step in enumerate(steps, 1)
    )
    part(
        f"""
<div class="tour" id="content" data-testid="tour" data-study="{study}" data-pretrained="{pretrained}"
  data-published="{escape(published)}">
  <div class="link-note" data-part="link-note" data-testid="link-note" role="status"></div>
  {sections}
  <nav class="tour-foot" aria-label="Steps">
    <button type="button" class="act-quiet" data-part="back" data-control="back" data-testid="back">Back</button>
    <ol class="progress" data-testid="progress">{progress}</ol>
    <button type="button" class="act-quiet" data-part="next" data-control="next" data-testid="next">Next</button>
    <a class="act-quiet" href="{root}/" data-part="lab" data-control="next" data-testid="to-lab" hidden>Open the Lab</a>
    <p class="hint">Space, → or a presenter’s remote: first the answer, then the next step. F fills the screen, B
      blackens it.</p>
    <span class="tour-tools">
      <a class="quiet" href="?lecture=1" data-part="lecture" data-control="lecture"
        data-testid="lecture">Lecture</a>
      <button type="button" class="quiet" data-part="fill" data-control="fill" data-testid="fill"
        aria-pressed="false">Full screen</button>
      <button type="button" class="quiet" data-part="share" data-control="share" data-testid="share">Share</button>
    </span>
  </nav>
  <button type="button" class="tour-black" data-part="black" data-testid="black" hidden
    aria-label="The screen is black. Any key of the tour, or a click, brings the step back"></button>
</div>
""",
        script="learn/learn_page.js",
        classes="page learn",
    )


def _section(step: Mapping[str, Any], number: int, count: int) -> str:
    text = "".join(f'<p class="step-text">{words(paragraph)}</p>' for paragraph in step["text"])
    notes, show = "".join(f"<p>{words(note)}</p>" for note in step["notes"]), escape(step["show"])
    return f"""
<section class="step" data-step="{number}" data-name="{escape(step["name"])}" data-testid="step-{number}"
  aria-labelledby="step-title-{number}" {"" if number == 1 else "hidden"}>
  <div class="step-words">
    <p class="step-number">Step {number} of {count}</p>
    <h2 class="step-title" id="step-title-{number}" tabindex="-1">{escape(step["title"])}</h2>
    {text}
    <div class="ask">
      <p class="ask-text"><strong class="guess-first">Guess first. </strong>{words(step["ask"])}</p>
      <div class="ask-controls" data-part="ask"></div>
      <button type="button" class="act" data-part="show" data-control="show" data-testid="show">{show}</button>
      <p class="answer" data-part="answer" data-testid="answer" tabindex="-1" aria-live="polite" aria-atomic="true"></p>
    </div>
    <div class="step-controls" data-part="controls"></div>
    <div class="step-notes" data-testid="notes">{notes}</div>
  </div>
  <div class="step-figure card" data-part="figure">
    <header class="card-head"><h3 class="card-title">{escape(step["figure"])}</h3>
      <div class="card-tools" data-control="save"></div></header>
    <div class="step-canvas" data-part="canvas" data-testid="canvas"></div>
    <div class="step-extra" data-part="extra"></div>
  </div>
</section>
"""


def _step_title(settings: Settings, query: Mapping[str, str]) -> str | None:
    """Return the title of the step that an address opens."""
    titles = [step["title"] for step in tour(settings)["steps"]]
    number = query.get("step", "")
    return titles[int(number) - 1] if number.isascii() and number.isdigit() and 0 < int(number) <= len(titles) else None


PAGE = Page(
    "Learn",
    "/learn",
    build,
    scripts=("learn/learn_page.js",),
    styles=("learn", "try", "lecture"),
    heading="Quantization, step by step",
    heading_of=_step_title,
    about="From one weight to a whole language model: why rounding it to a few bits needs a little regularisation. "
    "Each step asks before it shows.",
)
