"""The parts of a public host around the core's app."""

from __future__ import annotations

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.host.accounts import ACCOUNTS
from sarqc.extras.host.limits import RequestLimits
from sarqc.extras.host.metrics import PATH, Metrics, MetricsProbe
from sarqc.extras.host.openid import openid_router
from sarqc.extras.host.rates import RateLimits
from sarqc.extras.host.settings import HostSettings


def install(app: FastAPI, host: Host) -> None:
    """Add them."""
    settings, identity = host.settings, host.identity
    if settings.access in ACCOUNTS:
        identity.accounts = ACCOUNTS[settings.access](settings, identity.throttle)
    app.add_middleware(RequestLimits, settings=settings.of(HostSettings), crowds=host.crowds)
    app.include_router(openid_router(host))
    host.checks.append(RateLimits(settings, host.crowds).check)
    metrics = Metrics(host.supervisor, settings)
    host.listeners.append(metrics.exchange)
    host.probes[PATH] = MetricsProbe(metrics, settings)
