"""A study as a site to download: its size beforehand, the file, who may have it, and many who ask at once."""

import asyncio
import errno
import io
import json
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from fastapi.testclient import TestClient

from app import create_app
from sarqc.errors import Busy, Refused, TooLarge
from sarqc.extras.publish import site_archives
from sarqc.extras.publish.site_archives import BYTES_AT_MOST, VIEWS_AT_MOST, SiteArchives, check_size
from sarqc.extras.publish.sites import SitePlan, open_studies, plan_site, write_archive, write_site
from sarqc.files.limited import Exhausted
from sarqc.study.document import Study
from tests.event_loops import run_apart
from tests.extras.publish.sites import host_of_two
from tests.http.conftest import assert_error, write_study
from tests.jobs.conftest import settings_in

HOST = "http://demo.example"
OPEN_HOST = {"access": "open", "hosts": "demo.example"}


def test_the_size_is_said_before_and_to_those_who_may_run_alone(tmp_path):
    settings = host_of_two(tmp_path).model_copy(update={**OPEN_HOST, "strangers": "runner"})
    write_study(settings.studies_dir(), "theirs")
    with TestClient(create_app(settings, with_pages=False), base_url=HOST) as client:
        study = Study.open(settings.assets_dir / "studies" / "steps")
        plan = plan_site(study, "opening")
        answer = client.get("/api/studies/steps/site")
        assert answer.json() == {**vars(plan), "words": plan.words}
        alone = len(study.layers) + len(study.lines[0].draws)  # views of the line that it opens with
        assert plan.views == len(study.lines) + alone
        names = ("study.json", "study.safetensors")
        assert plan.file_bytes == sum((study.folder / name).stat().st_size for name in names)
        # A study of the operator is not there for others, and no more is one that there is not.
        for study in ("theirs", "nowhere", "..%2Fsteps"):
            for path in ("site", "site.zip"):
                assert client.get(f"/api/studies/{study}/{path}").status_code == 404, (study, path)
        assert not (settings.resolved_state_dir() / "sites").exists()


@pytest.mark.thorough
def test_a_viewer_makes_no_work(tmp_path):
    settings = settings_in(tmp_path, **OPEN_HOST, strangers="viewer")
    with TestClient(create_app(settings, with_pages=False), base_url=HOST) as client:
        for path in ("site", "site.zip"):
            assert client.get(f"/api/studies/any/{path}").status_code == 403


def test_a_large_site_is_for_the_command_line():
    check_size(SitePlan(VIEWS_AT_MOST, BYTES_AT_MOST - 1, 1))
    for plan in (SitePlan(VIEWS_AT_MOST + 1, 0, 0), SitePlan(1, BYTES_AT_MOST, 1)):
        with pytest.raises(TooLarge, match="at most") as error:
            check_size(plan)
        assert "--detail none" in error.value.remedy


class Client:
    """A request whose client leaves when it is told to."""

    def __init__(self):
        self.leaves = asyncio.Event()

    async def receive(self):
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def test_a_site_that_nobody_waits_for_is_given_up(tmp_path, monkeypatch):
    settings = host_of_two(tmp_path)
    began = []

    def made(_, request, *, unwanted, **limits):
        asked = json.loads(request)
        began.append(Path(asked["study"]).name)
        if began[-1] == "small":
            assert unwanted.wait(60)
            raise Exhausted("nobody waits for it")
        Path(asked["path"]).write_bytes(b"a site")
        return b""

    monkeypatch.setattr(site_archives, "answer_of", made)
    small, steps = (Study.open(settings.assets_dir / "studies" / name) for name in ("small", "steps"))

    async def play():
        archives, first, second = SiteArchives(settings), Client(), Client()
        waiting = [
            asyncio.create_task(archives.open(client, small, 1, SitePlan(1, 1, 1))) for client in (first, second)
        ]
        while not began:
            await asyncio.sleep(0.01)
        first.leaves.set()
        with pytest.raises(Busy):
            await waiting[0]
        third = asyncio.create_task(archives.open(Client(), steps, 1, SitePlan(1, 1, 1)))
        await asyncio.sleep(0.1)
        assert (began, waiting[1].done(), third.done()) == (["small"], False, False)
        second.leaves.set()
        with pytest.raises(Busy):
            await waiting[1]
        file, size = await third
        with file:
            assert (file.read(), size) == (b"a site", 6)

    run_apart(play())
    assert began == ["small", "steps"]
    [folder] = (settings.resolved_state_dir() / "sites").iterdir()
    assert [path.name for path in folder.iterdir()] == ["steps-site.zip"]


def test_room_is_asked_for_first(tmp_path, monkeypatch):
    settings = host_of_two(tmp_path).model_copy(update={**OPEN_HOST, "strangers": "runner"})
    with TestClient(create_app(settings, with_pages=False), base_url=HOST) as client:
        plan = client.get("/api/studies/steps/site").json()
        size = plan["view_bytes"] + plan["file_bytes"] + plan["model_bytes"]
        monkeypatch.setattr("sarqc.files.room.free_bytes", lambda _: 2 * size)
        assert "full" in assert_error(client.get("/api/studies/steps/site.zip"), 507, "refused")["what"]
        monkeypatch.undo()
        error = OSError(errno.EROFS, "Read-only file system")
        monkeypatch.setattr(site_archives, "tempfile", SimpleNamespace(mkdtemp=Mock(side_effect=error)))
        assert_error(client.get("/api/studies/steps/site.zip"), 503, "unwritable")


@pytest.mark.thorough
def test_twenty_clicks_make_one_site(tmp_path):
    settings = host_of_two(tmp_path / "host").model_copy(update={**OPEN_HOST, "strangers": "runner"})
    with TestClient(create_app(settings, with_pages=False), base_url=HOST) as client, ThreadPoolExecutor(20) as clicks:
        answers = list(clicks.map(lambda _: client.get("/api/studies/steps/site.zip"), range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        first = answers[0]
        assert first.headers["content-length"] == str(len(first.content))
        assert first.headers["content-disposition"] == 'attachment; filename="steps-site.zip"'
        [folder] = (settings.resolved_state_dir() / "sites").iterdir()
        assert [path.name for path in folder.iterdir()] == ["steps-site.zip"]
    # It is what the command writes.
    studies = open_studies(["steps"], settings)
    write = partial(write_site, studies, settings=settings)
    own = tmp_path / "steps-site.zip"
    assert write_archive(own, write) == len(first.content)
    assert own.read_bytes() == first.content
    with zipfile.ZipFile(io.BytesIO(first.content)) as archive:
        names = archive.namelist()
        assert {name.partition("/")[0] for name in names} == {"steps-site"}
        assert {"steps-site/index.html", "steps-site/site.json", "steps-site/steps/index.html"} <= set(names)
        assert re.match("<!doctype html>", archive.read("steps-site/index.html").decode())
    with pytest.raises(Refused, match="already"):
        write_archive(own, write)
