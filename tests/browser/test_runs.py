"""The table of runs, its filter, a comparison, and a deletion that asks first."""

import csv

import pytest

from tests.browser.conftest import SMALL_RUN

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def two_runs(app, small_run):
    return [small_run, app.run({**SMALL_RUN, "lambda": 1})]


def test_a_run_appears_by_itself_and_is_found_by_typing(app, two_runs, open_page):
    page = open_page("/runs")
    page.wait_for_selector("[data-testid=row]")
    before = page.locator("[data-testid=row]").count()
    late = app.json("/runs", {**SMALL_RUN, "bits": 4, "method": "rtn", "lambda": None, "sweep": []})
    page.wait_for_selector(f"[data-run='{late['id']}']")
    assert page.locator("[data-testid=row]").count() == before + 1
    # With its id too: the app of these tests may have other runs of that method already.
    page.fill("[data-testid=filter]", f"4 bits rtn {late['id']}")
    page.wait_for_function("document.querySelectorAll('[data-testid=row]').length === 1")
    app.finished(late["id"])
    page.wait_for_selector(f"[data-run='{late['id']}'] [data-state=finished]")


def test_compare_shows_differences_first(app, two_runs, open_page):
    page = open_page("/runs")
    for run in two_runs:
        page.check(f"[data-run='{run['id']}'] [data-testid=pick]")
    page.click("[data-testid=compare]")
    page.wait_for_selector('[data-plot="compare"][data-drawn]')
    rows = page.eval_on_selector_all("[data-testid=differences] tbody th", "cells => cells.map(c => c.textContent)")
    assert rows == ["λ"]
    assert "?compare=" in page.url
    view = app.json(f"/compare?ids={two_runs[0]['study_id']},{two_runs[1]['study_id']}")
    assert page.locator("[data-testid=compared] tbody tr").count() == len(view["numbers"])
    page.reload()  # as a link to it is opened
    page.wait_for_selector('[data-plot="compare"][data-drawn]')
    assert page.locator("[data-testid=compared-layers] tbody tr").count() == len(view["layers"])
    assert page.locator("[data-testid=compared-layers] .more").count() == len(view["layers"])
    assert page.locator("[data-testid=compared-texts]").is_hidden()


def test_a_run_gets_a_name_a_note_and_tags_in_place(app, two_runs, open_page):
    run = two_runs[0]["id"]
    page, other = open_page("/runs"), open_page("/runs")
    row = f"[data-run='{run}']"
    page.focus(f"{row} [data-testid=edit]")
    page.keyboard.press("Enter")
    page.fill("[data-testid=edit-name]", "the first of all")
    page.fill("[data-testid=edit-tags]", "paper, #two words")
    page.fill("[data-testid=edit-note]", "why\nnot")
    page.press("[data-testid=edit-tags]", "Enter")
    page.wait_for_selector("[data-testid=editor]", state="detached")
    assert page.evaluate("document.activeElement.dataset.testid") == "edit"
    other.wait_for_selector(f"{row} a:has-text('the first of all')")  # the stream told it
    stored = app.json(f"/runs/{run}")
    assert (stored["name"], stored["tags"], stored["note"]) == ("the first of all", ["paper", "two words"], "why\nnot")
    page.click(f"{row} .tag:has-text('paper')")
    page.wait_for_function("document.querySelectorAll('[data-testid=row]').length === 1")
    page.click(f"{row} [data-testid=edit]")
    page.press("[data-testid=edit-name]", "Escape")
    page.wait_for_selector("[data-testid=editor]", state="detached")
    assert page.evaluate("document.activeElement.dataset.testid") == "edit"
    app.json(f"/runs/{run}", {"name": "", "tags": [], "note": ""}, "PATCH")


def test_a_refused_name_is_said_and_nothing_is_lost(two_runs, open_page):
    page = open_page("/runs")
    page.watch.expected += ["422"]
    page.click(f"[data-run='{two_runs[0]['id']}'] [data-testid=edit]")
    page.fill("[data-testid=edit-tags]", ",".join(f"t{i}" for i in range(17)))
    page.click("[data-testid=edit-save]")
    page.wait_for_selector("text=17 tags are more than the 16 of a run")
    assert page.input_value("[data-testid=edit-tags]").startswith("t0,t1")


