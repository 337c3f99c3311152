"""Every name that a page of the docs may use for something in the code, found by introspection."""

import ast
import dataclasses
import importlib
import re
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import get_args

import typer

from sarqc import extras
from sarqc.__main__ import app as commands
from sarqc.events import EVENT_TYPES
from sarqc.recipe import Recipe, public_name
from sarqc.settings import Settings
from sarqc.web.page_names import members

ROOT = Path(__file__).resolve().parent.parent
UNSHIPPED = ("tests/", "benchmarks/", "conformance/")
PACKAGES = ("sarqc", "pages", "app", "tests", "benchmarks", "conformance")
ENDINGS = ("py", "zip", "js", "ts", "json", "md", "yaml", "ipynb", "safetensors", "txt", "jsonl", "mjs", "css")
_EXPORT = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)|^export \{([^}]*)\}", re.M)
_PARAMETER = re.compile(r"/\{[^}]*\}")


def code_names(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each name in backticks of a page of Markdown; blocks of code are passed over."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield from ((number, name) for name in re.findall(r"`([^`]+)`", line))


def setting_names() -> set[str]:
    """The settings of the core and of all extras, without their prefix."""
    kinds = (Settings, *(extra.settings for extra in extras.known().values() if extra.settings))
    return {name for kind in kinds for name in kind.model_fields}


class CodeNames:
    """What the repository defines. ``explains`` is the question."""

    @cached_property
    def files(self) -> set[str]:
        """Tracked and new files, and all their folders with a slash at the end."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        files = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
        return files | {f"{parent}/" for name in files for parent in Path(name).parents if str(parent) != "."}

    @cached_property
    def python(self) -> dict[str, ast.Module]:
        named = [name for name in self.files if name.endswith(".py")]
        return {name: ast.parse((ROOT / name).read_text()) for name in named}

    @cached_property
    def defined(self) -> set[str]:
        """Functions, classes, fields, parameters and module names of Python, and exports of scripts."""
        names = set()
        for file, tree in self.python.items():
            for node in tree.body if file.startswith(UNSHIPPED) else ast.walk(tree):
                if isinstance(node, ast.Assign | ast.AnnAssign):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    names |= {target.id for target in targets if isinstance(target, ast.Name)}
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    names.add(node.name)
                elif isinstance(node, ast.arg):
                    names.add(node.arg)
                elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    names.add(node.id)
        for name in self.files:
            if name.startswith("assets/js/") and name.endswith(".js"):
                exported = _EXPORT.findall((ROOT / name).read_text())
                names |= {word for name, several in exported for word in (name, *re.findall(r"\w+", several))}
        return names | {part for name in self.python for part in Path(name).with_suffix("").parts}

    @cached_property
    def words(self) -> set[str]:
        """Text constants of Python: names of methods, grids, corpora, tasks, quantities, keys of documents; events."""
        return {*EVENT_TYPES} | {
            node.value
            for file, tree in self.python.items()
            if not file.startswith(UNSHIPPED)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        }

    @cached_property
    def flags(self) -> dict[str, set[str]]:
        """The flags of each command of ``sarqc``."""
        found = typer.main.get_command(commands)
        return {
            name: {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
            for name, command in found.commands.items()  # type: ignore[attr-defined]  # a group of commands
        }

    @cached_property
    def routes(self) -> set[str]:
        """A pattern like “GET /api/runs/[^/]+” for each route of REST."""
        from app import create_app

        with tempfile.TemporaryDirectory() as folder:
            app = create_app(Settings(state_dir=Path(folder), device="cpu"), with_pages=False)
            app.state.supervisor.store.close()
        routes = {f"{verb.upper()} {path}" for path, verbs in app.openapi()["paths"].items() for verb in verbs}
        return {_PARAMETER.sub("/[^/]+", route) for route in routes} | {f"GET {app.openapi_url}"}

    @cached_property
    def targets(self) -> set[str]:
        return set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))

    @cached_property
    def pip_extras(self) -> set[str]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return {*project["optional-dependencies"]}

    @cached_property
    def fields(self) -> dict[str, set[str]]:
        """The fields of a recipe as documents spell them, each with the words that it takes."""
        return {
            public_name(name): {
                word for kind in members(info.annotation) for word in get_args(kind) if isinstance(word, str)
            }
            for name, info in Recipe.model_fields.items()
        }

    def explains(self, name: str) -> bool:
        """Whether a name in the docs is one of the code."""
        if name.startswith("SARQC_"):
            return name.partition("=")[0].removeprefix("SARQC_").lower() in setting_names()
        if name.startswith(("make ", "python ", ".venv/bin/python ", "sarqc ", "--")):
            return self.is_command(name)
        if re.match(r"(GET|POST|PATCH|DELETE) /", name):
            path = _PARAMETER.sub("/x", name.partition("?")[0])
            return any(re.fullmatch(route, path) for route in self.routes)
        if match := re.fullmatch(r"(?:pip install ')?sarqc\[([\w,]+)\]'?", name):
            return {*match[1].split(",")} <= self.pip_extras
        if re.fullmatch(r"data-[a-z-]+", name):
            return any(name in text for text in self.scripts)
        if re.fullmatch(r"\w[\w-]*(?:/[\w-]+)+", name):
            return f"{name}/" in self.files or name in self.words
        if re.fullmatch(rf"[\w./-]+(?:/|\.(?:{'|'.join(ENDINGS)}))(?:: \w+)?", name):
            return self.is_file(name)
        if match := re.fullmatch(r"(\w+): ([\w.+]+)", name):
            return match[2] in self.fields.get(match[1], ()) or (match[1] in self.fields and match[2].isdecimal())
        if match := re.fullmatch(r"([\w.]+)\(.*\)", name):
            return self.explains(match[1])
        if re.fullmatch(r"\w+(\.\w+)+", name):
            return self.is_attribute(name)
        if match := re.fullmatch(r"(\w+)=\d*", name):
            return any(f'"{match[1]}"' in text for text in self.scripts)
        return name in self.defined or name in self.words or name in self.fields

    @cached_property
    def scripts(self) -> list[str]:
        return [(ROOT / name).read_text() for name in self.files if name.startswith("assets/js/base/")
                and name.endswith(".js")]  # fmt: skip

    def is_file(self, name: str) -> bool:
        """A path from the top, or a file's own name; “path: name” is something defined in it."""
        path, _, inner = name.partition(": ")
        found = [file for file in self.files if file == path or file.endswith(f"/{path}")]
        if inner:
            nodes = [node for file in found for node in ast.walk(self.python[file])]
            return inner in {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        return bool(found)

    def is_attribute(self, name: str) -> bool:
        """``module.name``, ``Class.name``, or a module of sarqc without its package."""
        first, *rest = name.split(".")
        for start in (name, f"sarqc.{name}"):
            if (place := _imported(start)) is not None and _has(*place):
                return True
        for file, tree in self.python.items():
            if any(isinstance(node, ast.ClassDef) and node.name == first for node in tree.body):
                module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                if _has(importlib.import_module(module), [first, *rest]):
                    return True
        return False

    def is_command(self, line: str) -> bool:
        """A line for a terminal: a target of make, a script, a module, or a command of ``sarqc`` with its flags."""
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            return set(words[1:]) <= self.targets
        if words[0].startswith("--"):
            return all(any(word in flags for flags in self.flags.values()) for word in words if word.startswith("--"))
        if words[0] == ".venv/bin/python":
            words[0] = "python"
        if words[:3] == ["python", "-m", "pytest"]:
            return all(word in self.files for word in words[3:])
        if words[0] == "python" and words[1] != "-m":
            return words[1] in self.files
        if words[0] == "python" and words[2] != "sarqc":
            return _imported(words[2]) is not None
        words = words[1:] if words[0] == "sarqc" else words[3:]
        command, *rest = words
        flags = {word for word in rest if word.startswith("--")}
        return command in self.flags and flags <= self.flags[command] | {"--help"}


def _imported(name: str) -> tuple[ModuleType, list[str]] | None:
    """The longest module at the front of a dotted name, and the names behind it; None: it begins with none of ours."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return None
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        if (ROOT / f"{path}.py").is_file() or (ROOT / path / "__init__.py").is_file():
            return importlib.import_module(".".join(parts[:end])), parts[end:]
    return None


def _has(place: object, names: list[str]) -> bool:
    """Whether an attribute, or a field of a class, is there."""
    for name in names:
        declared = set(getattr(place, "__annotations__", ())) | set(getattr(place, "model_fields", ()))
        if dataclasses.is_dataclass(place):
            declared |= {field.name for field in dataclasses.fields(place)}
        if hasattr(place, name):
            place = getattr(place, name)
        elif name in declared:
            return name == names[-1]
        else:
            return False
    return True
