"""The parts of a public host around the core's app."""

from functools import partial

from fastapi import FastAPI

from sarqc.extras import Host
from sarqc.extras.host.accounts import ACCOUNTS
from sarqc.extras.host.exchanges import Exchanges, log_access
from sarqc.extras.host.limits import RequestLimits
from sarqc.extras.host.metrics import PATH, Metrics, MetricsProbe
from sarqc.extras.host.openid import openid_router
from sarqc.extras.host.probes import Probes, health_probes
from sarqc.extras.host.rates import rate_check
from sarqc.extras.host.retention import add_retention
from sarqc.extras.host.settings import HostSettings
from sarqc.web.profile import is_private


def install(app: FastAPI, host: Host) -> None:
    """Add accounts, limits, retention, health checks, the access log, metrics."""
    settings, identity, own = host.settings, host.identity, host.settings.of(HostSettings)
    if settings.access in ACCOUNTS:
        identity.accounts = ACCOUNTS[settings.access](settings, identity.throttle)
    app.add_middleware(RequestLimits, settings=own, crowds=host.crowds)
    app.include_router(openid_router(host))
    metrics = Metrics(host.supervisor, add_retention(host.supervisor))
    probes = health_probes(host.supervisor) | {PATH: MetricsProbe(metrics, settings, own)}
    listeners = [metrics.exchange]
    if not is_private(settings):
        host.checks.append(rate_check(own.requests_per_minute, host.crowds))
        listeners.append(log_access)
    host.around += [partial(Probes, probes=probes), partial(Exchanges, listeners=listeners, pages=host.pages)]
