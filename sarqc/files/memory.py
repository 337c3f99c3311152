"""Free memory of the host."""

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def free_memory() -> int:
    """Return the free memory of this machine, or of the container that it is, in bytes."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = next(
            int(line.split()[1])
            for line in (_CGROUP / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
        return free if limit == "max" else min(free, int(limit) - int(used) + cached)
    except (OSError, ValueError, StopIteration):
        return free
