"""What is installed: each version with its hashes, and an audit that says when it has judged nothing."""

import hashlib
import re
import subprocess
import tomllib

import pytest

from deploy import audit, make_requirements
from tests.images import ROOT

FILES = {name: (ROOT / name).read_text() for name in make_requirements.FILES}
ENTRY = re.compile(
    r"[a-z0-9-]+==[0-9][\w.+]*( ; [^\\\n]+)? \\\n(    --hash=sha256:[0-9a-f]{64} \\\n)*    --hash=sha256:[0-9a-f]{64}\n"
)


@pytest.mark.parametrize("name", FILES)
def test_each_requirement_has_a_version_and_hashes(name):
    text = FILES[name].removeprefix(make_requirements.head(FILES[name]))
    assert ENTRY.sub("", text) == ""
    assert len(ENTRY.findall(text)) == len(make_requirements.pins(text)) == len(audit.pins(text))


def test_no_package_has_two_versions():
    versions = {}
    for name, text in FILES.items():
        if name not in ("requirements-tools.txt", "requirements-triton.txt"):  # of another environment each
            for package, version in audit.pins(text).items():
                assert versions.setdefault(package, version.removesuffix("+cpu")) == version.removesuffix("+cpu"), (
                    package
                )
    assert audit.pins(FILES["requirements-cpu.txt"])["torch"] == f"{versions['torch']}+cpu"


def test_all_that_the_package_asks_for_is_listed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {package for text in FILES.values() for package in audit.pins(text)}
    extras = project["optional-dependencies"]
    for requirement in [
        *project["dependencies"],
        *extras["app"],
        *extras["host"],
        *extras["classroom"],
        *extras["eval"],
        *extras["dev"],
    ]:
        assert audit.canonical(re.split(r"[^\w.-]", requirement)[0]) in listed, requirement


def test_make_installs_by_hashes_alone():
    made = (ROOT / "Makefile").read_text()
    for target in (".venv/app.done", ".venv/dev.done", "build/tools/done"):
        (recipe,) = re.findall(rf"^{re.escape(target)}:.*\n((?:\t.*\n)+)", made, re.M)
        for line in recipe.splitlines():
            assert " -r " not in line or "$(INSTALL)" in line or "--require-hashes --no-deps" in line
    assert (
        "INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps" in made
    )


def test_hashes_of_builds_for_a_cpu_are_kept_with_their_version(tmp_path, monkeypatch):
    def unreachable(*_):
        raise subprocess.CalledProcessError(2, "uv")

    monkeypatch.setattr(make_requirements, "compiled", unreachable)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    (tmp_path / "torch-3.0+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"")
    (tmp_path / "torch-3.1+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"another")
    four, empty = f"sha256:{'4' * 64}", f"sha256:{hashlib.sha256(b'').hexdigest()}"
    known = f"a==1 \\\n    --hash=sha256:{'1' * 64}\n" + make_requirements.entry("torch==3.0+cpu", [four])
    assert make_requirements.of_cpu("3.0", known) == sorted([four, empty])
    assert make_requirements.of_cpu("2.0", known) == []
    assert ENTRY.fullmatch(make_requirements.entry("torch==3.0+cpu", [four, empty]))
    assert make_requirements.pins(f"# of a\n{known}") == ["a==1", "torch==3.0+cpu"]


# What pip-audit 2.10.1 wrote: of OSV's answers, and of PyPI where it knew no package.
OF_OSV = {
    "dependencies": [
        {"name": "idna", "version": "3.20", "vulns": []},
        {"name": "jinja2", "version": "2.11.2", "vulns": [
            {"id": "PYSEC-2021-66", "fix_versions": ["2.11.3"], "aliases": ["CVE-2020-28493", "GHSA-g3rq-g295-4j3m"]}]},
    ],
    "fixes": [],
}  # fmt: skip
SKIPPED = "Dependency not found on PyPI and could not be audited: {}"
OF_PYPI = {
    "dependencies": [
        {"name": "idna", "skip_reason": SKIPPED.format("idna (3.20)")},
        {"name": "jinja2", "skip_reason": SKIPPED.format("jinja2 (2.11.2)")},
    ],
    "fixes": [],
}
WANTED = {"idna": "3.20", "jinja2": "2.11.2"}


def test_a_known_hole_is_a_complaint():
    assert audit.complaints(WANTED, OF_OSV, "osv") == [
        "jinja2 2.11.2: PYSEC-2021-66, CVE-2020-28493, GHSA-g3rq-g295-4j3m, mended in 2.11.3 (osv)"
    ]
    assert audit.complaints({"idna": "3.20"}, {"dependencies": OF_OSV["dependencies"][:1]}, "osv") == []


def test_what_was_not_judged_is_a_complaint():
    assert audit.complaints(WANTED, OF_PYPI, "pypi") == [
        f"idna 3.20 was not judged: {SKIPPED.format('idna (3.20)')} (pypi)",
        f"jinja2 2.11.2 was not judged: {SKIPPED.format('jinja2 (2.11.2)')} (pypi)",
    ]
    assert "was not judged: it is not in the report" in audit.complaints(WANTED, {"dependencies": []}, "osv")[0]
    assert len(audit.complaints({"idna": "3.21"}, OF_OSV, "osv")) == 2  # another version, and the hole
    assert audit.pins("A_b==1.0 ; python_version < '4' \\\n    --hash=sha256:0\n") == {"a-b": "1.0"}


def test_an_audit_that_says_nothing_is_no_audit():
    # In this environment there is no pip-audit, so that it ends without a report.
    with pytest.raises(RuntimeError, match=r"requirements.txt was not judged by osv: .*pip_audit"):
        audit.report_of(ROOT / "requirements.txt", "osv")
