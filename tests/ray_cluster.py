"""A real Ray cluster on this host, of several nodes with one processor each, that asks for a token.

It is in a process of its own, as an operator's is: ``python -m tests.ray_cluster NODES`` says its address, adds a node
for each line “add” and kills one for each line “kill”, and ends with its standard input.
"""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

STORE_BYTES = 80 << 20  # of objects, on each node: the least that Ray takes
ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(16),
    "RAY_USAGE_STATS_ENABLED": "0",
    # A node that is gone is noticed within seconds.
    "RAY_health_check_initial_delay_ms": "0",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}


class Cluster:
    """The cluster as a test has it. Its environment is that of the test's process, so that the app can reach it."""

    def __init__(self, nodes: int) -> None:
        command = [sys.executable, "-m", "tests.ray_cluster", str(nodes)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self._answer()

    def ask(self, what: str) -> str:
        print(what, file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> str:
        for line in self._process.stdout:  # Ray prints too
            if line.startswith("answer "):
                return line.split()[1]
        raise AssertionError(f"the cluster has ended with {self._process.wait()}")


@contextmanager
def cluster_of(nodes: int) -> Iterator[Cluster]:
    """A cluster whose head does no work; all its processes end with the context."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        cluster = Cluster(nodes)
        try:
            yield cluster
        finally:
            cluster.close()


def main() -> None:
    from ray.cluster_utils import Cluster as RayCluster

    head = {"num_cpus": 0, "num_gpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    node = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE_BYTES, "wait": False}
    cluster = RayCluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(**node) for _ in range(int(sys.argv[1]))]
    print("answer", cluster.address, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["add"]:
                nodes.append(cluster.add_node(**node))
            case ["kill", node_id]:
                (gone,) = [one for one in nodes if one.node_id.startswith(node_id)]
                nodes.remove(gone)
                cluster.remove_node(gone, allow_graceful=False)
        print("answer done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
