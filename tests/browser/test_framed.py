"""A card of the Lab in a frame of another page: of the app, where its operator allows that, and of a published site."""

import os
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.browser.conftest import running, watched
from tests.extras.publish.sites import host_of_two, served_site, serving

pytestmark = pytest.mark.thorough

PAGE = """<!doctype html><html style="color-scheme: light dark"><title>Blog</title><body>
<p>Before</p><iframe src="{source}" width="680" height="200"></iframe><p>After</p>
<script>
addEventListener("message", ({{ source, data }}) => {{
  const frame = document.querySelector("iframe");
  if (source === frame.contentWindow && data.type === "sarqc-height") frame.height = data.height;
}});
</script></body></html>"""
VISIBLE = """() => [...document.querySelectorAll("#content section.card")].filter((card) => card.offsetParent !== null)
  .map((card) => card.dataset.control)"""


@pytest.fixture(scope="module")
def addresses(tmp_path_factory):
    """The Lab of the study “small” in an app, whose cards every site may show, and in a site."""
    folder = tmp_path_factory.mktemp("host")
    assets = host_of_two(folder / "app", tour=True).assets_dir
    own = {"SARQC_ASSETS_DIR": os.fspath(assets), "SARQC_EMBED_ANCESTORS": "*"}
    with (
        served_site(tmp_path_factory.mktemp("www"), folder / "site") as site,
        running(tmp_path_factory.mktemp("state"), **own) as app,
    ):
        yield {"app": f"{app.url}/?study=small", "site": f"{site}small/?study=small"}


@pytest.fixture
def blog(browser, tmp_path):
    """Opens a page of another site with a frame."""
    with serving(tmp_path) as address, watched(browser) as make:

        def made(source, **options):
            (tmp_path / "index.html").write_text(PAGE.format(source=source.replace("&", "&amp;")))
            return make(f"{address}/", height=900, **options)

        yield made


@pytest.mark.parametrize("kind", ["app", "site"])
def test_a_card_with_its_slider_and_a_link_back(blog, addresses, kind):
    page = blog(f"{addresses[kind]}&embed=plane", color_scheme="dark")
    frame = page.frames[1]
    frame.wait_for_selector("[data-plot=lab-plane] svg.flat")
    assert frame.evaluate(VISIBLE) == ["plane"]
    for absent in (".bar", ".door-button", "[data-testid=picks]", "[data-testid=sentence]", "[data-testid=equation]"):
        assert not frame.locator(absent).first.is_visible(), absent
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
    # The slider moves the figure, and the link follows it.
    before = frame.get_attribute("[data-testid=frame-link]", "href")
    drawn = frame.get_attribute("[data-plot=lab-plane]", "data-drawn")
    frame.focus("[data-testid=frame-lambda]")
    page.keyboard.press("ArrowLeft")
    frame.wait_for_function(
        "drawn => document.querySelector('[data-plot=lab-plane]').dataset.drawn !== drawn", arg=drawn
    )
    after = frame.get_attribute("[data-testid=frame-link]", "href")
    assert after != before
    query = parse_qs(urlsplit(after).query)
    assert (query["open"], "embed" in query) == (["trade_off"], False)
    # The page around has made the frame as high as all of it.
    page.wait_for_function("document.querySelector('iframe').height !== '200'")
    page.wait_for_timeout(300)
    assert frame.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
    assert 300 < int(page.get_attribute("iframe", "height")) < 700
    assert page.context.cookies() == []
    with page.context.expect_page() as lab:
        frame.click("[data-testid=frame-link]")
    lab.value.wait_for_selector("#content.is-open")
    lab.value.wait_for_selector("[data-plot=lab-plane] svg.flat")


def test_the_main_figure_has_its_own_slider_and_a_theme_can_be_asked_for(blog, addresses):
    page = blog(f"{addresses['app']}&embed=hero&theme=light", color_scheme="dark")
    frame = page.frames[1]
    frame.wait_for_selector("[data-plot=lab-hero] svg.flat")
    assert frame.evaluate(VISIBLE) == ["hero"]
    assert frame.locator("[data-testid=lambda]").is_visible()
    assert not frame.locator("[data-testid=frame-lambda]").is_visible()
    assert frame.evaluate("document.documentElement.dataset.theme") == "light"


def test_every_card_that_the_menu_offers_stands_alone(browser, blog, addresses):
    page = browser.new_page()
    page.goto(addresses["site"])
    page.wait_for_selector("#content.is-open")
    page.click("[data-testid=share]")
    cards = page.locator("[data-testid=share-card] option").evaluate_all("all => all.map(({ value }) => value)")
    page.close()
    assert {"hero", "surfaces", "plane", "map", "numbers", "measured"} <= set(cards)
    for card in cards:
        frame = blog(f"{addresses['site']}&embed={card}").frames[1]
        frame.wait_for_selector("[data-testid=frame-link]")
        frame.wait_for_selector(f"#content section[data-control={card}]")
        assert set(frame.evaluate(VISIBLE)) == {card}


def test_the_whole_page_and_unknown_studies(blog, addresses):
    page = blog(addresses["app"])
    page.watch.expected.append("frame-ancestors")
    page.wait_for_timeout(1500)
    assert page.frames[1].evaluate("document.querySelector('#content')") is None  # the browser refuses it
    page = blog(f"{addresses['app'].replace('small', 'nowhere')}&embed=plane")
    page.watch.expected.append("404")
    page.frames[1].wait_for_selector("text=not found")
