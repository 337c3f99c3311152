"""The pages under their content security policy: nothing of theirs is held up, and what somebody puts in is."""

import re
from urllib.parse import urlsplit

import pytest

COLLECT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""
PAGES = {  # with what has come when all of a page is there
    "/?study=toy&layer=0": "[data-plot=lab-surfaces][data-drawn]",
    "/?study=mixture": "[data-plot=lab-surfaces][data-drawn]",
    "/calibrate": "[data-testid=start]:enabled",
    "/runs": "#content",
    "/learn": "#content",
}
OURS = re.compile(r"/(?:api/|assets/v-|calibrate$|runs$|learn$|$)")
OF_GRADIO = re.compile(r"/(?:assets/|static/|theme\.css$)")


@pytest.mark.thorough
@pytest.mark.parametrize("path", PAGES)
def test_a_page_breaks_no_rule_of_its_policy(open_page, path):
    page = open_page(path, script=COLLECT, reduced_motion="reduce")
    page.wait_for_selector(PAGES[path], state="attached")
    page.wait_for_timeout(1000)  # for what comes after that
    assert page.evaluate("violations") == []
    asked = {urlsplit(url).path for url in page.watch.requests if url.startswith("http")}
    others = {one for one in asked if not OURS.match(one)}
    assert any(one.startswith("/assets/index-") for one in others)
    assert [one for one in others if not OF_GRADIO.match(one)] == []  # the gate lets no other through


def test_a_script_that_somebody_puts_in_does_not_run(open_page):
    page = open_page("/runs", script=COLLECT)
    page.wait_for_selector("#content")
    page.watch.expected.append("Content Security Policy")
    page.evaluate("""() => {
      window.ran = [];
      const script = document.createElement("script");
      script.textContent = "ran.push('script')";
      document.body.append(script);
      const place = document.createElement("div");
      document.body.append(place);
      place.innerHTML = '<img src="data:," onerror="ran.push(1)"><a href="javascript:ran.push(2)">x</a>';
      place.querySelector("a").click();
      const foreign = document.createElement("script");
      foreign.src = "data:text/javascript,ran.push(3)";
      document.body.append(foreign);
    }""")
    page.wait_for_function("violations.length >= 4")
    assert page.evaluate("ran") == []
