"""The list of thorough tests names tests that there are."""

import ast
from functools import cache
from pathlib import Path

from tests.conftest import thorough_tests

FOLDER = Path(__file__).parent


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_each_line_names_a_file_or_a_test() -> None:
    lines = thorough_tests()
    assert lines == sorted(set(lines))
    for line in lines:
        file, _, name = line.partition("::")
        assert (FOLDER / file).is_file(), line
        assert not name or name in functions_of(FOLDER / file), line
        assert not name or file not in lines, f"{line}: the whole file is listed"


def test_every_folder_of_tests_keeps_some() -> None:
    """What is left out is never all that there is of a room."""
    listed = set(thorough_tests())
    for folder in {path.parent for path in FOLDER.rglob("test_*.py")}:
        kept = [
            f"{path}::{name}"
            for path in (file.relative_to(FOLDER).as_posix() for file in folder.glob("test_*.py"))
            if path not in listed
            for name in functions_of(FOLDER / path)
            if f"{path}::{name}" not in listed
        ]
        assert kept, f"make test has no test of {folder}"