def test_seeds_unfold_and_many_are_tagged_downloaded_and_deleted(app, open_page):
    recipe = {**SMALL_RUN, "method": "rtn", "lambda": None, "sweep": [], "samples": 1, "seed": [5, 6]}
    batch = app.json("/runs", recipe)
    runs = [app.finished(run["id"]) for run in batch["runs"]]
    page = open_page(f"/runs?group=seeds&filter={batch['batch']}")
    page.wait_for_selector("[data-testid=group]")
    assert "2 seeds" in page.text_content("[data-testid=unfold]")
    mean = sum(run["summary"]["perplexity"] for run in runs) / 2
    assert f"{mean:.0f}"[:2] in page.text_content("[data-testid=group] .run-perplexity")
    page.click("[data-testid=unfold]")
    page.wait_for_function("document.querySelectorAll('[data-testid=row]').length === 2")

    ids = [run["id"] for run in runs]
    page.goto(f"{app.url}/runs")
    page.click(f"[data-run='{ids[0]}'] [data-testid=more]")
    page.click(f"[data-run='{ids[0]}'] [data-testid=batch]")
    page.wait_for_function("document.querySelectorAll('[data-testid=row]').length === 2")
    assert page.input_value("[data-testid=filter]") == batch["batch"]
    page.check("[data-testid=pick-all]")
    page.click("[data-testid=tag-picked]")
    page.fill("[data-testid=tag-picked-text]", "old")
    page.click("[data-testid=tag-picked-add]")
    page.wait_for_function("document.querySelectorAll('.tag').length === 2")
    assert [app.json(f"/runs/{run}")["tags"] for run in ids] == [["old"], ["old"]]
    with page.expect_download() as download:
        page.click("[data-testid=csv]")
    with open(download.value.path(), newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["id"] for row in rows} == set(ids)
    assert {row["tags"] for row in rows} == {"old"}
    page.click("[data-testid=delete-picked]")
    assert page.text_content("[data-testid=delete-words]").startswith("Delete 2 runs for good")
    page.click("[data-testid=delete-picked-no]")
    page.click("[data-testid=delete-picked]")
    page.click("[data-testid=delete-picked-yes]")
    page.wait_for_selector("text=2 runs deleted.")
    page.wait_for_selector("text=No run matches the filter.")
    assert app.json(f"/runs?ids={','.join(ids)}")["total"] == 0


def test_size_against_quality_and_what_can_not_be_compared(app, two_runs, open_page):
    moe = {"model": "tiny-moe", "bits": 3, "method": "rtn", "calibration": "tiny-moe-calibration", "samples": 1,
           "length": 32, "test": "tiny-moe-test", "test_tokens": 512}  # fmt: skip
    other = app.run(moe)
    page = open_page("/runs")
    for run in [*two_runs, other]:
        page.check(f"[data-run='{run['id']}'] [data-testid=pick]")
    page.click("[data-testid=pareto]")
    page.wait_for_selector('[data-plot="pareto"][data-drawn]')
    page.wait_for_selector("text=Models and test texts have frontiers of their own")
    points = "document.querySelector('[data-plot=pareto] .plot-canvas').data.flatMap((one) => one.customdata ?? [])"
    assert set(page.evaluate(points)) == {run["id"] for run in [*two_runs, other]}
    page.click("[data-plot=pareto] [data-size=mib]")
    canvas = "document.querySelector('[data-plot=pareto] .plot-canvas')"
    page.wait_for_function(f"{canvas}.layout.xaxis.title.text.startsWith('MiB')")
    page.wait_for_selector("text=Pick runs of one model: these are of tiny-llama and tiny-moe")
    assert page.is_disabled("[data-testid=compare]")
    app.json(f"/runs/{other['id']}", method="DELETE")
