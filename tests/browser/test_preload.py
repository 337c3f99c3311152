"""The browser is told of what it will ask for, and of nothing else."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlparse

import pytest

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("path", ["/", "/calibrate", "/runs", "/learn"])
def test_a_page_announces_the_modules_that_it_then_asks_for(app: Any, open_page: Any, path: str) -> None:
    page = open_page("/api/health")
    with page.expect_response(app.url + path) as answer:
        page.goto(app.url + path, wait_until="networkidle")
    announced = set(re.findall(r"<([^>?]+)[^>]*>", answer.value.header_value("link")))
    asked = page.evaluate("performance.getEntriesByType('resource').map((one) => [one.name, one.initiatorType])")
    needed = {urlparse(url).path for url, kind in asked if kind != "early-hints"}
    own = {one for one in needed if re.match(r"/assets/(v-\w+/)?(js|css|vendor)/|/assets/plotly", one)}
    assert own == announced
