"""The part of docs/results.md about large hosts, from docs/scale.json.

The file is what ``python -m benchmarks.bench --only many-runs many-studies mixture large-study --write
docs/scale.json`` keeps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from make_reference import table
from results_of_costs import host_words

from benchmarks.answers import GOAL, SMALLER, TIMES

NUMBERS = Path(__file__).parent / "scale.json"
TITLES = {
    "many-runs": "100,000 runs in the store",
    "many-studies": "2,000 studies in the library",
    "mixture": "A study of 48 × 128 experts: 18,624 linears",
    "large-study": "A study of 500 MiB",
}


def parts() -> Iterator[str]:
    """Paragraphs and tables; nothing where nothing was measured."""
    if not NUMBERS.exists():
        return
    document = json.loads(NUMBERS.read_text(encoding="utf-8"))
    yield "## Pages of a large host"
    yield (
        f"{host_words(document['host'])} Milliseconds of {TIMES} requests to each address, one after the other, from "
        "the request to the last byte: the median, within what 95 of 100 lie, and the first alone, for which nothing "
        "is kept. Processor time is that of the app, in all of its threads: on a host that is busy with other work the "
        f"clock on the wall counts that too; this one had a load of {document['host']['load']:.0f}. “×” is the median "
        f"of processor time over the one in a state {SMALLER} times smaller. In addresses, {{n}} is another number for "
        f"each request. What takes more than {GOAL:.0f} ms stands in bold."
    )
    for name, title in TITLES.items():
        figures = document["sections"].get(name)
        if figures:
            yield f"### {title}"
            yield table(
                ["", "median", "95 of 100", "first", "processor", "95 of 100", "×"], [_row(one) for one in figures]
            )


def _row(figure: dict[str, Any]) -> list[str]:
    growth = "–" if figure["growth"] is None else f"{figure['growth']:.1f}"
    names = ("median", "value", "first", "processor", "processor_high")
    return [f"<code>/{escape(figure['address'])}</code>", *(_milliseconds(figure[name]) for name in names), growth]


def _milliseconds(value: float) -> str:
    text = f"{value:.0f}" if value >= 10 else f"{value:.1f}"
    return text if value <= GOAL else f"**{text}**"
