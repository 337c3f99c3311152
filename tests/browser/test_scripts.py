"""Scripts in a real page: all are announced; what is drawn again keeps what the reader has; data is only text."""

import re
from pathlib import Path
from urllib.parse import urlparse

import pytest

from sarqc.web.static import assets_root


def run(page, body: str):
    """What a script answers that has the modules of base/ at hand and an empty ``place`` in the page."""
    names = ("html", "table", "problem", "page_state", "clipboard")
    loaded = "const { scripts } = await import(address);\n"
    loaded += "\n".join(f"const {name} = scripts['base/{name}.js'];" for name in names)
    address = f"{assets_root(Path('assets').resolve(), '')}/runs.js"
    place = "const place = document.createElement('main'); document.body.replaceChildren(place);"
    return page.evaluate(f"async (address) => {{ {loaded} {place} {body} }}", address)


@pytest.fixture
def page(open_page):
    return open_page("/api/health")


def test_a_table_drawn_again_keeps_focus_and_open_folds_with_their_rows(page):
    said = run(
        page,
        """
        const button = (row) => html.html`<button>${row.words}</button><details><summary>more</summary></details>`;
        const draw = (rows) => html.render(table.table({
          columns: [{title: "Name", isHead: true, show: (row) => row.id}, {show: button}], rows, key: (row) => row.id,
        }), place);
        draw([{id: "a", words: "1"}, {id: "b", words: "2"}]);
        const [, second] = place.querySelectorAll("tbody tr");
        second.querySelector("button").focus();
        second.querySelector("details").open = true;
        draw([{id: "c", words: "new"}, {id: "b", words: "changed"}, {id: "a", words: "1"}]);
        const at = document.activeElement;
        return {
          order: [...place.querySelectorAll("tbody th")].map((cell) => cell.textContent).join(),
          same: at === second.querySelector("button"),
          words: at.textContent,
          open: second.querySelector("details").open,
          head: [...place.querySelectorAll("thead tr > *")].map((cell) => [cell.localName, cell.scope ?? ""].join(" ")),
        };
        """,
    )
    assert said == {"order": "c,b,a", "same": True, "words": "changed", "open": True, "head": ["th col", "td "]}


def test_data_is_text_in_every_place_of_a_template(page):
    said = run(
        page,
        """
        const evil = `"><img src=x onerror="window.hit = 1"><script>window.hit = 1</script>`;
        html.render([
          problem.problemBlock({what: evil, where: evil, remedy: evil}, evil),
          table.table({columns: [{title: evil, show: (row) => row}], rows: [evil], name: evil, caption: evil}),
        ], place);
        await new Promise((resolve) => setTimeout(resolve, 50));
        const said = place.querySelector("td").textContent;
        return [place.querySelectorAll("img, script").length, window.hit ?? null, said === evil];
        """,
    )
    assert said == [0, None, True]


def test_a_store_draws_many_changes_as_one(page):
    said = run(
        page,
        """
        const drawn = [];
        const count = page_state.store(0, (state, step) => state + step, (state) => drawn.push(state));
        for (const step of [1, 2, 3, 0]) count.dispatch(step);
        const before = [count.state, drawn.length];
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        count.dispatch(0);
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        return [...before, drawn];
        """,
    )
    assert said == [6, 0, [6]]


def test_a_copy_is_said_for_a_moment_however_often_it_is_asked_for(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    said = run(
        page,
        """
        html.render(html.html`<button>Copy</button>`, place);
        const button = place.firstElementChild;
        await clipboard.copyFrom(button, "first");
        await clipboard.copyFrom(button, "λ = 0.1");
        const meanwhile = button.textContent;
        await new Promise((resolve) => setTimeout(resolve, 1700));
        return [meanwhile, button.textContent, await navigator.clipboard.readText()];
        """,
    )
    assert said == ["Copied", "Copy", "λ = 0.1"]


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/", "/calibrate", "/runs", "/learn"])
def test_a_page_announces_its_module_and_its_styles_and_asks_for_no_other_file_of_ours(app, open_page, path):
    page = open_page("/api/health")
    with page.expect_response(app.url + path) as answer:
        page.goto(app.url + path, wait_until="networkidle")
    head = answer.value.text().partition("<gradio-app")[0].partition("<body")[0]
    announced = set(re.findall(r'<link rel="(?:preload|modulepreload)"[^>]*href="(/assets/v-[^"?]+)', head))
    asked = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    own = [urlparse(url).path for url in asked if urlparse(url).path.startswith("/assets/v-")]
    assert sorted(own) == sorted(announced)
    assert [name.rpartition("/")[2] for name in sorted(own)] == sorted([f"{path[1:] or 'lab'}.js", "pages.css"])
