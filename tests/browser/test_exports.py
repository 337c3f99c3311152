"""The model of a finished run as files, and a study that comes as a file: what is saved is what is there."""

import tarfile
import urllib.request

import pytest

from tests.browser.conftest import SMALL_RUN

pytestmark = pytest.mark.thorough


def test_a_finished_run_is_saved_downloaded_and_its_files_deleted(app, small_run, open_page):
    app.json("/plan", SMALL_RUN)  # lets a worker start meanwhile
    page = open_page(f"/calibrate?run={small_run['id']}")
    page.wait_for_selector("[data-testid=files]")
    assert page.is_disabled("[data-testid=save-packed]")  # the run's grid is asymmetric
    assert "zero points" in page.text_content("[data-format=packed] .formats-note")
    page.click("[data-testid=save-as]")
    assert "dequantized weights" in page.inner_text("[data-testid=save-plain]")
    page.click("[data-testid=save-plain]")
    page.wait_for_selector("[data-testid=export-plain]")
    page.wait_for_selector("[data-testid=download-plain]", timeout=200_000)  # written and checked by a process
    with page.expect_download() as saved:
        page.click("[data-testid=download-plain]")
    assert saved.value.suggested_filename == "tiny-llama-2bit-rqc-gbs-plain.tar"
    with tarfile.open(saved.value.path()) as archive:
        assert "tiny-llama-2bit-rqc-gbs-plain/model.safetensors" in archive.getnames()
    (export,) = app.json(f"/runs/{small_run['id']}")["exports"]
    page.reload()  # it is found again
    page.click("[data-testid=delete-plain]")
    page.locator("[data-format=plain] [data-testid=delete-plain]").wait_for(state="detached")
    page.click("[data-testid=save-as]")
    page.wait_for_selector("[data-testid=save-plain]:enabled")
    assert app.json(f"/runs/{small_run['id']}")["exports"] == []
    assert export["id"] not in [run["id"] for run in app.json("/runs")["runs"]]


def test_a_study_is_opened_from_its_file_and_deleted(app, open_page, tmp_path):
    file = tmp_path / "toy.zip"
    with urllib.request.urlopen(f"{app.url}/api/studies/toy/download", timeout=30) as answer:
        file.write_bytes(answer.read())
    (tmp_path / "other.zip").write_bytes(file.read_bytes()[:200])
    page = open_page("/runs")
    page.watch.expected.append("422")
    page.wait_for_selector("[data-study=toy]")  # left by the command line, as far as the app can tell
    page.set_input_files("[data-testid=study-file]", tmp_path / "other.zip")
    page.wait_for_selector("[data-testid=problem]")
    assert page.locator("[data-testid=problem] p").count() == 3
    page.set_input_files("[data-testid=study-file]", file)
    page.wait_for_url("**/?study=toy-*")
    page.wait_for_function("document.querySelector('[data-testid=pick-study]')?.value.startsWith('toy-')")
    study_id = page.input_value("[data-testid=pick-study]")
    assert "opened from a file" in page.text_content(f"[data-testid=pick-study] option[value='{study_id}']")
    assert page.get_attribute("[data-testid=download]", "href") == f"/api/studies/{study_id}/download"
    page.goto(f"{app.url}/runs")
    page.click(f"[data-study='{study_id}'] [data-testid=study-delete]")
    page.click(f"[data-study='{study_id}'] [data-testid=study-delete-yes]")
    page.locator(f"[data-study='{study_id}']").wait_for(state="detached")
    assert study_id not in [one["id"] for one in app.json("/studies")["studies"]]
