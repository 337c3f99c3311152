"""Writes docs/reference.md from the code: recipe fields, methods, settings, events. ``--check`` only compares."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sarqc import extras
from sarqc.documents import SIGNS
from sarqc.events import EVENT_TYPES
from sarqc.quantization.methods import METHODS, Candidates
from sarqc.recipe import Recipe, field_extra, public_name
from sarqc.settings import Settings

PAGE = Path(__file__).parent / "reference.md"


SCHEMA = Recipe.model_json_schema()


def largest(schema: dict[str, Any]) -> float | None:
    """The largest number that a field takes, or its entries; None for one that takes no number."""
    parts = [schema, schema.get("items", {}), *schema.get("anyOf", ())]
    return next((part["maximum"] for part in parts if "maximum" in part), None)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def page() -> str:
    fields = []
    for name, info in Recipe.model_fields.items():
        default = "required" if info.is_required() else repr(info.default).replace("'", "")
        unit = field_extra(info).unit
        shell = field_extra(info).in_a_shell.replace("A path", "On the command line a path")
        most = largest(SCHEMA["properties"][public_name(name)])
        bound = "" if most is None else f"At most {most:,.16g}."
        text = " ".join(filter(None, (info.description, f"Unit: {unit}." if unit else "", bound, shell)))
        fields.append([f"`{public_name(name)}`", f"`--{public_name(name).replace('_', '-')}`", default, text])
    methods = [
        [
            f"`{name}`",
            f"`{entry.also}`" if entry.also else "–",
            entry.title,
            ", ".join(SIGNS[parameter] for parameter in entry.tunes) or "–",
            _tries(entry.auto),
            ", ".join(f"`{option}`" for option in entry.options) or "–",
            f"`{entry.baseline}`",
            entry.make.unit,
            ", ".join(sorted(entry.make.needs)) or "–",
        ]
        for name, entry in METHODS.items()
    ]
    settings = [
        [f"`SARQC_{name.upper()}`", "" if info.default is None else str(_relative(info.default)), info.description]
        for kind in (Settings, *(extra.settings for extra in extras.known().values() if extra.settings))
        for name, info in kind.model_fields.items()
    ]
    events = [
        [
            f"`{name}`",
            ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)) or "–",
            (kind.__doc__ or "").split("\n")[0],
        ]
        for name, kind in EVENT_TYPES.items()
    ]
    return (
        "\n\n".join(
            [
                "# Reference",
                "Written by `python docs/make_reference.py`; `make check` compares it with the code.",
                "## Recipe",
                "The fields of a recipe file, which are also the flags of `python -m sarqc quantize` and the body of "
                "`POST /api/runs`.",
                table(["field", "flag", "default", "meaning"], fields),
                "## Methods",
                "A method has the paper’s name and, where that does not say what it is, a telling one; both are "
                "accepted.",
                table(
                    ["name", "also", "", "chooses", "“auto” tries", "options", "compared with", "works on a", "needs"],
                    methods,
                ),
                "## Settings",
                "Read from the environment when the app or the command line starts.",
                table(["variable", "default", "meaning"], settings),
                "## Events",
                "What a run says, in `GET /api/runs/{id}/events` and in the log of a run.",
                table(["type", "fields", "meaning"], events),
                "## REST",
                "Routes under `/api`; `GET /api/openapi.json` has their parameters. Errors are "
                '`{"error": {"kind", "what", "where", "remedy"}}`.',
            ]
        )
        + "\n"
    )


def _tries(auto: Candidates | None) -> str:
    if auto is None:
        return "–"
    axes = auto.axes().items()
    said = "; ".join(f"{SIGNS[field]} {', '.join(f'{value:g}' for value in values)}" for field, values in axes)
    return f"for each layer: {said}" if auto.by == "layer" else f"for the whole model: {said}"


def _relative(default: object) -> object:
    root = Path(__file__).resolve().parent.parent
    return default.relative_to(root) if isinstance(default, Path) and default.is_relative_to(root) else default


if __name__ == "__main__":
    text = page()
    if "--check" in sys.argv:
        if PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/reference.md is not current: run python docs/make_reference.py")
    else:
        PAGE.write_text(text, encoding="utf-8")
