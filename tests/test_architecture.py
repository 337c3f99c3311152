"""The house's floors, enforced: imports go downwards, or to the left on one floor."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the ground up. Rooms of one floor are strangers, except that a room in a list may look at those left of it.
FLOORS: list[list[tuple[str, ...]]] = [
    [("sarqc.errors",)],
    [("sarqc.settings",), ("sarqc.quantization",), ("sarqc.models",)],
    [("sarqc.recipe", "sarqc.batch"), ("sarqc.events",), ("sarqc.artefacts",), ("sarqc.study",)],
    [("sarqc.experts", "sarqc.facts", "sarqc.figures")],
    [("sarqc.calibration",), ("sarqc.evaluation",), ("sarqc.export",)],
    [
        (
            "sarqc.host",
            "sarqc.costs",
            "sarqc.preflight",
            "sarqc.planning",
            "sarqc.model_selection",
            "sarqc.study_lines",
            "sarqc.execution",
            "sarqc.survey",
            "sarqc.surveying",
        ),
    ],
    [("sarqc.jobs",)],
    [("pages",)],
    [("app",), ("sarqc.progress", "sarqc.__main__")],
]
# Rooms that look sideways for a reason.
SIDEWAYS = {("sarqc.models", "sarqc.settings")}  # the catalogue asks where models are kept


def room_of(module: str) -> str | None:
    """The room that a module belongs to: the longest name of ``FLOORS`` that it starts with."""
    rooms = [room for floor in FLOORS for group in floor for room in group]
    found = [room for room in rooms if module == room or module.startswith(f"{room}.")]
    return max(found, key=len) if found else None


def place_of(room: str) -> tuple[int, int, int]:
    for floor, groups in enumerate(FLOORS):
        for position, group in enumerate(groups):
            if room in group:
                return floor, position, group.index(room)
    raise AssertionError(room)


def modules() -> dict[str, Path]:
    files = [*ROOT.glob("sarqc/**/*.py"), *ROOT.glob("pages/**/*.py"), ROOT / "app.py"]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
        if "__pycache__" not in path.parts
    }


def imports_of(path: Path) -> set[str]:
    """Names of all modules imported anywhere in a file, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_every_module_has_a_room() -> None:
    homeless = [name for name in modules() if room_of(name) is None and name != "sarqc"]
    assert homeless == []


def test_imports_go_downwards() -> None:
    wrong = []
    for name, path in modules().items():
        here = room_of(name)
        if here is None:
            continue
        for imported in imports_of(path):
            there = room_of(imported)
            if there is None or there == here or (here, there) in SIDEWAYS:
                continue
            (floor, group, position), (other_floor, other_group, other_position) = place_of(here), place_of(there)
            left = floor == other_floor and group == other_group and other_position < position
            if not (other_floor < floor or left):
                wrong.append(f"{name} imports {imported}")
    assert wrong == []


def test_quantization_knows_torch_and_errors_only() -> None:
    allowed = ("torch", "sarqc.errors", "sarqc.quantization", *sys.stdlib_module_names)
    for path in (ROOT / "sarqc" / "quantization").glob("*.py"):
        for imported in imports_of(path):
            assert imported.split(".")[0] in allowed or imported.startswith(allowed), f"{path.name} imports {imported}"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("sarqc", ("torch", "gradio", "pydantic")),
        ("sarqc.preflight", ("torch", "gradio", "plotly", "lm_eval", "transformers")),
        ("sarqc.figures", ("torch", "gradio", "plotly")),
        ("sarqc.jobs.http", ("torch", "gradio", "lm_eval")),
        ("sarqc.execution", ("gradio", "plotly", "lm_eval")),
    ],
)
def test_heavy_libraries_are_loaded_where_they_are_used(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_model_is_known_by_its_name_in_code() -> None:
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.In) for op in node.ops):
                left = node.left
                assert not (isinstance(left, ast.Constant) and left.value in ("llama", "mistral", "qwen")), name
