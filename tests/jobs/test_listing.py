"""Lists of runs: what people write on them, the filter, orders, parts and groups, beside an oracle in plain Python."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import statistics
from collections import Counter
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from sarqc.errors import NotFound, Refused
from sarqc.events import Finished
from sarqc.jobs import listing
from sarqc.jobs.annotations import MOST_TAGS, NAME_LENGTH, TAG_LENGTH, Annotations
from sarqc.jobs.listing import MEASURES, SORTS, Question, RunGroup
from sarqc.jobs.run import STATE_WORDS, Run, State
from sarqc.jobs.schema import MIGRATIONS, migrate
from sarqc.jobs.store import Store
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe
from tests.jobs.fake_runs import recipe

BEFORE_LISTS = 3  # migrations
RUNS = 3_000  # of a list that is long


def finished(store: Store, made: Recipe, owner: str = "ann", **summary) -> Run:
    run_id = store.create(made, owner).id
    store.move(run_id, State.RUNNING)
    return store.move(run_id, State.FINISHED, Finished(summary, 1.0))


# What people write.


def test_a_name_a_note_and_tags_are_kept_and_followed(store):
    run = store.create(recipe(), "ann")
    written = store.annotate(run.id, Annotations.parse({"name": "  the best  one ", "tags": ["#Paper", "paper", "b"]}))
    assert (written.name, written.note, written.tags) == ("the best one", "", ("Paper", "b"))
    assert store.changed_since(run.revision) == [written]
    noted = store.annotate(run.id, Annotations.parse({"note": "two\nlines"}))
    assert (noted.name, noted.note, noted.tags) == ("the best one", "two\nlines", ("Paper", "b"))
    assert store.annotate(run.id, Annotations.parse({"name": "", "tags": []})).tags == ()
    with pytest.raises(NotFound):
        store.annotate("nothing", Annotations(name="x"))


def ids(runs: list[Run]) -> set[str]:
    return {run.id for run in runs}


def test_a_preview_of_one_layer_is_in_no_list_before_it_has_a_name(store, settings):
    listed = store.create(recipe(), "ann", "preview").id  # a whole model that is only wanted soon
    passing = store.create(recipe(layer="model.layers.0.mlp.down_proj"), "ann", "preview").id
    batch = store.create(recipe(layer="model.layers.0.mlp.down_proj"), "ann").id
    assert [run.id for run in store.listed(Question(), 9)] == [batch, listed]
    assert (store.count(Question()), ids(store.passing_previews())) == (2, {passing})
    store.annotate(passing, Annotations(name="down_proj"))
    assert [run.id for run in store.listed(Question(), 9)] == [batch, passing, listed]
    assert ids(store.passing_previews()) == set()
    store.annotate(passing, Annotations(name=""))
    store.close()
    again = Store(settings.database())
    assert (again.count(Question()), ids(again.passing_previews())) == (2, {passing})
    again.close()


def test_tags_are_added_and_taken_away(store):
    run_id = store.create(recipe(), "ann").id
    store.tag(run_id, ["a", "b"], [])
    assert store.tag(run_id, ["c", "A"], ["B"]).tags == ("a", "c")


def test_an_export_has_no_name(store):
    export = store.create_export(finished(store, recipe()), "plain", 1, "ann")
    with pytest.raises(Refused, match="export"):
        store.annotate(export.id, Annotations(name="x"))


@pytest.mark.parametrize(
    "document",
    [
        {}, {"state": "finished"}, {"name": 3}, {"name": None}, {"name": "x" * (NAME_LENGTH + 1)}, {"note": ["x"]},
        {"note": "a\0b"}, {"name": "\ud800"}, {"tags": "a"}, {"tags": [1]}, {"tags": [" "]}, {"tags": ["a,b"]},
        {"tags": ["x" * (TAG_LENGTH + 1)]}, {"tags": [f"t{i}" for i in range(MOST_TAGS + 1)]},
    ],
)  # fmt: skip
def test_what_can_not_be_written_is_refused(document):
    with pytest.raises(Refused) as refused:
        Annotations.parse(document)
    assert refused.value.what
    assert refused.value.remedy


# A database from before.


@pytest.mark.parametrize("steps", [1, BEFORE_LISTS])
def test_runs_from_before_are_listed_like_all_others(settings, steps):
    path = settings.database()
    path.parent.mkdir(parents=True)
    old = sqlite3.connect(path, isolation_level=None)
    old.row_factory = sqlite3.Row
    migrate(old, MIGRATIONS[:steps])
    made = recipe(method="rtn", bits=2)
    columns = {
        "recipe_json": json.dumps(made.to_json()), "recipe_fingerprint": made.fingerprint(), "owner": "ann",
        "lane": "batch", "state": "finished", "created": 10.0, "queued": 10.0, "started": 20.0, "ended": 25.5,
        "summary_json": '{"perplexity": 9.5}', "revision": 7,
    }  # fmt: skip
    only = {"recipe_json": json.dumps(recipe(layer="model.layers.0.mlp.down_proj").to_json()), "lane": "preview"}
    export = {"parent": "A" * 26, "format": "plain"}
    for row in ({"id": "A" * 26}, {"id": "C" * 26} | only, *([{"id": "B" * 26} | export] if steps > 1 else [])):
        row = columns | row
        marks = ", ".join("?" * len(row))
        old.execute(f"INSERT INTO runs ({', '.join(row)}) VALUES ({marks})", (*row.values(),))
    old.close()
    store = Store(path)
    (run,) = store.listed(Question("rtn finished"), 9)  # without its export
    assert (run.id, run.name, run.note, run.tags, run.revision) == ("A" * 26, "", "", (), 7)
    assert (run.owner, run.batch, run.parent, run.format, run.bytes) == ("ann", None, None, None, None)
    ((group, newest),), *_ = store.groups(Question("rtn"), "seeds", 9)
    assert newest == run
    assert group.measures["duration"] == {"count": 1, "mean": 5.5, "error": None, "least": 5.5, "most": 5.5}
    assert [run.name for run in store.listed(Question(), 9)] == ["preview", ""]  # previews that lists had stay in them
    assert store.passing_previews() == []
    assert store.create_export(run, "mlx", 1, "ann").parent == run.id
    store.close()


@pytest.mark.thorough
def test_one_group_of_any_number_is_summed_up_around_its_mean(store):
    values = [1e9 + number % 7 for number in range(300)]  # squares of these have no room for their spread
    for seed, value in enumerate(values):
        finished(store, recipe(seed), perplexity=value, accuracy=0.0378)
    ((group, _),), *_ = store.groups(Question(), "seeds", 9)
    assert math.isclose(group.measures["perplexity"]["error"], statistics.stdev(values) / math.sqrt(300), rel_tol=1e-9)
    same = {"count": 300, "mean": 0.0378, "error": 0.0, "least": 0.0378, "most": 0.0378}
    assert group.measures["accuracy"] == same  # to the last digit


def test_an_answer_is_not_kept_that_may_be_taken_back(store):
    finished(store, recipe())
    assert store.count(Question()) == 1

    def taken_back():
        with store.transaction():
            store.create(recipe(), "ann")
            assert store.count(Question()) == 2
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taken_back()
    assert store.count(Question()) == 1
    finished(store, recipe())
    assert store.count(Question()) == 2


def test_rows_of_a_former_form_are_made_again(settings, monkeypatch):
    store = Store(settings.database())
    run = finished(store, recipe())
    with store.transaction() as connection:
        connection.execute("UPDATE listed SET words = ''")
    store.close()
    again = Store(settings.database())
    assert again.listed(Question("fake"), 9) == []  # rows of this form are taken as they are
    again.close()
    monkeypatch.setattr(listing, "FORM", listing.FORM + 1)
    store = Store(settings.database())
    assert store.listed(Question("fake"), 9) == [run]
    store.close()


# Filter and order, beside an oracle.

MODELS = ("tiny-llama", "meta-llama/Llama-2-7b-hf", "Größe-1")
NAMES = ("rtn", "gptq", "sarqc-gbs", "rqc-gbs")
TYPED = ("", "llama", "LLAMA 2 bits", "4", "grösse", "#paper", "paper", "waiting", "fin", "rtn cancelled", "λ=0.1",
         "ann", "ama", "2-7b", "#", "batch-1")  # fmt: skip


def begins(run: Run, typed: str) -> bool:
    """Whether every word typed stands at the beginning of a word of the run."""
    recipe, lam = run.recipe, run.recipe["lambda"]
    said = [run.id, run.batch or "", run.name, run.note, run.owner, recipe["model"], recipe["method"], recipe["grid"],
            recipe["calibration"], f"{recipe['bits']} bits", run.state, STATE_WORDS[run.state]]  # fmt: skip
    said += [f"#{tag}" for tag in run.tags] + ([] if lam is None else [f"λ={lam:g}"])
    return all(
        any(re.search(rf"(?<![^\W_]){re.escape(word)}" if word[0].isalnum() else re.escape(word), one.casefold())
            for one in said)
        for word in typed.casefold().split()
    )  # fmt: skip


def tuning(lam: float, better: float, verdict: str) -> dict[str, Any]:
    """The document of a tuning run at its end: one λ of three is the best."""
    unknown = dict.fromkeys(("gamma", "perplexity", "log_ratio", "better", "better_low", "better_high"))
    best = {"gamma": 0.5, "perplexity": 40 + lam, "log_ratio": lam, "better": better, "better_low": better - 0.01,
            "better_high": better + 0.01, "draws": 4}  # fmt: skip
    rows = [
        {"method": "sarqc-gbs", "lambda": lam + 1, "standing": "ruled_out", **unknown},
        {"method": "sarqc-gbs", "lambda": lam, "standing": "best", **best},
        {"method": "gptq", "lambda": None, "standing": "baseline", **unknown},
    ]
    band = [[lam, lam], [lam + 2, lam + 3]]
    after = {"better": "run", "unknown": "go_on"}.get(verdict, "keep")
    evidence = {"verdict": verdict, "text": "none.txt"}
    return {"rows": rows, "best": 1, "band": band, "next": after, "evidence": evidence, "screened": [42, 42]}


def value_of(run: Run, sort: str):
    summary = run.summary or {}
    if run.recipe["kind"] == "tune" and sort in ("lambda", "gamma", "perplexity", "log_ratio", "against_gptq"):
        best = summary["tuning"]["rows"][1] if summary else {}
        if sort == "lambda":
            return best.get("lambda") if summary and summary["tuning"]["next"] == "run" else None
        if sort == "against_gptq":
            return math.exp(-best["better"]) - 1 if best else None
        return best.get(sort)
    match sort:
        case "created":
            return run.id
        case "name":
            return run.name.casefold() or None
        case "state":
            return list(State).index(run.state)
        case "duration":
            return None if run.ended is None or run.started is None else run.ended - run.started
        case "lambda" | "gamma":
            given, own = run.recipe[sort], METHODS[run.recipe["method"]].defaults()
            return own.get("lam" if sort == "lambda" else sort) if given is None else given
        case "model" | "method" | "bits":
            return run.recipe[sort]
        case "size":
            return summary.get("bytes_after")
        case "log_ratio":
            value = summary.get("perplexity")
            return None if value is None else math.log(value / summary["perplexity_float"])
        case "against_gptq":
            baseline = summary.get("baseline")
            return None if baseline is None else math.exp(baseline["difference"]) - 1
    return summary.get(sort)


def in_order(runs: list[Run], sort: str) -> list[Run]:
    name, backwards = sort.removeprefix("-"), sort.startswith("-")
    known = [run for run in runs if value_of(run, name) is not None]
    rest = [run for run in runs if value_of(run, name) is None]

    def key(run: Run):
        value = value_of(run, name)
        return (round(value, 12) if name == "against_gptq" else value), run.id  # exp and expm1 differ in the last digit

    known.sort(key=key, reverse=backwards)
    return known + sorted(rest, key=lambda run: run.id, reverse=backwards)


drawn_runs = st.lists(
    st.fixed_dictionaries(
        {
            "model": st.sampled_from(MODELS),
            "method": st.sampled_from(NAMES),
            "bits": st.sampled_from((2, 3, 4)),
            "seed": st.integers(1, 3),
            "name": st.sampled_from(("", "Größer", "baseline 2", "zz")),
            "tags": st.lists(st.sampled_from(("paper", "b-side")), unique=True),
            "state": st.sampled_from((State.QUEUED, State.CANCELLED, State.RUNNING, State.FINISHED)),
            "perplexity": st.one_of(st.none(), st.floats(1, 1e4)),
            "size": st.one_of(st.none(), st.integers(1, 10**12)),
            "owner": st.sampled_from(("ann", "bob")),
            "better": st.sampled_from((None, -0.25, 0.0, 0.125)),
            "after": st.sampled_from(("", "better", "equal", "unknown")),  # not empty: it tunes
        }
    ),
    max_size=12,
)


def made(store: Store, drawn: dict[str, Any]) -> Run:
    document = recipe(drawn["seed"]).to_json() | {name: drawn[name] for name in ("model", "method", "bits")}
    tunes = drawn["after"] != "" and drawn["method"] in ("sarqc-gbs", "rqc-gbs")
    if tunes:
        document |= {"kind": "tune", "test": "none.txt"}
    run_id = store.create(Recipe.parse(document), drawn["owner"]).id
    store.annotate(run_id, Annotations(drawn["name"], None, tuple(drawn["tags"])))
    if drawn["state"] is State.CANCELLED:
        store.cancel(run_id)
    elif drawn["state"] is not State.QUEUED:
        store.move(run_id, State.RUNNING)
    measured = {"perplexity": drawn["perplexity"], "perplexity_float": 7.5, "bytes_after": drawn["size"]}
    if tunes:
        measured |= {"perplexity": None, "tuning": tuning(0.25 * drawn["bits"], drawn["better"] or 0.0, drawn["after"])}
    elif drawn["better"] is not None:
        measured["baseline"] = {"difference": -drawn["better"]}
    if drawn["state"] is State.FINISHED:
        store.move(run_id, State.FINISHED, Finished(measured, 1.0))
    return store.get(run_id)


def check_group(group: RunGroup, members: list[Run]):
    """A group beside its members, added up by the statistics of the standard library."""
    assert group.states == Counter(run.state.value for run in members)
    public = {"model", "bits", "method", "lambda", "gamma"}
    assert set(group.varies) == {name for name in public if len({value_of(run, name) for run in members}) > 1}
    for name in MEASURES:
        values = [value for run in members if (value := value_of(run, name)) is not None]
        measured = group.measures.get(name)
        if name == "against_gptq" and measured is not None:  # of the same values, but for the last digit
            assert [measured["least"], measured["most"]] == pytest.approx([min(values), max(values)], abs=1e-12)
            values = [measured["least"] if value == min(values) else value for value in values]
            values = [measured["most"] if value == max(values) else value for value in values]
        assert (measured is None) == (not values)
        if measured is None:
            continue
        assert (measured["count"], measured["least"], measured["most"]) == (len(values), min(values), max(values))
        assert math.isclose(measured["mean"], statistics.fmean(values), rel_tol=1e-12)
        if len(values) == 1:
            assert measured["error"] is None
        else:
            error = statistics.stdev(values) / math.sqrt(len(values))
            assert math.isclose(measured["error"], error, rel_tol=1e-9, abs_tol=1e-12 * max(map(abs, values)))


@pytest.mark.thorough
@given(
    drawn=drawn_runs,
    typed=st.sampled_from(TYPED),
    sort=st.sampled_from([*SORTS, *(f"-{name}" for name in SORTS)]),
    limit=st.integers(1, 5),
    by=st.sampled_from(("seeds", "batch")),
)
@examples(max_examples=60, deadline=None)
def test_filter_order_parts_and_groups_are_those_of_plain_python(tmp_path_factory, drawn, typed, sort, limit, by):
    store = Store(tmp_path_factory.mktemp("store") / "runs.sqlite3")
    runs = [made(store, one) for one in drawn]
    question = Question(typed, sort)
    expected = in_order([run for run in runs if begins(run, typed)], sort)
    found = [store.listed(question, limit, offset) for offset in range(0, len(runs) + 1, limit)]
    assert list(chain(*found)) == expected
    assert store.count(question) == len(expected)
    mine = replace(question, of="ann", also=frozenset(run.id for run in runs[:1]))
    assert store.listed(mine, 99) == [run for run in expected if run.owner == "ann" or run in runs[:1]]

    def key(run):
        return tuple((k, str(v)) for k, v in run.recipe.items() if k != "seed") if by == "seeds" else (run.id,)

    members = {}
    for run in expected:
        members.setdefault(key(run), []).append(run)
    for offset in range(0, len(runs) + 1, limit):
        assert store.part(question, limit, offset) == (expected[offset : offset + limit], len(expected))
    groups, total, of_all = store.groups(question, by, 99)
    assert (len(groups), total, of_all) == (len(members), len(members), len(expected))
    assert {newest.id: group.count for group, newest in groups} == {
        max(run.id for run in of_one): len(of_one) for of_one in members.values()
    }
    for group, newest in groups:
        check_group(group, members[key(newest)])
    assert store.groups(question, by, 99) == (groups, total, of_all)  # now from what is kept
    if runs:  # a change of any run of a list is seen in the next answer
        store.delete(runs[0].id) if runs[0].at_rest else store.annotate(runs[0].id, Annotations("zz top"))
        again, _, total = store.groups(Question(), by, 99)
        assert sum(group.count for group, _ in again) == store.count(Question()) == total == len(store.ids(Question()))
        assert [newest for _, newest in again] == [store.get(newest.id) for _, newest in again]
    store.close()


@pytest.mark.parametrize(
    ("verdict", "lam", "words"),
    [
        ("better", 0.5, "0.5 found"),
        ("equal", None, "keep GPTQ 1 %"),
        ("worse", None, "keep GPTQ 1 %"),
        ("unknown", None, "not known yet"),
    ],
)
def test_a_tuning_run_is_listed_with_what_it_came_to(store, verdict, lam, words):
    """And never with the λ that its method would have taken."""
    tunes = recipe(method="sarqc-gbs", kind="tune", test="none.txt")
    waiting = store.create(tunes, "ann")
    assert listing.row_of(waiting)["lam"] is None
    run = finished(store, tunes, tuning=tuning(0.5, 0.0625, verdict))
    row, told, evidence = listing.row_of(run), run.to_json()["tuned"], run.to_json()["evidence"]
    assert (row["lam"], row["gamma"], row["perplexity"], row["log_ratio"]) == (lam, 0.5, 40.5, 0.5)
    assert row["against_gptq"] == pytest.approx(math.exp(-0.0625) - 1)
    assert (told["lam"], told["words"], told["band"], told["best"]) == (lam, words, "0.5 and 2.5 to 3.5", 0.5)
    assert (evidence["low"], evidence["high"]) == pytest.approx((math.exp(-0.0725) - 1, math.exp(-0.0525) - 1))
    assert (evidence["over"], evidence["count"], evidence["text"]) == ("draws", 4, "none.txt")
    assert store.listed(Question("λ=0.5"), 9) == ([run] if verdict == "better" else [])


def test_a_lambda_that_was_compared_with_none_is_not_listed(store):
    nothing = tuning(0.5, 0.0625, "unknown")
    nothing["rows"][1]["standing"] = "not_reached"  # measured, in one draw
    run = finished(store, recipe(method="sarqc-gbs", kind="tune", test="none.txt"), tuning=nothing | {"best": None})
    row, told = listing.row_of(run), run.to_json()["tuned"]
    assert (row["lam"], row["perplexity"], row["against_gptq"]) == (None, None, None)
    assert (told["words"], told["band"], told["best"]) == ("not compared", "", None)


def test_groups_say_in_what_their_runs_differ(store):
    batch = [recipe(1, method="sarqc-gbs", **{"lambda": lam}) for lam in (0.1, 0.2)]
    store.create_all(batch, "ann", batch="batch-1")
    ((group, newest),), *_ = store.groups(Question(), "batch", 9)
    assert (group.key, group.count, group.varies) == ("batch-1", 2, ("lambda",))
    assert group.states == {"queued": 2}
    assert newest.recipe["lambda"] == 0.2
    assert [run.recipe["lambda"] for run in store.listed(Question(batch=group.key), 9)] == [0.2, 0.1]
    seeds = [group for group, _ in store.groups(Question(), "seeds", 9)[0]]
    assert [group.count for group in seeds] == [1, 1]
    assert [len(store.listed(Question(series=group.key), 9)) for group in seeds] == [1, 1]


@pytest.mark.parametrize("sort", ["", "-", "owner", "id; DROP TABLE runs", "--created"])
def test_other_orders_and_groups_are_refused(store, sort):
    with pytest.raises(Refused, match="sorted"):
        Question(sort=sort)
    with pytest.raises(Refused, match="grouped"):
        store.groups(Question(), sort, 9)
    with pytest.raises(Refused, match="words"):
        Question("x " * 17)


# Three thousand.


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Three thousand runs, most of them finished."""
    path = tmp_path_factory.mktemp("full") / "runs.sqlite3"
    store = Store(path)
    recipes = [recipe(seed, bits=bits, method=method)
               for seed in range(100) for bits in (2, 3, 4) for method in NAMES[:2]]  # fmt: skip
    with store.transaction():
        for number in range(RUNS):
            store._insert(store._database._writer, recipes[number % len(recipes)], "ann", "batch", {})
        for number, run_id in enumerate(store.ids(Question())[100:]):
            store.move(run_id, State.RUNNING)
            store.move(run_id, State.FINISHED, Finished({"perplexity": 50 + number * 7919 % 1000 / 10}, 1.0))
    yield store
    store.close()


