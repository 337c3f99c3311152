"""Every way to be turned down has the same shape, says where, and gives nothing away."""

import pytest
from fastapi import FastAPI

from sarqc.jobs import database
from tests.http.conftest import assert_error, finished, opened, submit, write_study
from tests.jobs.fake_runs import recipe
from tests.jobs.test_database import write_lock

JSON = {"Content-Type": "application/json"}
UNKNOWN = "01M7WCKDAQX082AB2P2GYK66GK"


@pytest.mark.parametrize("name", ["samples", "lambda"])  # ``test_every_number_has_a_bound`` has all
def test_numbers_without_measure_are_refused_in_words(client, name):
    for digits in (308, 4299):
        least = '{"model": "tiny-llama", "calibration": "tiny-llama-calibration", "method": "signround"'
        body = f'{least}, "{name}": 1{"0" * digits}}}'
        for path in ("/api/plan", "/api/runs"):
            assert_error(client.post(path, content=body, headers=JSON), 422, "refused")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "path", "status", "kind", "what"),
    [
        ("GET", "/api/nothing", 404, "not_found", "no such route"),
        ("PUT", "/api/runs", 404, "not_found", "no such route"),
        ("GET", f"/api/runs/{UNKNOWN}", 404, "not_found", "no run"),
        ("POST", f"/api/runs/{UNKNOWN}/cancel", 404, "not_found", "no run"),
        ("GET", f"/api/runs/{UNKNOWN}/events", 404, "not_found", "no run"),
        ("GET", "/api/runs?limit=0", 422, "refused", "limit"),
        ("GET", f"/api/runs/{UNKNOWN}/events?after={2**63}", 422, "refused", "after"),
        ("GET", f"/api/events?after={10**30}", 422, "refused", "after"),
        ("GET", "/api/studies/unknown", 404, "not_found", "no study"),
        ("GET", "/api/studies/unknown/download", 404, "not_found", "no study"),
        ("GET", "/api/compare", 422, "refused", "ids"),
        ("GET", "/api/compare?ids=one", 422, "refused", "1 studies"),
        ("GET", "/api/compare?ids=one,two", 404, "not_found", "no study"),
        ("GET", f"/static/{'x' * 300}", 404, "not_found", "no such route"),
        ("GET", f"/assets/{'쫯' * 100}.js", 404, "not_found", "no such route"),
        ("TRACE", "/api/runs", 405, "refused", "method not allowed"),
        ("PROPFIND", f"/api/runs/{UNKNOWN}", 405, "refused", "method not allowed"),
        ("PUT", "/sign-in", 405, "refused", "method not allowed"),
        ("GET", "/nothing", 404, "refused", "not found"),
        ("GET", "/api/runs/a%0Ab", 404, "not_found", "no run"),
        ("GET", "/assets/js/%00", 404, "refused", "not found"),
        ("GET", "/assets/v-x/css/" + "x" * 8000, 404, "not_found", "no such route"),
        ("GET", "/assets/js/..%2F..%2Fapp.py", 404, "refused", "not found"),
    ],
)
def test_requests_that_lead_nowhere(client, method, path, status, kind, what):
    error = assert_error(client.request(method, path), status, kind)
    assert what in error["what"]
    assert list(error) == ["kind", "what", "where", "remedy"]


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/api/plan", "/api/runs"])
@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "body"),
        (b"{bits", "not JSON"),
        (b"[1, 2]", "dictionary"),
        (b"{}", "missing"),
        (b'{"model": "m", "calibration": "c", "lambda": NaN}', "lambda"),
        (b'{"model": "m", "calibration": "c", "\\ud800": []}', " is "),
        (b'{"model": "m", "calibration": "c", "\\ud800": {}}', " is "),
    ],
)
def test_recipes_that_are_none(client, path, body, what):
    error = assert_error(client.post(path, content=body, headers=JSON), 422, "refused")
    assert what in error["what"]
    assert error["remedy"]


