"""Small checkpoints of every kind, given to every reader: ``python -m conformance.loaders [--only READER]``.

Results go to ``sarqc/checkpoints/loaders.json`` and ``docs/loaders.md``.

Takes a network for the readers' environments, which are made once under the folder. With ``--only`` the answers of all
other readers stay as they are in the table.
"""

import argparse
import datetime
import json
import platform
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.loaders.environments import READERS, NotInstalled, Reader, python_of
from conformance.loaders.kinds import GROUP, TOKENS, Kind, make_kinds
from conformance.loaders.page import write_page
from sarqc.checkpoints.formats import TABLE

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "readers"
LONGEST = 160  # characters of an answer
SECONDS = 3600  # that a reader may take for all of them

Answers = dict[str, dict[str, str]]  # by kind: loads and words


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m conformance.loaders", description=__doc__)
    parser.add_argument("--only", choices=[reader.name for reader in READERS], action="append")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "loaders")
    given = parser.parse_args(arguments)
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kinds = make_kinds(folder)
    print(f"{len(kinds)} checkpoints under {folder}", flush=True)
    asked_now = {}
    for reader in READERS:
        if given.only and reader.name not in given.only and not reader.why_not:
            continue
        entry, found = asked_now[reader.name] = asked(reader, kinds, folder)
        loads = [answer["loads"] for answer in found.values()]
        counts = ", ".join(f"{one} {loads.count(one)}" for one in ("yes", "parts", "no"))
        print(f"{reader.name} {entry['version']}: {entry['not_run'] or counts}", flush=True)
    document = {
        "date": datetime.date.today().isoformat(),
        "host": f"{platform.system()} on {platform.machine()}, without a GPU",
        "tokens": TOKENS,
        "group_size": GROUP,
        "readers": [],
        "answers": {kind.name: {} for kind in kinds},
    }
    former = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {"readers": [], "answers": {}}
    for reader in READERS:
        if reader.name not in asked_now:
            _keep(document, former, reader)
            continue
        entry, found = asked_now[reader.name]
        document["readers"].append(entry)
        for name, answer in found.items():
            document["answers"][name][reader.name] = answer
    TABLE.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page(ROOT / "docs" / "loaders.md", document)


def _keep(document: dict[str, Any], former: dict[str, Any], reader: Reader) -> None:
    """What the table said of a reader that was not asked this time."""
    entry = next((one for one in former["readers"] if one["name"] == reader.name), None)
    document["readers"].append(entry or _entry(reader, not_run="it was not asked"))
    for name, given in former["answers"].items():
        if reader.name in given and name in document["answers"]:
            document["answers"][name][reader.name] = given[reader.name]


def _entry(reader: Reader, versions: dict[str, str] | None = None, not_run: str = "") -> dict[str, Any]:
    versions = versions or {}
    beside = {name: version for name, version in versions.items() if name != reader.package}
    return {
        "name": reader.name,
        "version": versions.get(reader.package, ""),
        "beside": beside,
        "formats": list(reader.formats),
        "not_run": not_run,
    }


def asked(reader: Reader, kinds: Sequence[Kind], folder: Path) -> tuple[dict[str, Any], Answers]:
    """The reader's entry in the table, and its answer to every kind that it is for."""
    if reader.why_not:
        return _entry(reader, not_run=reader.why_not), {}
    try:
        python = python_of(reader, folder)
    except NotInstalled as error:
        return _entry(reader, not_run=_short(f"pip: {error}", folder)), {}
    wanted = [kind for kind in kinds if not reader.formats or kind.format in reader.formats]
    versions, found, log = _answers(reader, python, wanted, folder)
    if not versions:
        return _entry(reader, not_run=_short(f"it does not start: {log}", folder)), {}
    return _entry(reader, versions), {name: _judged(answer, folder) for name, answer in found.items()}


def _answers(
    reader: Reader, python: Path, kinds: Sequence[Kind], folder: Path
) -> tuple[dict[str, str], dict[str, tuple[Kind, dict[str, Any]]], str]:
    """Versions, and of each kind the line that the script wrote; started again after one that ended it."""
    versions: dict[str, str] = {}
    found: dict[str, tuple[Kind, dict[str, Any]]] = {}
    by_name = {kind.name: kind for kind in kinds}
    log = ""
    while left := [kind for kind in kinds if kind.name not in found]:
        with tempfile.TemporaryDirectory() as made:
            answers, job = Path(made) / "answers", Path(made) / "job.json"
            answers.touch()
            asked_for = [{"name": one.name, "folder": str(one.folder), "prompt": one.prompt} for one in left]
            job.write_text(json.dumps({"kinds": asked_for, "tokens": TOKENS, "answers": str(answers)}))
            ended, log = _run([str(python), str(SCRIPTS / reader.script), str(job)], folder / f"{reader.package}.log")
            lines = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
        begun = None
        for line in lines:
            versions = line.get("versions", versions)
            begun = line.get("begun", begun)
            if "kind" in line:
                found[line["kind"]] = by_name[line["kind"]], line
        if begun is None:
            break
        if begun not in found:
            found[begun] = by_name[begun], {"error": f"the process ended with {ended}"}
    return versions, found, log


def _run(command: list[str], log: Path) -> tuple[str, str]:
    """How a process ended, and the last line of what it printed."""
    with log.open("a", encoding="utf-8") as file:
        try:
            code = subprocess.run(command, stdout=file, stderr=file, timeout=SECONDS).returncode
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            ended = f"no answer after {SECONDS} s"
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return ended, lines[-1] if lines else ""


def _judged(answer: tuple[Kind, dict[str, Any]], folder: Path) -> dict[str, str]:
    kind, line = answer
    if "error" in line:
        return {"loads": "no", "words": _short(line["error"], folder)}
    pairs = enumerate(zip(line["ids"], kind.expected, strict=False), 1)
    first = next((number for number, (one, other) in pairs if one != other), None)
    if first is None and len(line["ids"]) == len(kind.expected):
        return {"loads": "yes", "words": ""}
    words = f"token {first} is another" if first else f"{len(line['ids'])} tokens alone"
    return {"loads": "parts", "words": words}


def _short(words: str, folder: Path) -> str:
    """What a reader said, without where things are on this host."""
    words = words.replace(str(folder), "…")
    return words if len(words) <= LONGEST else words[:LONGEST].rsplit(" ", 1)[0] + " …"


if __name__ == "__main__":
    main()