class Counted:
    """A connection that counts what a question costs: runs read in full, and operations of SQLite's machine."""

    def __init__(self, store):
        self.store, self.operations = store, 0

    def __enter__(self):
        self._reader = self.store._database._reader
        self._reader.set_progress_handler(self._count, 100)
        return self

    def _count(self):
        self.operations += 100
        return 0

    def __exit__(self, *_):
        self._reader.set_progress_handler(None, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("sort", [*SORTS, *(f"-{name}" for name in SORTS)])
def test_a_part_of_three_thousand_in_any_order_walks_an_index(full, sort):
    question = Question(sort=sort)
    where, values = question.where()
    with full.snapshot() as connection:
        query = f"SELECT id FROM listed WHERE {where} ORDER BY {question.order()} LIMIT 50"
        plan = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    assert not [step for step in plan if "TEMP B-TREE" in step], plan
    with Counted(full) as cost:
        assert len(full.listed(question, 50)) == 50
    assert cost.operations < RUNS  # far below one for each run


@pytest.mark.thorough
def test_a_filter_of_three_thousand_reads_narrow_rows_alone(full):
    question = Question("gptq 3 bits finished", "-perplexity")
    where, values = question.where()
    with full.snapshot() as connection:
        query = f"SELECT id FROM listed WHERE {where} ORDER BY {question.order()} LIMIT 50"
        plan = " ".join(row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values))
    assert "runs" not in plan.split()
    assert full.count(question) == sum(
        run.state is State.FINISHED and run.recipe["bits"] == 3 and run.recipe["method"] == "gptq"
        for run in full.listed(Question(), -1)
    )
    with Counted(full) as cost:
        full.listed(question, 50)
    assert cost.operations < 100 * RUNS


