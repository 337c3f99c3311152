"""Workers in a Ray cluster: one for each GPU (or span of them), or for every few processors of a cluster without.

The app itself never speaks with Ray. Each run has a process on the app's host (``sarqc.extras.cluster.ray_relay``)
that stands for its worker, and one more process names the nodes of the cluster (``sarqc.extras.cluster.ray_cluster``).
"""

from collections.abc import Callable
from typing import Any

from sarqc.errors import Refused
from sarqc.extras.cluster.ray_cluster import CONNECT_SECONDS, Cluster
from sarqc.extras.cluster.transit import on_node, results_folder, uploaded_texts
from sarqc.files.places import place_at
from sarqc.jobs.process import Process
from sarqc.jobs.run import Run
from sarqc.jobs.workers import Device, Message, ProcessWorkers
from sarqc.settings import SITE, Settings

_HOST_SETTINGS = ("state_dir", "ray_address")  # settings that a worker has from its own host
_WHERE = "SARQC_RAY_ADDRESS"


class RayWorkers(ProcessWorkers):
    """Workers of the cluster at ``settings.ray_address``. See ``Workers`` for the contract.

    Which of them is where is up to Ray: devices are counted, not named. ``deliver`` gets None where their number has
    changed. Raises ``Refused`` where the storage can't be used, and where the cluster does not answer for
    ``patience`` seconds.
    """

    def __init__(
        self,
        settings: Settings,
        deliver: Callable[[Message | None], None],
        *,
        patience: float = CONNECT_SECONDS,
        **options: Any,
    ) -> None:
        super().__init__(settings, deliver, **options)
        self._mark = place_at(settings.storage_root()).mark()
        self._cluster = Cluster(settings.ray_address, lambda: deliver(None))
        if problem := self._cluster.wait(patience):
            self._cluster.close()
            raise Refused(
                f"the Ray cluster at {settings.ray_address} can't be reached: {problem}",
                _WHERE,
                "Make this host a node of it, with its token: ray start --address=HOST:PORT --num-cpus=0.",
            )

    @property
    def devices(self) -> tuple[Device, ...]:
        per_node = [_workers_on(node["resources"], self._settings) for node in self._cluster.nodes]
        gpus, cpus = (sum(counts) for counts in zip(*per_node, strict=True)) if per_node else (0, 0)
        kind, count = ("cuda", gpus) if gpus else ("cpu", cpus)
        words = "GPU of the Ray cluster" if gpus else "worker of the Ray cluster"
        return tuple(Device(f"ray:{kind}:{index}", words) for index in range(count))

    def trouble(self) -> str | None:
        if self._cluster.is_silent():
            return f"The Ray cluster at {self._settings.ray_address} does not answer. Runs go on when it does."
        if not self.devices:
            return (
                f"The Ray cluster at {self._settings.ray_address} has no worker: no GPU, and no host with "
                f"{self._settings.ray_cpus} processors (SARQC_RAY_CPUS)."
            )
        return None

    def close(self) -> None:
        super().close()
        self._cluster.close()

    def _spawn(self) -> Process:
        return Process("sarqc.extras.cluster.ray_relay", [self._execute, self._settings.ray_address])

    def _job(self, run: Run, device: str, helps: bool) -> dict[str, Any]:
        job = super()._job(run, device, helps) | {"mark": self._mark}
        if not self._settings.is_object_storage():
            return job
        texts = [str(path) for path in uploaded_texts(run.recipe, self._settings)]
        results = str(results_folder(job, self._settings))
        return job | {"transit": f"{on_node.__module__}:{on_node.__name__}", "texts": texts, "results": results}

    def _settings_on(self, device: str) -> dict[str, Any]:
        settings = self._settings
        given = {name: value for name, value in settings.model_dump(mode="json").items() if name not in _HOST_SETTINGS}
        if settings.assets_dir == SITE / "assets":  # each host has them where its sarqc is
            del given["assets_dir"]
        kind = "cuda:0" if device.startswith("ray:cuda") else "cpu"  # Ray shows a worker no GPUs but its own
        return given | {"device": kind, "storage": str(settings.storage_root())}


def _workers_on(resources: dict[str, float], settings: Settings) -> tuple[int, int]:
    """Return how many workers have room on a node: with ``span`` GPUs each, and without."""
    by_processors = int(resources.get("CPU", 0)) // settings.ray_cpus
    return min(int(resources.get("GPU", 0)) // settings.span, by_processors), by_processors
