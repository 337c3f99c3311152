"""Brings the catalogues of ``sarqc/languages`` up to date with the messages in the code.

    python docs/make_catalogue.py --write | --check

New messages get an empty translation, and messages that are gone are removed. ``--check`` fails where a catalogue is
not up to date, lacks a translation, or has one with other values than its message.
"""

from __future__ import annotations

import ast
import json
import string
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sarqc.language import ENGLISH, FOLDER, LANGUAGES

ROOT = Path(__file__).resolve().parents[1]
PYTHON, SCRIPTS = ("sarqc", "pages", "app.py"), "assets/js"
CONTRACTS = ("assets/js/base/contract.js", "assets/js/base/recipe_contract.js")  # what scripts have from Python
TOUR = "assets/tour.json"
MODELS = "assets/models/*/sarqc.json"
# Arguments that are messages, by function.
FUNCTIONS = {"tr": 1, "message": 1, "tr_parts": 1, "tr_count": 2}
# Arguments that are a message each, by function: their places and names.
DESCRIBING = {"_describe": (1, 2, "unit", "usual")}  # fields of a recipe

Message = str | tuple[str, ...]


def main() -> None:
    problems: list[str] = []
    found = gathered()
    for code in LANGUAGES:
        if code == ENGLISH:
            continue
        path = FOLDER / f"{code}.po"
        known = read_po(BytesIO(path.read_bytes() if path.exists() else b""), locale=code)
        text = po_text(updated(found, known, code))
        if "--write" in sys.argv:
            path.write_bytes(text)
        elif text != path.read_bytes():
            problems.append(f"{path.name} is not up to date: run python docs/make_catalogue.py --write")
        problems += [f"{path.name}: {problem}" for problem in problems_of(read_po(BytesIO(text), locale=code))]
    print("\n".join(problems))
    sys.exit(bool(problems) and "--check" in sys.argv)


def gathered() -> dict[Message, list[str]]:
    """Return every message with the files that have it."""
    found: dict[Message, set[str]] = {}
    for file, text in [*_of_python(), *_of_scripts(), *_of_tour(), *_of_models()]:
        found.setdefault(text, set()).add(file)
    for contract in CONTRACTS:
        written = (ROOT / contract).read_text(encoding="utf-8")
        for text, files in found.items():
            if isinstance(text, str) and json.dumps(text, ensure_ascii=False) in written:
                files.add(contract)
    return {text: sorted(files) for text, files in found.items()}


def _of_python() -> Iterator[tuple[str, Message]]:
    for place in PYTHON:
        for path in sorted((ROOT / place).rglob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                file = path.relative_to(ROOT).as_posix()
                texts = [_literal(argument) for argument in node.args[: FUNCTIONS.get(node.func.id, 0)]]
                if texts and None not in texts:
                    yield file, _message([text for text in texts if text is not None])
                arguments = dict(enumerate(node.args)) | {keyword.arg: keyword.value for keyword in node.keywords}
                for at in DESCRIBING.get(node.func.id, ()):
                    if at in arguments and (text := _literal(arguments[at])):
                        yield file, text


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _of_scripts() -> Iterator[tuple[str, Message]]:
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / SCRIPTS).rglob("*.js"))
    command = ["node", "docs/extract_messages.mjs", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for file, text in json.loads(done.stdout):
        yield file, _message([text] if isinstance(text, str) else text)


def _of_tour() -> Iterator[tuple[str, Message]]:
    from pages.learn import texts_of

    for step in json.loads((ROOT / TOUR).read_text(encoding="utf-8"))["steps"]:
        for text in texts_of(step):
            yield TOUR, text


def _of_models() -> Iterator[tuple[str, Message]]:
    """Titles and descriptions of the models of the app, and of their texts."""
    for path in sorted(ROOT.glob(MODELS)):
        model, file = json.loads(path.read_text(encoding="utf-8")), path.relative_to(ROOT).as_posix()
        for text in (model["title"], model["description"], *(corpus["title"] for corpus in model.get("corpora", ()))):
            yield file, text


def _message(texts: list[str]) -> Message:
    return texts[0] if len(texts) == 1 else tuple(texts)


def updated(found: dict[Message, list[str]], known: Catalog, code: str) -> Catalog:
    """Return the catalogue of the messages found, with the translations known."""
    catalogue = Catalog(locale=code, project="sarqc", header_comment=f"# sarqc in {LANGUAGES[code]}", fuzzy=False)
    for text in sorted(found, key=lambda text: text if isinstance(text, str) else text[0]):
        former = known.get(text if isinstance(text, str) else text[0])
        same_kind = former is not None and isinstance(former.id, str) == isinstance(text, str)
        catalogue.add(
            text, former.string if former is not None and same_kind else None, [(f, None) for f in found[text]]
        )
    return catalogue


def po_text(catalogue: Catalog) -> bytes:
    """Return a catalogue as a file: without dates, which change by themselves."""
    body = BytesIO()
    write_po(body, catalogue, width=0, omit_header=True, include_lineno=False)
    header = (
        f'{catalogue.header_comment}\nmsgid ""\nmsgstr ""\n"Language: {catalogue.locale}\\n"\n'
        f'"Content-Type: text/plain; charset=utf-8\\n"\n"Plural-Forms: {catalogue.plural_forms}\\n"\n\n'
    )
    return header.encode() + body.getvalue()


def problems_of(catalogue: Catalog) -> Iterator[str]:
    """Yield a line for each message without a translation or with other values in it."""
    for entry in catalogue:
        if not entry.id:
            continue
        ids, strings = _texts(entry.id), _texts(entry.string)
        if not strings or not all(strings):
            yield f"no translation of “{ids[0]}”"
        elif any(_places(text) - {"count"} != _places(ids[-1]) - {"count"} for text in strings):
            yield f"other values than in “{ids[0]}”"


def _texts(text: str | tuple[str, ...] | list[str] | None) -> tuple[str, ...]:
    return () if text is None else (text,) if isinstance(text, str) else tuple(text)


def _places(text: str) -> set[str]:
    """Return the names of values in a text."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


if __name__ == "__main__":
    main()
