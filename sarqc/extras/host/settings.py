"""Settings of a host for other people, beside those of the core."""

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings

from sarqc.errors import Refused
from sarqc.extras.host.users import read_users
from sarqc.settings import FROM_THE_ENVIRONMENT, Settings
from sarqc.web.profile import SHORTEST_TOKEN, is_short, missing_setting


class HostSettings(BaseSettings):
    """Accounts, limits, retention and metrics."""

    model_config = FROM_THE_ENVIRONMENT

    users_file: Path | None = Field(
        None, description="With SARQC_ACCESS=users: the file that python -m sarqc user writes."
    )
    proxy_header: str = Field("", description="With SARQC_ACCESS=proxy: the header with the name of the person.")
    operators: str = Field(
        "", description="With SARQC_ACCESS=proxy or huggingface: names that may see and end everything."
    )
    oauth_client_id: str = Field(
        "",
        validation_alias=AliasChoices("SARQC_OAUTH_CLIENT_ID", "OAUTH_CLIENT_ID"),
        description="With SARQC_ACCESS=huggingface: the app's id there. A Space sets OAUTH_CLIENT_ID by itself.",
    )
    oauth_client_secret: SecretStr | None = Field(
        None,
        validation_alias=AliasChoices("SARQC_OAUTH_CLIENT_SECRET", "OAUTH_CLIENT_SECRET"),
        description="The secret that goes with it.",
    )
    openid_provider_url: str = Field(
        "https://huggingface.co",
        validation_alias=AliasChoices("SARQC_OPENID_PROVIDER_URL", "OPENID_PROVIDER_URL"),
        description="Where people sign in with SARQC_ACCESS=huggingface.",
    )
    max_connections: int = Field(2000, ge=16, description="Connections at once, as far as the host has files for them.")
    max_connections_per_address: int = Field(
        256,
        ge=8,
        description="Connections, without streams to phones, and requests at once of an address, such as a proxy.",
    )
    max_streams_per_address: int = Field(
        200, ge=4, description="Streams of events that an address may have open; a page has one or two."
    )
    requests_per_minute: int = Field(
        1200, ge=1, description="Requests from one address, where SARQC_ACCESS is not private."
    )
    keep_days: float | None = Field(
        None,
        gt=0,
        description="Days after which a run at rest is deleted with its events, study and exports, and uploaded "
        "studies and texts too, unless a share link leads to it; empty: never.",
    )
    keep_export_days: float | None = Field(
        None, gt=0, description="Days after which an export is deleted; empty: with its run."
    )
    keep_gib: float | None = Field(
        None,
        gt=0,
        description="Size of all that is kept here, in GiB. Beyond it the longest unused goes: finished layers and "
        "statistics, then exports, then runs; nothing that is shared or has a name, a note or tags. Empty: any.",
    )
    metrics: Literal["off", "local", "token"] = Field(
        "off",
        description="Who may read /metrics, for Prometheus: nobody; programs on this machine; who sends "
        "SARQC_METRICS_TOKEN as a bearer.",
    )
    metrics_token: SecretStr | None = Field(
        None, description="With SARQC_METRICS=token: the secret, 16 characters or more."
    )


def check(settings: Settings) -> None:
    """Raise ``Refused`` for a setting that the way of access or the metrics need and that is missing or wrong."""
    own = settings.of(HostSettings)
    if own.metrics == "token" and is_short(own.metrics_token):
        raise Refused(
            "the token of the metrics is missing or too short",
            "SARQC_METRICS_TOKEN",
            f"Set it to {SHORTEST_TOKEN} random characters or more.",
        )
    match settings.access:
        case "users" if own.users_file is None or not own.users_file.is_file():
            raise missing_setting(settings, "SARQC_USERS_FILE", "the file that python -m sarqc user writes")
        case "users" if own.users_file is not None:
            read_users(own.users_file)  # a wrong line is refused now
        case "proxy" if not (own.proxy_header and settings.proxy_addresses):
            remedy = "the header with the name of a person, and the addresses that may send it"
            raise missing_setting(settings, "SARQC_PROXY_HEADER, SARQC_PROXY_ADDRESSES", remedy)
        case "huggingface" if not (own.oauth_client_id and own.oauth_client_secret):
            remedy = "the app's id at Hugging Face, and SARQC_OAUTH_CLIENT_SECRET to its secret"
            raise missing_setting(settings, "SARQC_OAUTH_CLIENT_ID", remedy)
