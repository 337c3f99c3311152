"""A published site against the app: every answer that its files give is the app's own, and it names no other host."""

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.errors import NotFound, Refused
from sarqc.extras.publish.site_documents import missing_for_tour
from sarqc.extras.publish.sites import MARK, TOUR, check_output, detail_named, open_studies, plan_site, write_site
from sarqc.extras.publish.slices import contents, pieces
from sarqc.files.hashes import sha256_of
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.kept_codes import FILE, FOLDER, MODEL_FILES, kept_codes
from sarqc.web.link_preview import SITE
from tests.documents import Document
from tests.extras.publish.sites import LAYER, host_of_two, keep_codes
from tests.js.node import NODE

SCRIPT = Path(__file__).parent / "answers.mjs"
CARDS = (
    "hero", "plane", "gamma_grid", "deciles", "gap", "theorem", "methods", "inspector", "ruler", "map",
    "ladder",
)  # fmt: skip
ORDER = "refine,lambda,order,range"
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/XML/1998/namespace"}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return host_of_two(tmp_path_factory.mktemp("host"))


@pytest.fixture(scope="module")
def studies(host: Settings) -> dict[str, Study]:
    return open_studies(["small", "steps"], host)


@pytest.fixture(scope="module")
def site(host: Settings, studies: dict[str, Study], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites") / "site"
    write_site(studies, folder, host)
    return folder


@pytest.fixture(scope="module")
def app(host: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(host, with_pages=False), base_url="http://127.0.0.1") as client:
        yield client


def joined(site: Path, asked: list[dict[str, Any]]) -> list[Any]:
    """What the browser's half answers."""
    lines = "\n".join(map(json.dumps, asked))
    result = subprocess.run(
        [NODE, SCRIPT, site], input=lines, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return [json.loads(one) for one in result.stdout.splitlines()]


def addresses(name: str, study: Study) -> Iterator[str]:
    """Every view and table that the files hold, each with some of the choices that are joined to it."""
    for piece in pieces(contents(study)):
        if piece.kind != "view":
            continue
        own = study.lines[piece.number]
        shown = {"method": own.name, "bits": own.bits}
        shown |= {key: value for key, value in (("layer", piece.layer), ("draw", piece.draw)) if value is not None}
        together = {"layer": "all"} if piece.layer is None else {} if piece.draw is not None else {"draw": "all"}
        for more in (
            {}, {"quantity": "recon", "steps": ORDER}, {"quantity": "drift"},
            {"quantity": "held_out", "steps": "order,range,lambda,refine", **together},
        ):  # fmt: skip
            yield f"/studies/{name}/view?{urlencode(shown | more)}"
        for card in CARDS:
            steps = {"steps": ORDER} if card == "ladder" and name == "steps" else {}
            yield f"/studies/{name}/tables/{card}?{urlencode(shown | steps)}"
        yield f"/studies/{name}/tables/map?{urlencode(shown | {'offset': 2, 'limit': 3})}"
    for some in ({}, {"bits": 2}, {"method": "rqc-gbs"}, {"bits": 2, "scale": "ratio"}):
        yield f"/studies/{name}/view?{urlencode(some)}"


@pytest.mark.parametrize("name", ["small", pytest.param("steps", marks=pytest.mark.thorough)])
def test_every_answer_is_that_of_the_app(app, site, studies, name):
    paths = list(dict.fromkeys(addresses(name, studies[name])))
    answers = joined(site / name, [{"path": path} for path in paths])
    assert len(answers) == len(paths) > 80
    arrays = []
    for path, answer in zip(paths, answers, strict=True):
        response = app.get(f"/api{path}")
        assert response.status_code == 200, (path, response.text)
        assert answer["answer"] == response.json(), path
        assert answer["held"] in (None, True), path
        arrays += list(answer["answer"].get("arrays", {}).values())
    if name == "small":
        places = list({one["offset"]: one for one in arrays}.values())
        assert len(places) > 5
        whole = app.get(f"/api/studies/{name}/study.safetensors").content
        for place, text in zip(
            places, joined(site / name, [{"study": name, "array": one} for one in places]), strict=True
        ):
            assert base64.b64decode(text) == whole[place["offset"] : place["offset"] + place["length"]]


def test_the_studies_are_listed_and_the_one_of_the_folder_opens(app, site):
    listed = app.get("/api/studies").json()
    for name in ("small", "steps"):
        [one] = joined(site / name, [{"path": "/studies"}])
        by_id = {study["id"]: study for study in one["answer"]["studies"]}
        # Nobody has anything on a site of files, to share or remove it.
        assert by_id == {study["id"]: {**study, "is_mine": False} for study in listed["studies"]}
        assert one["answer"]["first"] == name
    [other] = joined(site / "small", [{"path": "/studies/steps/view?"}])
    assert other["answer"] == app.get("/api/studies/steps/view").json()


def test_what_was_not_written_is_not_there(app, site, studies):
    opening = "/studies/small/view?method=sarqc-gbs&bits=2"
    missing = [
        "/studies/small/view?method=rqc-gbs&bits=2&layer=1", "/studies/small/view?method=rqc-gbs&bits=2&draw=1",
        f"{opening}&layer=1&draw=1", f"{opening}&layer=99", f"{opening}&draw=7", "/studies/small/view?method=awq",
    ]  # fmt: skip
    for answer in joined(site / "small", [{"path": path} for path in missing]):
        assert answer == {"answer": None, "held": False}
    others = ("/visitor", "/models", "/studies/none/tables/map")
    assert [one["answer"] for one in joined(site / "small", [{"path": path} for path in others])] == [None] * 3
    assert "of “GPTQ + saliency penalty” at 2 bits" in contents(studies["small"])["remedy"]


def test_more_and_less_detail(studies):
    count = {
        detail: sum(piece.kind == "view" for piece in pieces(contents(studies["small"], detail)))
        for detail in ("none", "opening", "every")
    }
    assert count == {"none": 3, "opening": 3 + 4 + 2, "every": 3 * (1 + 4 + 2)}
    with pytest.raises(Refused, match="Give opening, every, none"):
        detail_named("all")


def files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every text among the files, unpacked."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".gz" and ".json" in path.suffixes:
            yield path, gzip.decompress(path.read_bytes()).decode()
        elif path.suffix in (".html", ".js", ".css", ".json"):
            yield path, path.read_text(encoding="utf-8")


def test_no_file_names_another_host(site):
    seen = list(files_below(site))
    assert len(seen) > 50
    for path, text in seen:
        found = set(re.findall(r"https?://[\w./-]+", text)) - NAMESPACES
        if "tables" in path.parts:  # a column of the ruler says where a default is documented
            found = {
                address for address in found if f'"sources":"{address}' not in text and address not in _sources(text)
            }
        assert found == set(), path
        assert "gradio_api" not in text


def _sources(text: str) -> set[str]:
    rows = json.loads(text)["ruler"]["rows"]
    return {address for row in rows for address in re.findall(r"https?://[\w./-]+", row["sources"] or "")}


def loaded(document: Document) -> list[str]:
    """Every address that a document loads or links."""
    return [
        given[name]
        for every in document.elements.values()
        for given in every
        for name in ("src", "href")
        if name in given
    ]


@pytest.mark.parametrize("place", ["", "small/", "steps/"])
def test_each_document_introduces_itself_and_loads_what_is_there(site, place):
    text = (site / place / "index.html").read_text(encoding="utf-8")
    document = Document(text)
    assert document.title.endswith(f" – {SITE}")
    for name in ("description", "og:title", "og:description", "og:image:alt"):
        assert document.said[name]
    assert (site / place / document.said["og:image"]).read_bytes().startswith(b"\x89PNG")
    local = [one for one in loaded(document) if not one.startswith(("#", "data:"))]
    assert len(local) > 2
    for address in local:
        assert not address.startswith("/")
        path = (site / place / address).resolve()
        assert path.is_relative_to(site.resolve())
        assert path.is_file() or (path / "index.html").is_file(), address


def test_the_document_says_its_sentence_before_any_script(site):
    text = (site / "small" / "index.html").read_text(encoding="utf-8")
    before = text[text.index('<div class="skeleton is-known"') : text.index("<gradio-app>")]
    words = re.sub(r"<[^>]*>", "", before)
    assert "perplexity" in words
    for absent in ("Calibrate", "Runs", "Learn", "Sign in", "Upload"):
        assert f">{absent}<" not in text


@pytest.mark.thorough
def test_an_absolute_address_is_said_to_previews_alone(host, studies, tmp_path):
    folder = tmp_path / "site"
    one = {"small": studies["small"]}
    write_site(one, folder, host, detail="none", address="https://lab.example/a/")
    root = Document((folder / "index.html").read_text(encoding="utf-8"))
    own = Document((folder / "small" / "index.html").read_text(encoding="utf-8"))
    assert root.said["og:image"] == own.said["og:image"] == "https://lab.example/a/picture.png"
    assert (root.said["og:url"], own.said["og:url"]) == ("https://lab.example/a/", "https://lab.example/a/small/")
    assert all("lab.example" not in address for address in loaded(root))
    # A single study opens at the root, from the same files.
    paths = ["/studies/small/view?", "/studies/small/tables/map?"]
    at_root, at_own = (joined(place, [{"path": path} for path in paths]) for place in (folder, folder / "small"))
    assert at_root == at_own
    assert at_root[0]["answer"]["study"]["id"] == "small"


def test_learn_is_written_where_its_studies_are(tmp_path):
    host, folder = host_of_two(tmp_path / "host", tour=True), tmp_path / "site"
    write_site(open_studies(["small"], host), folder, host, detail="none")
    text = (folder / "learn" / "index.html").read_text(encoding="utf-8")
    assert Document(text).said["og:image"] == "../picture.png"
    assert 'href="../"' in text
    assert not any(address.startswith("/") for address in loaded(Document(text)))
    assert f'<a href="../{TOUR}/">Learn</a>' in (folder / "small" / "index.html").read_text(encoding="utf-8")
    # The one layer that it shows has a view of its own, of the identity penalty.
    known = json.loads(gzip.decompress((folder / "small" / "contents.json.gz").read_bytes()))
    names = [layer.name for layer in open_studies(["small"], host)["small"].layers]
    assert [files["layers"] for files in known["choices"]].count([names.index(LAYER)]) == 1
    only = tmp_path / "other"
    write_site(open_studies(["steps"], host), only, host, detail="none")
    assert not (only / "learn").exists()
    assert (missing_for_tour(host, ["small"]), missing_for_tour(host, ["steps"])) == ([], ["small"])


def test_a_site_replaces_a_site_and_nothing_else(host, studies, tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match="not a site"):
        write_site({"small": studies["small"]}, folder, host, detail="none")
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (folder / "notes.txt").unlink()
    write_site({"small": studies["small"]}, folder, host, detail="none")
    (folder / "CNAME").write_text("lab.example")
    write_site({"steps": studies["steps"]}, folder, host, detail="none")
    assert (folder / "CNAME").read_text() == "lab.example"
    assert not (folder / "small").exists()
    listed = json.loads((folder / MARK).read_text())["files"]
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert set(listed) == there - {"CNAME"}
    (folder / MARK).write_text(json.dumps({"files": ["../outside"]}))
    with pytest.raises(Refused, match="not a site"):
        check_output(folder)


def test_no_link_leads_out_of_a_site(host, studies, tmp_path):
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("mine")
    site.mkdir()
    (site / "up").symlink_to(elsewhere)
    (site / MARK).write_text(json.dumps({"files": ["up/secret.txt"]}))
    write = partial(write_site, {"small": studies["small"]}, settings=host, detail="none")
    with pytest.raises(Refused, match="up in the folder is a link"):
        write(site)
    assert (elsewhere / "secret.txt").read_text() == "mine"
    (site / "up").unlink()
    (site / MARK).write_text(json.dumps({"files": []}))
    (site / "small").symlink_to(elsewhere)  # where the new site has files
    with pytest.raises(Refused, match="small in the folder is a link"):
        write(site)
    assert [path.name for path in elsewhere.iterdir()] == ["secret.txt"]


def test_no_file_from_elsewhere_is_published(tmp_path):
    host = host_of_two(tmp_path / "host")
    folder = host.assets_dir / "studies" / "small"
    keep_codes(folder)
    kept = kept_codes(Study.open(folder))
    assert kept is not None
    path = folder / FOLDER / kept["points"][0]["file"]["name"]
    path.rename(tmp_path / "secret")
    path.symlink_to(tmp_path / "secret")
    site = tmp_path / "site"
    with pytest.raises(Refused, match="damaged"):
        write_site(open_studies(["small"], host), site, host, detail="none")
    assert not site.exists()


def test_studies_are_named_by_folder_or_id(host, tmp_path):
    folder = host.assets_dir / "studies" / "small"
    assert list(open_studies([str(folder)], host)) == list(open_studies(["small"], host)) == ["small"]
    with pytest.raises(Refused, match="another folder of the site"):
        open_studies([str(folder), "small"], host)
    for name in ("nowhere", str(tmp_path / "nowhere")):
        with pytest.raises(NotFound):
            open_studies([name], host)


def test_the_size_is_said_before(studies):
    plan = plan_site(studies["small"], "opening")
    assert plan.views == 9
    assert re.fullmatch(r"9 views, about [\d.]+ [KM]iB; [\d.]+ [KM]iB to download", plan.words)


@pytest.mark.thorough
def test_the_model_of_a_study_travels_with_it(tmp_path):
    host = host_of_two(tmp_path / "host")
    folder = host.assets_dir / "studies" / "small" / FOLDER
    folder.mkdir()
    (folder / "codes.safetensors").write_bytes(b"codes")

    def entry(path: Path) -> dict[str, Any]:
        return {"name": path.name, "bytes": path.stat().st_size, "version": sha256_of(path)[:16]}

    shipped = [entry(host.assets_dir / "models" / "tiny-llama" / name) for name in MODEL_FILES]
    point = {
        "method": "sarqc-gbs", "bits": 2, "gamma": 0.1, "lam": 0.1, "file": entry(folder / "codes.safetensors")
    }  # fmt: skip
    kept = {"model": "tiny-llama", "draw": 0, "files": shipped, "points": [point]}
    (folder / FILE).write_text(json.dumps(kept))
    studies = open_studies(["small"], host)
    assert plan_site(studies["small"], "none").words.endswith("11.3 MiB to run its model in the page")
    site = tmp_path / "site"
    write_site(studies, site, host, detail="none")
    for file in [*shipped, point["file"]]:
        assert sha256_of(site / "small" / "model" / file["name"])[:16] == file["version"]
    assert list(site.glob("assets/v-*/model_worker.js"))
    [answer] = joined(site / "small", [{"path": "/studies/small/view?"}])
    assert answer["answer"]["study"]["kept"] == kept
    with TestClient(create_app(host, with_pages=False), base_url="http://127.0.0.1") as client:
        assert client.get("/api/studies/small/view").json()["study"]["kept"] == kept
        for file in [*shipped, point["file"]]:
            address = f"/api/studies/small/model/{file['name']}"
            current = client.get(f"{address}?v={file['version']}")
            assert len(current.content) == file["bytes"]
            assert "immutable" in current.headers["cache-control"]
            assert client.get(f"{address}?v=0").headers["cache-control"] == "no-cache"
        for name in ("sarqc.json", "codes.json", "..%2Fstudy.json"):
            assert client.get(f"/api/studies/small/model/{name}").status_code == 404
        assert client.get("/api/studies/steps/model/config.json").status_code == 404
    (folder / FILE).write_text(json.dumps(kept | {"model": "../../.."}))
    with pytest.raises(Refused, match="damaged"):
        kept_codes(Study.open(folder.parent))
