"""The app below a path of another site, behind a proxy that takes headers of 4,096 bytes: nothing leaves the path."""

import urllib.request
from urllib.parse import urlparse

import pytest

from tests.browser.conftest import SMALL_RUN, App, running
from tests.http.proxy import proxied

TOKEN = "a-token-of-24-characters"
PATH = "/sarqc"


@pytest.mark.soak
def test_every_page_stream_link_and_download_is_below_the_path(open_page, tmp_path):
    settings = {
        "SARQC_ROOT_PATH": PATH, "SARQC_PROXY_ADDRESSES": "127.0.0.1", "SARQC_HOSTS": "127.0.0.1",
        "SARQC_ACCESS": "token", "SARQC_ACCESS_TOKEN": TOKEN,
    }  # fmt: skip
    with running(tmp_path, **settings) as inner, proxied(urlparse(inner.url).port, PATH, strips=False) as port:
        app = App(f"http://127.0.0.1:{port}", tmp_path)
        page = open_page(f"{PATH}/runs?filter=x", of=app)
        page.fill("[name=password]", TOKEN)
        page.click("button[type=submit]")
        page.wait_for_selector("[data-testid=visitor]")
        assert page.url == f"{app.url}{PATH}/runs?filter=x"
        shown = {
            "Lab": "[data-plot=lab-hero] svg.flat",
            "Learn": "[data-testid=tour] svg",
            "Calibrate": "[data-testid=start]",
        }
        for name, element in shown.items():
            page.click(f".pages >> text={name}")
            page.wait_for_selector(element)
        made = page.evaluate(
            """async ([root, recipe]) => {
              const options = { method: "POST", headers: { "Content-Type": "application/json" } };
              const run = await (await fetch(`${root}/api/runs`, { ...options, body: JSON.stringify(recipe) })).json();
              const link = await (await fetch(`${root}/api/runs/${run.id}/link`, options)).json();
              return [run.id, link.address];
            }""",
            [PATH, {**SMALL_RUN, "method": "rtn", "lambda": None, "sweep": [], "blocks": [0]}],
        )
        page.goto(f"{app.url}{PATH}/calibrate?run={made[0]}")
        page.click("[data-testid=more-of-run]", timeout=120_000)  # is there when the stream has told the end
        with page.expect_download(timeout=120_000) as saved:
            page.click("text=Download the study")
        assert saved.value.url == f"{app.url}{PATH}/api/studies/{made[0]}/download"
        page.click("[data-testid=visitor]")
        page.click("[data-testid=sign-out]")
        page.wait_for_url(f"{app.url}{PATH}/sign-in?**")
        page.goto(f"{app.url}{made[1]}")
        page.wait_for_url(f"{app.url}{PATH}/calibrate?run={made[0]}")
        page.wait_for_selector("text=finished")
        assert {cookie["path"] for cookie in page.context.cookies()} == {f"{PATH}/"}
        assert [url for url in page.watch.requests if url.startswith("http") and f"{port}{PATH}/" not in url] == []

        with proxied(urlparse(inner.url).port, PATH, strips=True) as other:
            shared = f"http://127.0.0.1:{other}{made[1]}"
            text = urllib.request.urlopen(shared, timeout=30).read().decode()
            picture = f'content="http://127.0.0.1:{other}{PATH}/picture.png"'
            assert picture in text
            assert f"url={PATH}/calibrate?run={made[0]}" in text
