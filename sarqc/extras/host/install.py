"""The parts of a public host around the core's app."""

from __future__ import annotations

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.host.metrics import PATH, Metrics, MetricsProbe
from sarqc.extras.host.rates import RateLimits


def install(app: FastAPI, host: Host) -> None:
    """Add them."""
    host.checks.append(RateLimits(host.settings, host.crowds).check)
    metrics = Metrics(host.supervisor, host.settings)
    host.listeners.append(metrics.exchange)
    host.probes[PATH] = MetricsProbe(metrics, host.settings)
