"""Lists of runs over REST: filtered, sorted and in parts, in groups, as CSV, and actions on many runs at once."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from sarqc.errors import Refused
from sarqc.figures.measured import GRID_WORDS, grid_text
from sarqc.figures.numbers import number
from sarqc.figures.pareto import ParetoRun, ParetoView, Size, pareto_view
from sarqc.files.names import shortened
from sarqc.jobs.annotations import Annotations, checked_tags
from sarqc.jobs.listing import Question, log_ratio, perplexity
from sarqc.jobs.run import Run, RunDocument, iso_time
from sarqc.jobs.supervisor import Supervisor
from sarqc.jobs.tuned import tuned
from sarqc.recipe import Recipe, method_title, public_name
from sarqc.web.access import Access, Who
from sarqc.web.draws import JoinedDraws
from sarqc.web.responses import ApiRoute, json_body
from sarqc.web.visitor import Visitor

AT_ONCE = 200  # runs that one request may name
PORTION = 500  # runs of a file that are read at once
DRAWN = 1000  # runs of one figure
LARGEST = 2**63 - 1  # of SQLite's integers

Document = Annotated[dict[str, Any], Body()]
Limit = Annotated[int, Query(ge=1, le=500)]
Offset = Annotated[int, Query(ge=0, le=LARGEST)]
Grouping = Annotated[str, Query(alias="by")]


def question_of(
    text: Annotated[str, Query(alias="filter", max_length=1000)] = "",
    sort: str = "-created",
    ids: str | None = None,
    batch: str | None = None,
    series: str | None = None,
) -> Question:
    """Return the question that a request asks of the runs."""
    named = None if ids is None else named_ids([part.strip() for part in ids.split(",") if part.strip()])
    return Question(text, sort, named, batch, series)


Asked = Annotated[Question, Depends(question_of)]


def named_ids(ids: Any) -> tuple[str, ...]:
    """Return the distinct ids of a request. Raise ``Refused`` for none, and for more than ``AT_ONCE``."""
    if not isinstance(ids, list) or not ids or not all(isinstance(run_id, str) and run_id.isascii() for run_id in ids):
        raise Refused("no runs are named", "runs, ids", "Give the ids of one run or more.")
    if len(ids) > AT_ONCE:
        what = f"{len(ids)} runs are too many at once"
        raise Refused(what, "runs, ids", f"Give {AT_ONCE} at most.")
    return tuple(dict.fromkeys(ids))


def pareto_run(run: Run) -> ParetoRun:
    """Return a run for the figure of size against quality. A tuning run has no model, and so no quality."""
    summary, recipe = run.summary or {}, run.recipe
    test = (summary.get("protocol") or {}).get("test") or {}
    lam = recipe.get("lambda")
    title = method_title(str(recipe.get("method")))
    grid, size = str(recipe.get("grid")), recipe.get("group_size")
    words = "" if recipe.get("quantized_checkpoint") else grid_text(grid, size if isinstance(size, int) else None)
    named = f"{title}, {recipe.get('bits')} bits"
    if grid != Recipe.model_fields["grid"].default:
        named += f" {GRID_WORDS.get(grid, grid)}"
    named += "" if lam is None else f", λ {lam!s}"
    corpus = ", ".join(filter(None, (test.get("corpus", recipe.get("test")), test.get("part"))))
    behind = f" behind {test['begin']}" if test.get("begin") else ""
    where = f"{corpus}, window {test.get('window')}{behind}, {test.get('predicted_tokens')} tokens"
    return ParetoRun(
        run.id,
        run.name or named,
        shortened(str(recipe.get("model"))),
        where,
        summary.get("bits_per_weight"),
        summary.get("bytes_after"),
        None if tuned(summary) else summary.get("perplexity"),
        words,
    )


def listing_router(supervisor: Supervisor, access: Access) -> APIRouter:
    """Return the routes under ``/runs`` that are about many of them, and the one that writes on a run."""
    router = APIRouter(prefix="/runs", route_class=ApiRoute, tags=["runs"])
    store = supervisor.store

    @router.get("")
    def list_runs(request: Request, who: Who, question: Asked, limit: Limit = 100, offset: Offset = 0) -> Response:
        """List runs, newest first unless sorted, and how many there are."""
        question, seen = access.question(who, question), access.as_seen(who)
        with store.snapshot():
            revision = store.revision()
            runs, total = store.part(question, limit, offset)
            joined = JoinedDraws(store, access.question(who, Question()))
            documents = [seen(run).to_json() | {"evidence": joined.of(run)} for run in runs]
        return json_body(request, {"runs": documents, "total": total, "revision": revision})

    @router.get("/groups")
    def list_groups(
        request: Request, who: Who, question: Asked, by: Grouping = "seeds", limit: Limit = 100, offset: Offset = 0
    ) -> Response:
        """Return the same list in groups: of runs that differ in the seed alone, or that were sent together
        (``batch``).

        Of each: the key, which is the ``series`` or ``batch`` that lists its runs, its newest run, and mean, standard
        error and ends of what was measured.
        """
        question, seen = access.question(who, question), access.as_seen(who)
        with store.snapshot():
            revision = store.revision()
            groups, total, runs = store.groups(question, by, limit, offset)
            joined = JoinedDraws(store, access.question(who, Question()))
        documents = [
            {
                "key": group.key,
                "run": seen(newest).to_json() | {"evidence": joined.of(newest)},
                "count": group.count,
                "states": group.states,
                "varies": list(group.varies),
                "measures": group.measures,
            }
            for group, newest in groups
        ]
        return json_body(request, {"groups": documents, "total": total, "runs": runs, "revision": revision})

    @router.get("/pareto")
    def get_pareto(request: Request, who: Who, question: Asked, size: Size = "bits") -> Response:
        """Return the figure of size against quality of the listed runs, with the frontier of each model and test
        text."""
        question = access.question(who, question)

        def draw() -> ParetoView:
            runs, total = store.part(question, DRAWN)
            view = pareto_view([pareto_run(run) for run in runs], size)
            if total > len(runs):
                shown, all_runs = number(len(runs), 0), number(total, 0)
                view["words"] += f" Only the first {shown} of {all_runs} runs of the list are drawn: filter it."
            return view

        return json_body(request, store.drawn((question, size), draw))

    @router.get("/csv")
    def get_csv(who: Who, question: Asked) -> Response:
        """Return the list as a file for spreadsheets: settings, protocol and measurements of each run at full
        precision, in English whatever the language of the request."""
        ids, seen = store.ids(access.question(who, question)), access.as_seen(who)
        joined = JoinedDraws(store, access.question(who, Question()))

        def lines() -> Iterator[str]:
            yield HEAD
            for first in range(0, len(ids), PORTION):
                yield lines_of(map(seen, store.runs(ids[first : first + PORTION])), joined)

        headers = {"Content-Disposition": 'attachment; filename="runs.csv"', "Cache-Control": "no-store"}
        return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)

    def each(who: Visitor, ids: Any, verb: str, work: Callable[[Run], object]) -> dict[str, Any]:
        """Apply an action to each of the named runs; failures are reported and change nothing."""
        done, left = [], []
        who.require_runner(f"{verb} runs")
        for run_id in named_ids(ids):
            try:
                work(access.own_run(who, run_id, f"{verb} run {run_id}"))
                done.append(run_id)
            except Refused as error:
                left.append({"id": run_id, "error": error.to_json()})
        return {"done": done, "left": left}

    @router.post("/delete")
    def delete_many(who: Who, document: Document) -> dict[str, Any]:
        """Remove those of ``ids`` that are at rest, as ``DELETE /runs/{id}`` does; ``left`` says why others stay."""
        return each(who, document.get("ids"), "DELETE", lambda run: supervisor.delete(run.id, who.owner))

    @router.post("/tags")
    def tag_many(who: Who, document: Document) -> dict[str, Any]:
        """Add the tags ``add`` to the runs of ``ids``, and take the tags ``remove`` away."""
        add, remove = (checked_tags(document.get(name, []), f"runs, {name}") for name in ("add", "remove"))
        return each(who, document.get("ids"), "tag", lambda run: supervisor.tag(run.id, add, remove))

    @router.patch("/{run_id}", response_model=None)
    def annotate(who: Who, run_id: str, document: Document) -> RunDocument:
        """Write a name, a note or tags on a run; what is not given stays."""
        access.own_run(who, run_id, f"PATCH run {run_id}")
        return supervisor.annotate(run_id, Annotations.parse(document)).to_json()

    return router


MEASURED = (
    "perplexity_float",
    "log_ratio_standard_error",
    "kl",
    "kl_standard_error",
    "kl_99",
    "same_top",
    "same_top_standard_error",
    "accuracy",
    "accuracy_standard_error",
    "accuracy_float",
    "accuracy_standard_error_float",
    "bytes_before",
    "bytes_after",
    "bits_per_weight",
    "share_quantized",
    "quantized_layers",
)
TEST = ("corpus", "part", "window", "windows", "begin", "predicted_tokens", "dtype", "device")
CALIBRATION = ("corpus", "sha256", "samples", "length", "tokens", "begin", "held_out_samples", "sampling", "seed")
TUNED = {
    "tuned": "words",
    "tuned_lambda": "lam",
    "tuned_band": "band",
}
EVIDENCE = {"against_gptq": "change"} | {
    f"against_gptq_{part}": part for part in ("low", "high", "over", "count", "among", "text", "verdict")
}
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n")  # with these spreadsheets begin a formula


Column = Callable[[Run], Any]


def _entry_of(part: Callable[[Run], Mapping[str, Any] | None], name: str) -> Column:
    """Return the getter of an entry in an optional part of a run."""
    return lambda run: (part(run) or {}).get(name)


def _time(name: str) -> Column:
    """Return the getter of a time of a run as text."""
    return lambda run: (seconds := getattr(run, name)) and iso_time(seconds)


def _protocol(run: Run) -> dict[str, Any]:
    return (run.summary or {}).get("protocol") or {}


COLUMNS: dict[str, Column] = {
    **{name: _entry_of(vars, name) for name in ("id", "name")},
    "tags": lambda run: ", ".join(run.tags),
    **{name: _entry_of(vars, name) for name in ("note", "state", "owner", "batch")},
    **{name: _time(name) for name in ("created", "started", "ended")},
    "seconds": lambda run: None if run.started is None or run.ended is None else run.ended - run.started,
    **{name: _entry_of(vars, name) for name in ("device", "fingerprint")},
    "error": lambda run: run.error and run.error["what"],
    "perplexity": lambda run: perplexity(run.summary or {}),
    "log_ratio": lambda run: log_ratio(run.summary or {}),
    **{name: _entry_of(lambda run: tuned(run.summary), field) for name, field in TUNED.items()},
    **{name: _entry_of(lambda run: run.summary, name) for name in MEASURED},
    **{f"test_{name}": _entry_of(lambda run: _protocol(run).get("test"), name) for name in TEST},
    **{f"calibration_{name}": _entry_of(lambda run: _protocol(run).get("calibration"), name) for name in CALIBRATION},
    **{f"recipe_{name}": _entry_of(lambda run: run.recipe, name) for name in map(public_name, Recipe.model_fields)},
}


def cell(value: Any) -> str | float | int:
    """Return a value as a cell: numbers unchanged, lists joined, and no text that spreadsheets run as a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return value
    text = "; ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if text.startswith(_FORMULAS) else text


def lines_of(runs: Iterable[Run], joined: JoinedDraws) -> str:
    """Return the lines of runs with their comparisons, each with its end."""
    return _lines(
        [*(cell(value(run)) for value in COLUMNS.values()), *(cell(against.get(part)) for part in EVIDENCE.values())]
        for run in runs
        for against in [dict[str, Any](joined.of(run) or {})]
    )


def _lines(rows: Iterable[Sequence[Any]]) -> str:
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue()


HEAD = _lines([[*COLUMNS, *EVIDENCE]])
