"""The scripts of a page as a single module, so that a page takes one request and not a hundred.

Every module of assets/js becomes a function that runs once, after the modules that it imports, and returns its exports.
The modules themselves stay as they are, for tests and for tools. A statement that has no counterpart in such a function
is refused: an import cycle, a default export, an export that is assigned again later.
"""

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from sarqc.errors import Refused

# Statements begin a line, or follow another one in scripts of others, which are a single line.
_IMPORT = re.compile(
    r'(?:^|(?<=[;}]))import\s*(\{[^}]*\}|\*\s*as\s+\w+)\s*from\s*"(\.{1,2}/[\w./-]+\.js)";', re.MULTILINE
)
_REEXPORT = re.compile(r'(?:^|(?<=[;}]))export\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[\w./-]+\.js)";', re.MULTILINE)
_NAMES = re.compile(r"(?:^|(?<=[;}]))export\s*\{([^}]*)\};", re.MULTILINE)
_DECLARATION = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
_LEFT = re.compile(r"(?:^|(?<=[;}]))(?:import|export)\b(?!\s*\().*", re.MULTILINE)
# Types and words for developers; licences stay.
_DESCRIPTION = re.compile(r"^[ \t]*/\*\*(?!\s*\* @license)(?:(?!\*/).)*\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
_SOURCE_MAP = re.compile(r"^//# sourceMappingURL=.*\n?", re.MULTILINE)


def bundled(assets: Path, entries: Sequence[str]) -> str:
    """Return the text of one module that holds the ``entries``, names below ``js/``, and all that they import.

    It exports ``scripts``: the exports of each module by its name below ``js/``. Raises ``Refused`` for a module that
    is missing or that can't be part of a bundle.
    """
    names = modules(assets, tuple(f"js/{name}" for name in entries))
    parts = [f"const {_variable(name)} = (() => {{\n{_body(assets, name)}}})();" for name in names]
    exported = ", ".join(f'"{name.removeprefix("js/")}": {_variable(name)}' for name in names)
    return "\n".join([*parts, f"export const scripts = {{ {exported} }};\n"])


def modules(assets: Path, entries: Sequence[str]) -> list[str]:
    """Return the names below ``assets`` of these modules and of all that they import, imported modules first.

    Raises ``Refused`` for a missing module or an import cycle.
    """
    order: list[str] = []

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            cycle = " → ".join([*importers[importers.index(name) :], name])
            raise Refused(f"the scripts import each other: {cycle}", name, "Move the shared part to another module.")
        if name in order:
            return
        if not (assets / name).is_file():
            importer = importers[-1] if importers else "a page"
            raise Refused(f"no such script: {name}", importer, "Correct the name of the module.")
        for imported in _imports(assets, name):
            visit(imported, (*importers, name))
        order.append(name)

    for entry in entries:
        visit(entry, ())
    return order


def _imports(assets: Path, name: str) -> list[str]:
    text = (assets / name).read_text(encoding="utf-8")
    statements = [*_IMPORT.finditer(text), *_REEXPORT.finditer(text)]
    paths = [match[2] for match in sorted(statements, key=lambda match: match.start())]
    return [_path(name, path) for path in paths]


def _path(importer: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(importer), path))


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name.removesuffix(".js"))


def _body(assets: Path, name: str) -> str:
    """Return the statements of a module, with constants in place of its imports, and a return of its exports."""
    exports: list[str] = []

    def replace_import(match: re.Match[str]) -> str:
        names = match[1].replace(" as ", ": ") if match[1].startswith("{") else match[1].split()[-1]
        return f"const {names} = {_variable(_path(name, match[2]))};"

    def replace_reexport(match: re.Match[str]) -> str:
        source = _variable(_path(name, match[2]))
        exports.extend(f"{public}: {source}.{own}" for own, public in _pairs(match[1]))
        return ""

    def replace_names(match: re.Match[str]) -> str:
        exports.extend(f"{public}: {own}" for own, public in _pairs(match[1]))
        return ""

    def replace_declaration(match: re.Match[str]) -> str:
        exports.append(match[2])
        return f"{match[1]} {match[2]}"

    text = _SOURCE_MAP.sub("", _DESCRIPTION.sub("", (assets / name).read_text(encoding="utf-8")))
    for pattern, replacement in (
        (_IMPORT, replace_import),
        (_REEXPORT, replace_reexport),
        (_NAMES, replace_names),
        (_DECLARATION, replace_declaration),
    ):
        text = pattern.sub(replacement, text)
    if left := _LEFT.search(text):
        remedy = "Export functions, classes and constants by name, and import modules by a relative path."
        raise Refused(f"a statement that no bundle can hold: {left[0][:80]}", name, remedy)
    return f"{text}return {{ {', '.join(exports)} }};\n"


def _pairs(names: str) -> list[tuple[str, str]]:
    """Return the own and the public name of each in “a, b as c”."""
    pairs = [part.split(" as ") for part in (piece.strip() for piece in names.split(",")) if part]
    return [(pair[0].strip(), pair[-1].strip()) for pair in pairs]