def test_a_recipe_must_come_as_json(client):
    """A plain form, which any site may make a browser send, is not read as JSON."""
    answer = client.post("/api/runs", content=recipe().model_dump_json(), headers={"Content-Type": "text/plain"})
    assert "application/json" in assert_error(answer, 422, "refused")["remedy"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
    ],
)
def test_other_sites_change_nothing(client, headers):
    assert_error(client.post("/api/runs", json=recipe().to_json(), headers=headers), 403, "forbidden")
    assert_error(client.delete(f"/api/runs/{UNKNOWN}", headers=headers), 403, "forbidden")
    assert client.get("/api/health", headers=headers).is_success
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://testserver"}
    assert client.post("/api/plan", json=recipe().to_json(), headers=own).is_success


def test_what_the_plan_refuses_is_not_queued(client):
    error = assert_error(client.post("/api/runs", json=recipe(99).to_json()), 422, "refused")
    assert error["what"] == "99 layers are too many"
    assert client.get("/api/runs").json()["runs"] == []


def test_a_bug_gives_nothing_away(client, caplog):
    answer = client.post("/api/plan", json=recipe(98).to_json())
    assert_error(answer, 500, "error")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "secret detail" in caplog.text  # but the log has it


@pytest.mark.parametrize("chunked", [False, True])
def test_too_much(client, chunked):
    body = b'{"model": "' + b"x" * 100_000 + b'"}'
    answer = client.post("/api/runs", content=iter([body]) if chunked else body, headers=JSON)
    assert "65536 bytes" in assert_error(answer, 413, "refused")["what"]


def test_full_queue(client, settings, monkeypatch):
    supervisor = client.app.state.supervisor
    monkeypatch.setattr(supervisor, "settings", settings.model_copy(update={"max_queued": 1}))
    monkeypatch.setattr(supervisor, "_start_due", lambda: None)
    submit(client)
    assert_error(client.post("/api/runs", json=recipe().to_json()), 429, "refused")


def test_strange_lanes(client):
    assert_error(client.post("/api/runs?lane=express", json=recipe().to_json()), 422, "refused")


@pytest.mark.thorough
def test_wrong_state(client):
    run_id = finished(client, submit(client)["id"])["id"]
    for path in ("cancel", "continue"):
        error = assert_error(client.post(f"/api/runs/{run_id}/{path}"), 409, "conflict")
        assert "finished" in error["what"]
        assert error["remedy"]


def test_what_gradio_refuses_has_the_shape_too(settings):
    """Its parts are mounted: an app of its own within ours."""
    inner = FastAPI()
    inner.get("/breaks")(lambda: 1 / 0)
    with opened(settings) as client:
        client.app.mount("/inner", inner)
        for path, status in (("/inner/nothing", 404), ("/inner/breaks", 500)):
            answer = client.get(path)
            assert answer.status_code == status
            assert answer.json()["error"]["where"] == f"GET {path}"


@pytest.mark.thorough
@pytest.mark.parametrize(("wanted", "status"), [("bytes=5-2", 400), ("bytes=999999999-", 416), ("x", 400)])
def test_ranges_that_are_none(client, settings, wanted, status):
    write_study(settings.studies_dir(), "mine")
    answer = client.get("/api/studies/mine/study.safetensors", headers={"Range": wanted})
    assert_error(answer, status, "refused")
    assert ("content-range" in answer.headers) == (status == 416)


def test_a_locked_database_is_a_matter_of_moments(settings, monkeypatch):
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    with opened(settings) as client, write_lock(settings.database()):
        answer = client.post("/api/runs", json=recipe(1).to_json())
        assert "locked" in assert_error(answer, 503, "busy")["what"]
        assert int(answer.headers["retry-after"]) > 0
        assert client.get("/api/runs").json()["runs"] == []


@pytest.mark.parametrize("path", ["/", "/runs", "/api/runs", "/nothing"])
def test_an_address_has_an_end(client, path):
    assert client.get(f"{path}?x={'a' * 8000}").status_code != 414
    error = assert_error(client.get(f"{path}?x={'a' * 20_000}", headers={"Accept": "text/html"}), 414, "too_long")
    assert "8192 characters" in error["what"]


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/api/events", f"/api/runs/{UNKNOWN}/events"])
@pytest.mark.parametrize("number", ["-1", str(2**63), "1" * 40, "x"])
def test_no_number_of_a_listener_is_too_much_for_the_database(client, path, number):
    answer = client.get(path, headers={"Last-Event-ID": number})
    assert "last-event-id" in assert_error(answer, 422, "refused")["what"].lower()
