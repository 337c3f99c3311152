"""A site for a static Space: its front matter as a YAML reader sees it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from sarqc.errors import Refused
from sarqc.extras.publish.sites import open_studies, write_site
from sarqc.extras.publish.space import SHORT, space_files
from sarqc.web.link_preview import SITE
from tests.extras.publish.sites import host_of_two

APP = Path(__file__).resolve().parents[3] / "deploy" / "space" / "README.md"
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}


def front_matter(text: str) -> dict[str, Any]:
    opening, front, _ = text.split("---\n", 2)
    assert not opening
    fields = yaml.safe_load(front)
    assert isinstance(fields, dict)
    return fields


@pytest.mark.thorough
def test_a_site_has_what_a_static_space_needs(tmp_path):
    host, site = host_of_two(tmp_path / "host"), tmp_path / "site"
    studies = open_studies(["steps"], host)
    write_site(studies, site, host, detail="none", space=True)
    fields = front_matter((site / "README.md").read_text(encoding="utf-8"))
    assert fields["sdk"] == "static"
    assert (site / fields["app_file"]).is_file()
    assert fields["title"] == studies["steps"].title
    assert {fields["colorFrom"], fields["colorTo"]} <= COLOURS
    # The same look as the Space of the app.
    app = front_matter(APP.read_text(encoding="utf-8"))
    for name in ("emoji", "colorFrom", "colorTo", "pinned", "short_description"):
        assert fields[name] == app[name]
    # What is no text goes through LFS.
    apart = [line.split()[0] for line in (site / ".gitattributes").read_text().splitlines()]
    for path in (path for path in site.rglob("*") if path.is_file()):
        try:
            path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            assert any(path.match(pattern) for pattern in apart), path
    # The next site without it takes its files away, and a file of somebody else is never overwritten.
    write_site(studies, site, host, detail="none")
    assert not (site / "README.md").exists()
    (site / "README.md").write_text("mine", encoding="utf-8")
    with pytest.raises(Refused, match=r"README\.md"):
        write_site(studies, site, host, detail="none", space=True)
    assert (site / "README.md").read_text(encoding="utf-8") == "mine"


def test_any_title_is_one_value():
    for title in ('a: b # "c"', "---", "ε\nsdk: docker", "’ 📉"):
        fields = front_matter(space_files([title])["README.md"])
        assert (fields["title"], fields["sdk"]) == (title, "static")
    assert front_matter(space_files(["a", "b"])["README.md"])["title"] == "sarqc"


def test_a_card_is_short():
    text = space_files(["a"])["README.md"]
    assert front_matter(text)["short_description"] == SHORT
    assert f"The Lab of {SITE}, with these studies:\n\n- a\n" in text
    assert len(SHORT) <= 60
