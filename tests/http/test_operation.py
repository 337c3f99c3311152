"""What an operator reads of a host: probes, metrics, the access log, the audit log."""

import json

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from typer.testing import CliRunner

from app import create_app
from sarqc.__main__ import app as commands
from sarqc.errors import Refused
from sarqc.files.places import MARK, place_at
from sarqc.jobs.run import State
from tests.http.conftest import TOKEN, assert_error, finished, opened, run_of, submit
from tests.jobs.conftest import settings_in, until, until_state


def samples(answer: httpx.Response) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    assert answer.status_code == 200, answer.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_alive_is_not_ready(settings, monkeypatch):
    """What is wrong is named, without a path of this host; the process answers all the same."""
    monkeypatch.setattr("sarqc.extras.host.probes.SECONDS", 0.0)
    with opened(settings) as client:
        ready = client.get("/readyz")
        assert (ready.status_code, set(ready.json()["checks"].values())) == (200, {"ok"})
        assert client.head("/readyz").status_code == 200
        supervisor = client.app.state.supervisor
        with monkeypatch.context() as patch:
            patch.setattr("sarqc.jobs.supervisor.FULL_BYTES", 1 << 60)
            assert client.get("/readyz").json()["checks"]["disk"] == "the disk with the state folder is full"
        with monkeypatch.context() as patch:
            patch.setattr("sarqc.jobs.supervisor.STALLED_SECONDS", 0.0)
            assert "restart" in client.get("/readyz").json()["checks"]["supervisor"]
        with supervisor.store.transaction():  # somebody writes for longer than anybody waits
            monkeypatch.setattr("sarqc.jobs.database.BUSY_SECONDS", 0.05)
            answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"status": "trouble", "checks": {
            "store": "the database of runs can't be written", "supervisor": "ok", "disk": "ok",
        }}  # fmt: skip
        assert client.get("/healthz").json() == {"status": "ok"}
        assert client.get("/readyz").status_code == 200


def test_object_storage_that_is_lost_is_named(tmp_path, object_storage, monkeypatch):
    monkeypatch.setattr("sarqc.extras.host.probes.SECONDS", 0.0)
    settings = settings_in(tmp_path, storage=object_storage)
    with opened(settings) as client:
        assert client.get("/readyz").json()["checks"]["storage"] == "ok"
        place_at(object_storage).remove(MARK)
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.json()["checks"]["storage"] == "the object storage does not answer as it should"
    with pytest.raises(Refused) as caught:
        create_app(settings_in(tmp_path, storage="s3://no-such-bucket"), with_pages=False)
    assert caught.value.where == "SARQC_STORAGE"


def test_probes_need_no_login_and_no_host_name(tmp_path):
    with opened(settings_in(tmp_path, access="token", access_token=TOKEN, hosts="demo.example")) as client:
        for path in ("/healthz", "/readyz"):
            assert client.get(path, headers={"Host": "10.0.0.7"}).status_code == 200
        assert client.post("/readyz").status_code in (401, 405, 421)


def test_readiness_is_looked_at_now_and_then(settings, monkeypatch):
    with opened(settings) as client:
        asked = []
        monkeypatch.setattr(client.app.state.supervisor.store, "check_writable", lambda: asked.append(1))
        for _ in range(20):
            assert client.get("/readyz").status_code == 200
        assert len(asked) == 1


@pytest.mark.thorough
def test_metrics_count_runs_and_requests(settings):
    with opened(settings.model_copy(update={"metrics": "token", "metrics_token": SecretStr(TOKEN)})) as client:
        run_id = submit(client, 3)["id"]
        until_state(client.app.state.supervisor.store, run_id, State.FINISHED)  # without a request
        for path in (f"/api/runs/{run_id}", "/api/runs/nobody", "/api/no/such", "/no/such", "/api/health"):
            client.get(path)
        found = samples(client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}))
        assert found["sarqc_runs", (("kind", "run"), ("state", "finished"))] == 1
        assert found["sarqc_queue_runs", (("lane", "batch"),)] == 0
        routes = {dict(labels)["route"] for name, labels in found if name == "sarqc_http_requests_total"}
        assert routes == {"/api/runs", "/api/runs/{run_id}", "/api/{path}", "/api/health", "other"}
        route = ("route", "/api/runs/{run_id}")
        assert found["sarqc_http_requests_total", (("method", "GET"), route, ("status", "404"))] == 1
        assert found["sarqc_http_request_seconds_count", (route,)] == 2
        assert found["sarqc_disk_bytes", (("folder", "studies"),)] > 0
        busy = [dict(labels)["device"] for name, labels in found if name == "sarqc_device_busy"]
        assert busy == ["cpu"]
        text = str(found)
        assert "local" not in text  # nobody's name
        assert run_id not in text


