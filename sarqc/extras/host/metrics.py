"""``/metrics``: numbers of the running app for Prometheus. No label names a person, a run or a requested path.

Counters of requests begin at zero with the process; present values (runs, the queue, devices,
the disk) are computed on reading.
"""

import hmac
import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import sarqc
from sarqc.errors import NotFound, NotSignedIn, SarqcError
from sarqc.extras.host.exchanges import Exchange
from sarqc.extras.host.retention import Retention
from sarqc.extras.host.settings import HostSettings
from sarqc.files.room import free_bytes
from sarqc.jobs.run import State
from sarqc.jobs.supervisor import Supervisor
from sarqc.settings import Settings
from sarqc.web.profile import host_is_ours, is_loopback
from sarqc.web.responses import error_response

PATH = "/metrics"
DISK_SECONDS = 60.0  # for which the sizes of folders are good: counting may take a second
KINDS = ("run", "tune", "ladder", "preview", "export")
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one app. It listens to requests (``exchange``)."""

    def __init__(self, supervisor: Supervisor, retention: Retention) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "sarqc_http_requests", "Requests that were answered.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "sarqc_http_request_seconds",
            "From a request to the end of its answer; streams are left out.",
            ["route"],
            buckets=REQUEST_SECONDS,
            registry=self.registry,
        )
        self.registry.register(_Standing(supervisor, retention))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def exchange(self, exchange: Exchange) -> None:
        """Count a request that was answered."""
        self._requests.labels(exchange.method, exchange.route, exchange.status).inc()
        if not exchange.is_stream:
            self._seconds.labels(exchange.route).observe(exchange.seconds)


class _Standing:
    """Gauges that are computed on reading: a collector of Prometheus's client."""

    def __init__(self, supervisor: Supervisor, retention: Retention) -> None:
        self._supervisor, self._retention = supervisor, retention
        self._sizes: tuple[float, dict[str, int]] | None = None

    def describe(self) -> list[Metric]:
        """Return nothing before it is read."""
        return []

    def collect(self) -> Iterator[Metric]:
        supervisor, store, now = self._supervisor, self._supervisor.store, time.time()
        yield InfoMetricFamily("sarqc_build", "Version of the app.", {"version": sarqc.__version__})
        yield GaugeMetricFamily(
            "sarqc_trouble", "1 while something keeps runs from going on.", float(supervisor.trouble is not None)
        )
        kinds, waiting = store.kinds(), store.waiting()
        runs = {(state.value, kind): kinds.get((state.value, kind), 0) for state in State for kind in KINDS}
        yield _gauge("sarqc_runs", "Runs in the store.", ["state", "kind"], runs)
        length = {(lane,): count for lane, (count, _) in waiting.items()}
        yield _gauge("sarqc_queue_runs", "Runs that wait for a device.", ["lane"], length)
        oldest = {(lane,): 0.0 if first is None else max(0.0, now - first) for lane, (_, first) in waiting.items()}
        yield _gauge("sarqc_queue_oldest_seconds", "How long the first of them has waited.", ["lane"], oldest)
        busy = {(device["id"], device["name"]): float(device["run"] is not None) for device in supervisor.devices()}
        yield _gauge("sarqc_device_busy", "1 for a device with a run on it.", ["device", "name"], busy)
        yield GaugeMetricFamily("sarqc_streams_open", "Streams of events that are open.", supervisor.bell.listeners())
        disk = {(folder,): size for folder, size in self._disk().items() if folder != "logs"}
        yield _gauge("sarqc_disk_bytes", "What the folders of the state folder take.", ["folder"], disk)
        free = free_bytes(supervisor.settings.resolved_state_dir())
        yield GaugeMetricFamily("sarqc_disk_free_bytes", "Room on the disk with the state folder.", free)

    def _disk(self) -> dict[str, int]:
        now = time.monotonic()
        if self._sizes is None or now - self._sizes[0] >= DISK_SECONDS:
            self._sizes = now, self._retention.sizes()
        return self._sizes[1]


def _gauge(name: str, about: str, labels: list[str], values: Mapping[tuple[Any, ...], float]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=labels)
    for labelled, value in values.items():
        family.add_metric(labelled, value)
    return family


class MetricsProbe:
    """Answers ``/metrics`` to anyone who may read it. A host that has it off answers as if there were no such path."""

    def __init__(self, metrics: Metrics, settings: Settings, own: HostSettings) -> None:
        self._metrics, self._settings, self._own = metrics, settings, own
        self._proxies = {part.strip() for part in settings.proxy_addresses.split(",")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if not self._may_read(scope, headers):
            error: SarqcError = NotFound("no such route", f"GET {PATH}", "SARQC_METRICS says who may read them.")
            if self._own.metrics == "token":
                remedy = "Send SARQC_METRICS_TOKEN as a bearer."
                error = NotSignedIn("the metrics need their token", f"GET {PATH}", remedy)
            await error_response(error)(scope, receive, send)
            return
        encode, media_type = choose_encoder(headers.get("accept", ""))
        body = await run_in_threadpool(encode, self._metrics.registry)
        await Response(body, media_type=media_type, headers={"Cache-Control": "no-store"})(scope, receive, send)

    def _may_read(self, scope: Scope, headers: Headers) -> bool:
        own = self._own
        if own.metrics == "token" and own.metrics_token is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            expected = own.metrics_token.get_secret_value()
            return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), expected.encode())
        if own.metrics == "local":
            # A proxy on this machine speaks for the whole world, and a page of another name for its site.
            peer = (scope.get("client") or ("", 0))[0]
            is_forwarded = any(name.startswith(("x-forwarded-", "forwarded")) for name in headers)
            is_here = is_loopback(peer) and peer not in self._proxies and not is_forwarded
            return is_here and host_is_ours(headers.get("host", ""), self._settings)
        return False
