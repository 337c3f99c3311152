"""The Lab of a study as files for a server that computes nothing: their names and contents.

All that the Lab shows is made by the same functions as the answers of the REST interface. The product of all choices
is too large for files, so it is cut where a browser can join it again (``assets/js/base/published.js``): a view, and
beside it those parts of it that depend on the quantity of the map and on the order of the ladder's steps.

Every line has a view of all layers together, over all draws. Single layers and single draws exist for lines in detail,
and a further layer where a page needs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import PurePosixPath
from typing import Any, Literal, TypedDict, get_args

from sarqc.errors import NotFound
from sarqc.figures.ladder import ladder_figure, ladder_words
from sarqc.figures.surfaces import POOLINGS
from sarqc.figures.tables import TABLES, table_of
from sarqc.figures.view import ShownLine, default_line
from sarqc.study.document import Line, Study, array_files, one_draw
from sarqc.study.facts import line_facts
from sarqc.study.ladder import STEPS, ladder

Detail = Literal["opening", "every", "none"]
DETAILS: tuple[Detail, ...] = get_args(Detail)  # which lines have views of single layers and draws
# Tables that no layer changes, in files of their own.
_LINE_TABLE, _WIDTH_TABLES = "map", ("methods", "ladder")
_VIEW_TABLES = ("hero", "plane", *(name for name in TABLES if name not in _WIDTH_TABLES))


class LineFiles(TypedDict):
    """Which views of a line there are beside that of all layers and draws together."""

    bits: int
    layers: list[int]  # positions of those with a view each
    draws: list[int]  # seeds with a view each, of all layers


class Contents(TypedDict):
    """What the browser has to know of the files of a study."""

    lines: dict[str, int]  # position of the line for what an address says of it: “method|bits”, each may be empty
    choices: list[LineFiles]  # in the order of the study's lines
    is_one_layer: bool  # all layers are then this one
    files: list[str]  # of the study itself, to download
    remedy: str  # what there is, for those who ask for something else


@dataclass(frozen=True)
class Slice:
    """A unit of work: files of one view, of all layers of a line, or of a bit width."""

    kind: Literal["view", "line", "width"]
    number: int  # position of a line, of a width its first
    layer: int | None = None
    draw: int | None = None


def contents(study: Study, detail: Detail = "opening", further: tuple[int, int] | None = None) -> Contents:
    """List the files of a study.

    Args:
        study: The study.
        detail: The lines with views of single layers and draws.
        further: A single layer of another line: positions of the line and of the layer.
    """
    opening = default_line(study, None, None)
    chosen = [line for line in study.lines if detail == "every" or (detail == "opening" and line is opening)]
    single = len(study.layers) == 1
    choices: list[LineFiles] = [
        {
            "bits": line.bits,
            "layers": [*range(len(study.layers))]
            if line in chosen and not single
            else [further[1]]
            if further and further[0] == number
            else [],
            "draws": list(line.draws) if line in chosen and len(line.draws) > 1 else [],
        }
        for number, line in enumerate(study.lines)
    ]
    lines = {"every": "every line", "none": "no line", "opening": f"“{opening.label}” at {opening.bits} bits"}
    return {
        "lines": _line_positions(study),
        "choices": choices,
        "is_one_layer": single,
        "files": ["study.json", *array_files(study)],
        "remedy": "These files hold every line with its layers and draws taken together, and of "
        f"{lines[detail]} each layer and each draw on its own. The app shows all from the study, which can be "
        "downloaded here.",
    }


def _line_positions(study: Study) -> dict[str, int]:
    """Return the position of the line that ``lab_view`` shows for each method and width that an address can name."""
    names = [None, *dict.fromkeys(name for line in study.lines for name in (line.name, line.method))]
    widths = [None, *dict.fromkeys(line.bits for line in study.lines)]
    positions = {}
    for method, bits in product(names, widths):
        try:
            line = default_line(study, method, bits)
        except NotFound:
            continue
        positions[f"{method or ''}|{bits or ''}"] = study.lines.index(line)
    return positions


def pieces(listed: Contents) -> Iterator[Slice]:
    """Yield all slices of a study, views first."""
    every = listed["choices"]
    for number, files in enumerate(every):
        yield Slice("view", number)
        yield from (Slice("view", number, layer=layer) for layer in files["layers"])
        yield from (Slice("view", number, draw=draw) for draw in files["draws"])
    for number, files in enumerate(every):
        yield from (Slice("line", number, draw=draw) for draw in (None, *files["draws"]))
    widths: dict[tuple[int, int | None], int] = {}
    for number, files in enumerate(every):
        for draw in (None, *files["draws"]):
            widths.setdefault((files["bits"], draw), number)
    yield from (Slice("width", number, draw=draw) for (_, draw), number in widths.items())


def files_of(study: Study, piece: Slice) -> Iterator[tuple[str, Any]]:
    """Yield name, without ending, and document of each file of a piece; of pictures the bytes."""
    line = study.lines[piece.number]
    if piece.kind == "view":
        yield from _view(study, line, piece)
    elif piece.kind == "line":
        facts = ShownLine.of(study, method=line.name, bits=line.bits, draw=piece.draw).facts
        yield f"maps/{stem(piece.number, draw=piece.draw)}", table_of(facts, _LINE_TABLE)
    else:
        yield from _width(study, line, piece.draw)


def stem(number: int, *, layer: int | None = None, draw: int | None = None) -> str:
    """Return a file name from a position of a line or a width, a layer, a draw."""
    parts = ((f"layer-{layer}", layer), (f"draw-{draw}", draw))
    return "-".join([str(number), *(words for words, value in parts if value is not None)])


def _view(study: Study, line: Line, piece: Slice) -> Iterator[tuple[str, Any]]:
    shown = ShownLine.of(study, method=line.name, bits=line.bits, layer=piece.layer, draw=piece.draw)
    view, name = shown.view(), stem(piece.number, layer=piece.layer, draw=piece.draw)
    yield f"views/{name}", view
    quantities = [choice["name"] for choice in view["quantities"] if choice["name"] != view["quantity"]]
    yield f"quantities/{name}", {quantity: shown.by_quantity(quantity) for quantity in quantities}
    tables = {figure: table_of(shown.facts, figure) for figure in _VIEW_TABLES}
    yield f"tables/{name}", tables | {"gamma_grid": tables["plane"]}  # the numbers of one line at every point
    for pooling in POOLINGS:
        place = view["arrays"].get(pooling.array)
        if place is not None:
            with (study.folder / place["file"]).open("rb") as file:
                file.seek(place["offset"])
                yield f"arrays/{PurePosixPath(place['file']).name}-{place['offset']}", file.read(place["length"])


def _width(study: Study, line: Line, draw: int | None) -> Iterator[tuple[str, Any]]:
    """Yield the ladder of a width in every order of its steps, and the table of its methods."""
    reduced = study if draw is None else one_draw(study, draw)
    facts = line_facts(reduced, method=line.name, bits=line.bits, layer=None)
    name = stem(line.bits, draw=draw)
    yield f"methods/{name}", table_of(facts, "methods")
    orders = {}
    for order in permutations(STEPS):
        climbed, steps = ladder(reduced, line.bits, order), ",".join(order)
        if climbed is not None:
            orders[steps] = {
                "ladder": ladder_words(climbed),
                "figure": ladder_figure(climbed.rungs, line.bits),
                "table": table_of(facts, "ladder", steps),
            }
    yield f"ladders/{name}", {"table": table_of(facts, "ladder"), "orders": orders}