def test_metrics_are_off_for_whoever_may_not_read_them(settings):
    with opened(settings) as client:
        assert_error(client.get("/metrics"), 404, "not_found")
    secret = SecretStr(TOKEN)
    with opened(settings.model_copy(update={"metrics": "token", "metrics_token": secret})) as client:
        assert_error(client.get("/metrics"), 401, "not_signed_in")
        assert_error(client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN[:-1]}"}), 401, "not_signed_in")
    local = settings.model_copy(update={"metrics": "local"})
    with opened(local) as client:  # its address is “testclient”, which is not an address of this machine
        assert_error(client.get("/metrics"), 404, "not_found")
    with opened(local, client=("127.0.0.1", 5000)) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/metrics", headers={"Host": "evil.example"}).status_code == 404
        assert client.get("/metrics", headers={"X-Forwarded-For": "192.0.2.1"}).status_code == 404
    short = settings.model_copy(update={"metrics": "token", "metrics_token": SecretStr("short")})
    with pytest.raises(Refused, match="SARQC_METRICS_TOKEN"):
        create_app(short, with_pages=False)


@pytest.mark.thorough
def test_a_stream_counts_while_it_is_open(serve, monkeypatch):
    monkeypatch.setenv("SARQC_METRICS", "local")
    app = serve("long_layer")
    run_id = submit(app.http)["id"]
    until(lambda: run_of(app.http, run_id)["state"] == "running")

    def value(metric, **labels):
        return samples(app.http.get("/metrics"))[metric, tuple(sorted(labels.items()))]

    with app.http.stream("GET", f"/api/runs/{run_id}/events") as stream:
        lines = stream.iter_lines()  # closes the stream when nobody holds it
        next(lines)
        until(lambda: value("sarqc_streams_open") == 1)
        (device,) = app.http.get("/api/health").json()["devices"]
        assert value("sarqc_device_busy", device="cpu", name=device["name"]) == 1
    until(lambda: value("sarqc_streams_open") == 0)


@pytest.mark.thorough
def test_the_access_log_says_who_and_what_and_no_secret(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("SARQC_LOG_FORMAT", "json")
    for name, value in {"ACCESS": "token", "ACCESS_TOKEN": TOKEN, "HOSTS": "127.0.0.1"}.items():
        monkeypatch.setenv(f"SARQC_{name}", value)
    app = serve("quick")
    secret = "kQ3nR8sT1uV6wX9yZ0aB2cD4eF7g"
    signed_in = {"Authorization": f"Bearer {TOKEN}"}
    app.http.get("/api/runs?filter=abc&token=" + secret, headers=signed_in)
    app.http.get(f"/share/{secret}?token={secret}")
    app.http.get("/api/%0a2026-01-01 forged", headers={**signed_in, "Cookie": f"sarqc_visitor={secret}"})
    app.http.get("/healthz")
    app.end(15)
    text = (tmp_path / "app.log").read_text()
    assert secret not in text
    assert TOKEN not in text
    entries = [json.loads(line) for line in text.splitlines()]
    asked = [entry for entry in entries if entry["logger"] == "sarqc.access"]
    runs = next(entry for entry in asked if entry["path"] == "/api/runs")
    assert (runs["status"], runs["method"], runs["address"]) == (200, "GET", "127.0.0.1")
    assert runs["owner"].startswith("token-")
    assert runs["bytes"] > 10
    assert runs["milliseconds"] > 0
    assert [entry["status"] for entry in asked if entry["path"] == "/share/…"] == [404]
    assert [entry["path"] for entry in asked if "forged" in entry["path"]] == ["/api/%0A2026-01-01%20forged"]
    assert all(entry["path"] != "/healthz" for entry in asked)


@pytest.mark.thorough
def test_the_audit_log_outlives_what_it_is_about_and_is_only_added_to(settings, monkeypatch):
    with opened(settings) as client:
        run_id = finished(client, submit(client)["id"])["id"]
        assert client.delete(f"/api/runs/{run_id}").status_code == 204
        with pytest.raises(Exception, match="append-only"), client.app.state.supervisor.store.transaction() as rows:
            rows.execute("DELETE FROM audit")
        monkeypatch.setenv("SARQC_STATE_DIR", str(settings.state_dir))
        said = CliRunner().invoke(commands, ["audit", "--json"])  # while the app has the database open
    (entry,) = map(json.loads, said.stdout.splitlines())
    told = {name: entry[name] for name in ("by", "action", "kind", "id", "owner")}
    assert told == {"by": "local", "action": "delete", "kind": "run", "id": run_id, "owner": "local"}
