"""Known holes in everything that requirements*.txt list: ``make audit``, which takes a network.

pip-audit asks two services: PyPI, which says of each version whether it knows it, and OSV, which has the most holes. It
ends well where a service does not know a package, so here its report is read: a package that was not judged counts as
a hole, and so does a service that does not answer.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVICES = ("pypi", "osv")
ELSEWHERE = "requirements-cpu.txt"  # whose PyTorch is not on PyPI: requirements-cuda.txt has the same version


def pins(text: str) -> dict[str, str]:
    """Names and versions in a file with hashes."""
    return {canonical(name): number for name, number in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", text, re.M)}


def canonical(name: str) -> str:
    """A name as PyPI writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def complaints(wanted: Mapping[str, str], report: Mapping[str, Any], service: str) -> list[str]:
    """What a report of pip-audit has against the requirements ``wanted``: holes, and what it did not judge."""
    against: list[str] = []
    judged: set[tuple[str, str]] = set()
    skipped: dict[str, str] = {}
    for entry in report.get("dependencies", []):
        name = canonical(entry["name"])
        if "vulns" not in entry:
            skipped[name] = entry.get("skip_reason", "it says nothing of it")
            continue
        judged.add((name, entry["version"]))
        for hole in entry["vulns"]:
            names = ", ".join([hole["id"], *hole.get("aliases", [])])
            mended = ", ".join(hole.get("fix_versions", [])) or "no version yet"
            against.append(f"{name} {entry['version']}: {names}, mended in {mended} ({service})")
    for name, number in wanted.items():
        if (name, number) not in judged:
            why = skipped.get(name, "it is not in the report")
            against.append(f"{name} {number} was not judged: {why} ({service})")
    return against


def report_of(path: Path, service: str) -> dict[str, Any]:
    """What pip-audit says of a file. Raises ``RuntimeError`` where it says nothing."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--require-hashes",
        "--disable-pip",
        "--format",
        "json",
        "--desc",
        "off",
        "--progress-spinner",
        "off",
        "--vulnerability-service",
        service,
        "--requirement",
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise RuntimeError(f"{path.name} was not judged by {service}: {last}") from None
    return document


def main() -> None:
    """Prints every complaint, and ends with 1 where there is one."""
    against: list[str] = []
    number = 0
    for path in sorted(path for path in ROOT.glob("requirements*.txt") if path.name != ELSEWHERE):
        wanted = pins(path.read_text(encoding="utf-8"))
        number += len(wanted)
        for service in SERVICES:
            try:
                against += complaints(wanted, report_of(path, service), service)
            except RuntimeError as error:
                against.append(str(error))
    for line in dict.fromkeys(against):
        print(line)
    print(f"pip-audit {version('pip-audit')}, {number} requirements: {len(against) or 'no'} complaints")
    sys.exit(1 if against else 0)


if __name__ == "__main__":
    main()
