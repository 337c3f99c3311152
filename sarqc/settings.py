"""Settings from the environment, which nothing else reads. Each field is ``SARQC_<NAME>`` in upper case."""

from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from sarqc.errors import Refused

_PACKAGE = Path(__file__).resolve().parent
# Folder of app.py, pages/ and assets/: inside an installed package, beside it in a checkout.
SITE = _PACKAGE / "site" if (_PACKAGE / "site").is_dir() else _PACKAGE.parent

FROM_THE_ENVIRONMENT = SettingsConfigDict(env_prefix="SARQC_", frozen=True, extra="ignore", validate_by_name=True)
SettingsOfSomeKind = TypeVar("SettingsOfSomeKind", bound=BaseSettings)


class Settings(BaseSettings):
    """Decisions of the host, as opposed to those of a recipe. Nothing is created on disk by reading them.

    Extras have settings of their own: see ``of``.
    """

    # Values that code gives for settings of extras are kept for these.
    model_config = SettingsConfigDict(**{**FROM_THE_ENVIRONMENT, "extra": "allow"})

    host: str = Field("127.0.0.1", description="Address that the web server listens on.")
    access: Literal["private", "open", "token", "users", "proxy", "huggingface"] = Field(
        "private",
        description="Who has access. private: users of this machine only; open: everyone, with the rights of "
        "SARQC_STRANGERS; token: anyone with SARQC_ACCESS_TOKEN; users: those in SARQC_USERS_FILE; proxy: users named "
        "by a reverse proxy in SARQC_PROXY_HEADER; huggingface: users signed in there. See docs/operate.md.",
    )
    hosts: str = Field(
        "",
        description="Host names under which the app is reached, separated by commas; * for any. Needed where "
        "SARQC_ACCESS is not private; the names of this machine are always right.",
    )
    strangers: Literal["none", "viewer", "runner"] = Field(
        "none", description="What people may do who have not signed in, where SARQC_ACCESS is not private."
    )
    access_token: SecretStr | None = Field(
        None, description="With SARQC_ACCESS=token: the secret that makes a runner; 16 characters or more."
    )
    proxy_addresses: str = Field(
        "",
        description="Addresses of the reverse proxy, separated by commas: from there alone the header and "
        "X-Forwarded-For are believed.",
    )
    port: int = Field(7860, ge=0, le=65535, description="Port of the web server.")
    root_path: str = Field(
        "",
        pattern=r"^((/[A-Za-z0-9._~-]+)+/?|/?)$",
        description="Path below which a reverse proxy shows the app, such as /sarqc; empty: at the root of its host "
        "name. The proxy may hand the path on or take it off.",
    )
    state_dir: Path = Field(
        Path("~/.local/share/sarqc"), description="Database of runs, finished layers and studies of this host."
    )
    assets_dir: Path = Field(SITE / "assets", description="Embedded models and studies, styles and scripts.")
    pretrained_dir: Path = Field(
        SITE / "build" / "pretrained", description="Pretrained models that every host is given when it is installed."
    )
    data_dir: Path | None = Field(
        None, description="Mirror of the Hub for an air-gapped host, laid out as <dataset id>/<config>/<split>."
    )
    model_dirs: str = Field(
        "",
        description="Folders whose sub-folders and GGUF files are offered as local models, separated by ':'.",
    )
    text_dirs: str = Field(
        "", description="Folders whose files of text or rows are offered as texts, separated by ':'."
    )
    hub_models: str = Field(
        "",
        description="Where SARQC_ACCESS is not private: models of the Hub that may be asked for, as owner/name@commit, "
        "separated by commas; * for any.",
    )
    device: str = Field(
        "auto",
        pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$",
        description="auto, cpu, cuda or cuda:N; auto takes CUDA where there is one.",
    )
    span: int = Field(
        1,
        ge=1,
        le=64,
        description="Devices on which the linears of one run are solved at once: GPUs that follow each other, or "
        "processes where it computes on the CPU. Each GPU more is one less for other runs.",
    )
    storage: str = Field(
        "",
        description="Folder of finished layers, measurements, studies, exports and uploaded texts; or object storage "
        "for the first two, as s3://bucket/prefix; empty: the state folder.",
    )
    weights: Literal["auto", "resident", "streamed"] = Field(
        "auto",
        description="Keep all weights on the device, or those of one block at a time; auto: as they fit.",
    )
    memory_gib: float | None = Field(
        None, gt=0, description="Memory that a run may take on the device, in GiB; empty: what is free."
    )
    hub_timeout: float = Field(8.0, gt=0, description="Seconds to wait for the Hub before saying that it is away.")
    text_mib: float = Field(64.0, gt=0, description="Largest text file that a recipe may name, in MiB.")
    download_gib: float = Field(200.0, gt=0, description="Largest model that is downloaded from the Hub, in GiB.")
    max_queued: int = Field(50, ge=1, description="Runs that may wait; one more is refused.")
    max_queued_each: int = Field(
        20, ge=1, description="Runs of one person that may wait, where SARQC_ACCESS is not private."
    )
    export_gib_each: float = Field(
        20.0, gt=0, description="Exports of one person, where SARQC_ACCESS is not private, in GiB."
    )
    text_uploads_each: int = Field(16, ge=0, description="Texts that one person may keep here.")
    study_uploads_each: int = Field(8, ge=0, description="Studies that one person may keep here.")
    check_device: bool = Field(
        True, description="Before its first run a GPU is compared with the CPU, and runs are refused where it differs."
    )
    sweep_gib: float | None = Field(
        None,
        gt=0,
        description="Working memory for the λ and γ of a layer that are solved at once, in GiB; empty: 1, on a GPU an "
        "eighth of its memory.",
    )
    cache_gib: float = Field(20.0, gt=0, description="Finished layers and results kept on disk, in GiB.")
    statistics_gib: float = Field(
        10.0, gt=0, description="Statistics of calibration draws kept on disk for further tuning, in GiB."
    )
    export_gib: float = Field(
        50.0, gt=0, description="Checkpoints exported from the page, kept on disk until they are deleted, in GiB."
    )
    upload_mib: float = Field(
        64.0, gt=0, description="Largest study that can be uploaded, as it is and unpacked, in MiB."
    )
    frame_ancestors: str = Field(
        "'self'",
        description="Sites that may show the pages in a frame, as in Content-Security-Policy; in a Space of Hugging "
        "Face: 'self' https://huggingface.co.",
    )
    embed_ancestors: str = Field(
        "",
        pattern=r"^[^;,\r\n]*$",
        description="Sites that may show a single card of the Lab (embed=CARD in its address) in a frame, as in "
        "Content-Security-Policy: https://blog.example, or * for any; empty: those of SARQC_FRAME_ANCESTORS.",
    )
    cancel_seconds: float = Field(20.0, gt=0, description="How long a cancelled worker may take before it is ended.")
    lease_seconds: float = Field(
        120.0, ge=10, description="Seconds without a sign of life after which a worker is ended and its run put back."
    )
    log_format: Literal["text", "json"] = Field("text", description="Log lines for people, or one JSON object a line.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least that is logged.")
    run_hours: float | None = Field(
        None, gt=0, description="Hours that an attempt at a run may take before it is ended as failed; empty: any."
    )

    def of(self, kind: type[SettingsOfSomeKind]) -> SettingsOfSomeKind:
        """Return the settings of an extra, from the environment or given with these by code. Raise ``Refused``."""
        values = {name: value for name, value in (self.model_extra or {}).items() if name in kind.model_fields}
        return _read(kind, **values)

    def resolved_state_dir(self) -> Path:
        """Return ``state_dir`` with ``~`` expanded, as an absolute path."""
        return self.state_dir.expanduser().resolve()

    def root(self) -> str:
        """Return the prefix of every address of the app: empty, or a path without “/” at its end."""
        return self.root_path.rstrip("/")

    def fetched_models(self) -> dict[str, str] | None:
        """Return the models of the Hub that may be requested over the network, with their commits; None: any."""
        entries = [entry.strip().partition("@") for entry in self.hub_models.split(",") if entry.strip()]
        pinned = {name: commit for name, _, commit in entries}
        return None if self.access == "private" or "*" in pinned else pinned

    def folders(self) -> dict[str, Path]:
        """Return the folders of this host by their purposes."""
        return {"state": self.resolved_state_dir(), "assets": self.assets_dir.resolve(), "sarqc": SITE}

    def database(self) -> Path:
        return self.resolved_state_dir() / "runs.sqlite3"

    def storage_dir(self) -> Path:
        """Return the folder of the data of runs: ``storage`` with ``~`` expanded, or the state folder."""
        if not self.storage or self.is_object_storage():
            return self.resolved_state_dir()
        return Path(self.storage).expanduser().resolve()

    def is_object_storage(self) -> bool:
        """Return True if ``storage`` is an address, and no folder."""
        return "://" in self.storage

    def storage_root(self) -> Path | str:
        """Return the place of artefacts and statistics: the address of object storage, or ``storage_dir``."""
        return self.storage.rstrip("/") if self.is_object_storage() else self.storage_dir()

    def artefacts_root(self) -> Path | str:
        """Return the place of finished layers and measurements: a folder or an address."""
        return _below(self.storage_root(), "artefacts")

    def statistics_root(self) -> Path | str:
        """Return the place of statistics, from which tuning goes on without a pass through the model: a folder or an
        address.
        """
        return _below(self.storage_root(), "statistics")

    def artefacts_dir(self) -> Path:
        """Return the folder of artefacts on a disk of this host, unused where they are in object storage."""
        return self.storage_dir() / "artefacts"

    def statistics_dir(self) -> Path:
        """Return the folder of statistics on a disk of this host."""
        return self.storage_dir() / "statistics"

    def scratch_dir(self) -> Path:
        """Return the folder of the changed blocks of a run, where not all of them fit in memory."""
        return self.resolved_state_dir() / "scratch"

    def unpacked_dir(self) -> Path:
        """Return the folder of checkpoints unpacked from GGUF files, a folder for each."""
        return self.resolved_state_dir() / "unpacked"

    def texts_dir(self) -> Path:
        """Return the folder of corpora from the Hub, laid out as a mirror."""
        return self.resolved_state_dir() / "texts"

    def studies_dir(self) -> Path:
        """Return the folder of studies of runs on this host; shipped ones are under ``assets_dir / "studies"``."""
        return self.storage_dir() / "studies"

    def embedded_models_dir(self) -> Path:
        """Return the folder of models that come with the app, each in a folder by its name."""
        return self.assets_dir / "models"

    def uploads_dir(self) -> Path:
        """Return the folder of uploaded studies."""
        return self.resolved_state_dir() / "uploads"

    def text_uploads_dir(self) -> Path:
        """Return the folder of uploaded texts."""
        return self.storage_dir() / "text-uploads"

    def exports_dir(self) -> Path:
        """Return the folder of checkpoints written for download, a folder for each export."""
        return self.storage_dir() / "exports"


def _below(root: Path | str, name: str) -> Path | str:
    return root / name if isinstance(root, Path) else f"{root}/{name}"


def read_settings() -> Settings:
    """Return the settings of the environment. Raise ``Refused`` naming the first wrong variable and its meaning."""
    return _read(Settings)


def _read(kind: type[SettingsOfSomeKind], **given: Any) -> SettingsOfSomeKind:
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
    name = "_".join(str(part) for part in first["loc"])
    message = first["msg"][0].lower() + first["msg"][1:]
    field = kind.model_fields.get(name)
    remedy = (field.description or "") if field is not None else ""
    raise Refused(f"the setting is {first['input']!r}: {message}", f"SARQC_{name.upper()}", remedy)
