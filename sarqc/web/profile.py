"""The two profiles of a host. Private: anyone on this machine may do everything. Public: all other settings.

A host that others can reach is public, and does not start before somebody has decided who may come in.
"""

import ipaddress

from pydantic import SecretStr

from sarqc.errors import Refused
from sarqc.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "::1")
SHORTEST_TOKEN = 16  # characters


def is_private(settings: Settings) -> bool:
    """Return whether only this machine is served."""
    return settings.access == "private"


def check_profile(settings: Settings) -> None:
    """Raise ``Refused`` with the setting that is missing where they do not say who may come in."""
    if is_private(settings):
        if not is_loopback(settings.host):
            raise Refused(
                f"other machines can reach {settings.host}, and access is not configured",
                "SARQC_ACCESS",
                "Set it to open, token, users, proxy or huggingface, or SARQC_HOST to 127.0.0.1.",
            )
    elif not settings.hosts.strip():
        raise Refused(
            "the host names are not set, so a page of another site could act in a user's name",
            "SARQC_HOSTS",
            "Set it to the names under which people reach the app, separated by commas; * means any.",
        )
    elif settings.access == "open" and settings.strangers == "none":
        raise missing_setting(settings, "SARQC_STRANGERS", "viewer or runner")
    elif settings.access == "token" and is_short(settings.access_token):
        raise missing_setting(settings, "SARQC_ACCESS_TOKEN", f"{SHORTEST_TOKEN} random characters or more")


def is_short(token: SecretStr | None) -> bool:
    """Return whether a token is missing or can be guessed."""
    return token is None or len(token.get_secret_value()) < SHORTEST_TOKEN


def missing_setting(settings: Settings, name: str, remedy: str) -> Refused:
    """Return the error of a setting that the chosen access requires."""
    return Refused(f"access is {settings.access}, and this setting is missing", name, f"Set it to {remedy}.")


def host_is_ours(header: str, settings: Settings) -> bool:
    """Return whether a Host header names this machine or a name that the operator gave."""
    name = host_name(header)
    ours = {part.strip().lower() for part in settings.hosts.split(",") if part.strip()}
    return name in LOOPBACK or name in ours or "*" in ours


def own_address(scheme: str, header: str, settings: Settings) -> str:
    """Return “https://demo.example:8000” from a Host header with a name that the operator gave or that means this
    machine; empty for any other, which only ``SARQC_HOSTS=*`` admits, unverified."""
    named = settings.model_copy(update={"hosts": settings.hosts.replace("*", "")})
    return f"{scheme}://{header.strip().lower()}" if host_is_ours(header, named) else ""


def host_name(authority: str) -> str:
    """Return a host without its port, in lower case, an IPv6 address without its brackets."""
    text = authority.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].removesuffix(".")


def is_loopback(host: str) -> bool:
    """Return whether a host or an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
