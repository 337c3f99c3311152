"""The table of runs, its filter, a comparison, and a deletion that asks first."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SMALL_RUN, App

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def two_runs(app: App, small_run: dict) -> list[dict]:
    return [small_run, app.finished(app.json("/runs", {**SMALL_RUN, "lambda": 1})["id"])]


def test_a_run_appears_by_itself_and_is_found_by_typing(app: App, two_runs, open_page):
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


def test_perplexities_are_the_servers(two_runs, open_page):
    page = open_page("/runs")
    for run in two_runs:
        page.wait_for_selector(f"[data-run='{run['id']}']")
        value = page.get_attribute(f"[data-run='{run['id']}'] [data-value]", "data-value")
        assert float(value) == run["summary"]["perplexity"]


def test_compare_shows_differences_first(app: App, two_runs, open_page):
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


def test_delete_asks_first(app: App, open_page):
    run = app.json("/runs", {**SMALL_RUN, "bits": 3, "method": "rtn", "lambda": None, "sweep": []})
    app.finished(run["id"])
    page = open_page("/runs")
    row = f"[data-run='{run['id']}']"
    page.click(f"{row} [data-testid=delete]")
    page.click(f"{row} [data-testid=delete-no]")
    page.click(f"{row} [data-testid=delete]")
    page.click(f"{row} [data-testid=delete-yes]")
    page.locator(row).wait_for(state="detached")
    assert run["id"] not in [one["id"] for one in app.json("/runs")["runs"]]