@pytest.mark.thorough
def test_what_the_schedule_and_quotas_ask_of_three_thousand_takes_a_few_steps(full):
    with Counted(full) as cost:
        assert full.last_held(["ann", "bob"]).keys() == {"ann"}
        assert full.last_lane() == "batch"
        assert full.ended_before(0.0, 50) == full.exports_ended_before(math.inf, 50, spare_annotated=True) == []
        assert full.exported_bytes() == full.exported_bytes("ann") == (0, 0)
        assert full.waiting_of("bob") == 0
    assert cost.operations < 1_000  # far below one for each run


@pytest.mark.parametrize("by", ["seeds", "batch"])
def test_groups_of_three_thousand_are_read_from_an_index(full, by):
    statements = []
    full._database._reader.set_trace_callback(statements.append)
    full.groups(Question(sort="-bits"), by, 7)
    full._database._reader.set_trace_callback(None)
    with full.snapshot() as connection:
        for statement in [one for one in statements if "FROM listed" in one]:
            plan = [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]
            assert all("COVERING INDEX" in step for step in plan if "listed" in step), (statement, plan)


def test_perplexities_are_sorted_within_one_text(store):
    """And have no mean over several."""
    for corpus, value in (("a.txt", 9.0), ("b.txt", 5.0), ("a.txt", 7.0), ("b.txt", 6.0), (None, None)):
        protocol = {"protocol": {"test": corpus and {"corpus": corpus, "window": 64}}}
        finished(store, recipe(), perplexity=value, **protocol)
    found = [run.summary["perplexity"] for run in store.listed(Question(sort="perplexity"), 9)]
    assert found == [7.0, 9.0, 5.0, 6.0, None]
    assert [run.summary["perplexity"] for run in store.listed(Question(sort="-perplexity"), 9)] == [6, 5, 9, 7, None]
    (group, _newest), *_ = store.groups(Question(sort="perplexity"), "seeds", 9)[0]
    assert "perplexity" not in group.measures
    assert store.listed(Question(), 9)[1].to_json()["test"] == "b.txt, window 64"
