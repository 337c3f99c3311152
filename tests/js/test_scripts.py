"""The scripts' own tests: a file of node's runner is a test of this suite, and no case in it can be skipped."""

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.js.node import NODE

# Each file in a process of its own: what one leaves in node's globals helps no other.
RUN = [str(NODE), "--test", "--test-isolation=none", "--test-reporter", "junit"]


@pytest.mark.parametrize("script", sorted(Path(__file__).parent.glob("*.test.js")), ids=lambda path: path.name)
def test_script(script):
    environment = {name: value for name, value in os.environ.items() if name != "NODE_TEST_CONTEXT"}
    done = subprocess.run([*RUN, script], capture_output=True, text=True, timeout=120, env=environment)
    try:
        cases = list(ElementTree.fromstring(done.stdout).iter("testcase"))
    except ElementTree.ParseError:
        cases = []
    cases = [case for case in cases if not case.get("name", "").endswith(script.name)]  # a file without tests is one
    assert cases, f"node ran no test\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    ends = [(case.get("name"), end) for case in cases for end in case if end.tag in ("failure", "error", "skipped")]
    assert not ends, "\n".join(f"{name}: {end.tag} {end.get('message')}\n{end.text}" for name, end in ends)
    assert done.returncode == 0, done.stderr[-2000:]
