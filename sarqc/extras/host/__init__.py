"""A host for other people: accounts and sign-in, limits by address, metrics, and commands of its operator."""

from sarqc.extras import Extra, lazily
from sarqc.extras.host.settings import HostSettings, check

EXTRA = Extra(
    "host",
    requires=("authlib", "limits", "prometheus_client"),
    settings=HostSettings,
    check=check,
    commands=lazily("sarqc.extras.host.commands:add_commands"),
    install=lazily("sarqc.extras.host.install:install"),
    server=lazily("sarqc.extras.host.limits:server_limits"),
)
