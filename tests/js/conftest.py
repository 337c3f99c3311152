"""The scripts' own tests as tests of this suite: each test of node's runner is an item, and none can be skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest


def node() -> str:
    """The node of this environment (the development requirements bring it)."""
    return str(Path(sys.executable).parent / "node")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.File | None:
    return ScriptFile.from_parent(parent, path=file_path) if file_path.name.endswith(".test.js") else None


class ScriptFile(pytest.File):
    """A file of tests; it is run when it is collected, since only node knows what is in it."""

    def collect(self) -> Iterator[pytest.Item]:
        command = [node(), "--test", "--test-reporter", "junit", self.path]
        environment = {name: value for name, value in os.environ.items() if name != "NODE_TEST_CONTEXT"}
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        try:
            cases = list(ElementTree.fromstring(done.stdout).iter("testcase"))
        except ElementTree.ParseError:
            cases = []
        if not cases:
            raise self.CollectError(f"{self.path.name}: node ran no test\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for case in cases:
            failure = case.find("failure")
            error = None if failure is None else f"{failure.get('message')}\n{failure.text}"
            yield ScriptTest.from_parent(self, name=case.get("name", "?"), error=error)


class ScriptTest(pytest.Item):
    def __init__(self, *, error: str | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.error = error

    def runtest(self) -> None:
        if self.error is not None:
            raise AssertionError(self.error)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, self.name
