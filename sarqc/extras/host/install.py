"""The parts of a public host around the core's app."""

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.host.accounts import ACCOUNTS
from sarqc.extras.host.limits import RequestLimits
from sarqc.extras.host.metrics import PATH, Metrics, MetricsProbe
from sarqc.extras.host.openid import openid_router
from sarqc.extras.host.rates import rate_check
from sarqc.extras.host.retention import add_retention
from sarqc.extras.host.settings import HostSettings
from sarqc.web.profile import is_private


def install(app: FastAPI, host: Host) -> None:
    """Add accounts, limits, retention, metrics."""
    settings, identity, own = host.settings, host.identity, host.settings.of(HostSettings)
    if settings.access in ACCOUNTS:
        identity.accounts = ACCOUNTS[settings.access](settings, identity.throttle)
    app.add_middleware(RequestLimits, settings=own, crowds=host.crowds)
    app.include_router(openid_router(host))
    if not is_private(settings):
        host.checks.append(rate_check(own.requests_per_minute, host.crowds))
    metrics = Metrics(host.supervisor, add_retention(host.supervisor), settings)
    host.listeners.append(metrics.exchange)
    host.probes[PATH] = MetricsProbe(metrics, settings, own)
