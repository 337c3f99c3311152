"""Writes every name and shape that Python and the browser share to ``assets/js/base``; ``--check`` only compares.

``contract.js`` has the names, ``recipe_contract.js`` the fields of a recipe and the methods, ``types.d.ts`` the shapes
of documents. A name has its home where Python uses it (events, states, quantities, …).
"""

import pkgutil
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, get_args

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from typescript import Declarations, literal

from benchmarks.efforts import MeasuredEffort, means, rows_of_runs
from sarqc.calibration.corpora import CorpusEntry
from sarqc.documents import FORMAT_WORDS, SIGNS
from sarqc.engine.plan import Plan
from sarqc.events import EVENT_TYPES
from sarqc.figures.compare import StudyComparison
from sarqc.figures.drawing import CIVIDIS, ROLES, Role
from sarqc.figures.flags import GPTQ
from sarqc.figures.ladder import LadderView
from sarqc.figures.layer_map import QUANTITIES
from sarqc.figures.rounding import RoundingView
from sarqc.figures.surfaces import POOLINGS
from sarqc.figures.tuning_figures import TuningView
from sarqc.figures.view import View
from sarqc.jobs.annotations import MOST_TAGS, NAME_LENGTH, NOTE_LENGTH, TAG_LENGTH
from sarqc.jobs.links import AT_MOST, DAYS, DAYS_AT_MOST
from sarqc.jobs.listing import SORTS
from sarqc.jobs.run import AT_REST, STATE_WORDS, RunDocument, State
from sarqc.models.catalogue import ModelEntry
from sarqc.quantization.methods import AS_FOUND, METHODS
from sarqc.recipe import (
    EFFORTS,
    FITTING_WORDS,
    FORMER_NAMES,
    NOT_ASKED_OF_OPENED,
    OF_THE_OTHER_KIND,
    REPAIRING,
    Fitting,
    Recipe,
    can_be_tuned,
    field_extra,
    fields_without_flag,
    fitting_of,
    idle_fields,
    known_entry,
    public_name,
)
from sarqc.recipe.fields import Form
from sarqc.recipe.texts import ProgramText, RecipeText
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from sarqc.study.ladder import STEPS
from sarqc.study.library import StudyListing
from sarqc.study.paired import clear_from
from sarqc.web.link_preview import SITE
from sarqc.web.page_names import (
    CARDS,
    CONTROLS,
    DOORS,
    DRAWINGS,
    EVERYWHERE,
    PANELS,
    SHOWN,
    FieldKind,
    field_kind,
)
from sarqc.web.static import WORKER

ASSETS = Path(__file__).resolve().parent.parent / "assets"
SCRIPTS, STUDIES = ASSETS / "js" / "base", ASSETS / "studies"
OF_EXTRAS = [  # shapes that only this list knows of extras, which the core does not import
    f"sarqc.extras.classroom.lectures:{name}"
    for name in ("LectureBegun", "LectureWish", "HallState", "PhoneGuess", "PhoneState")
]

LINK_LASTS = {"days": DAYS, "choices": (1, 7, DAYS, 90, DAYS_AT_MOST), "links": AT_MOST}

# Characters of annotations of a run, and the number of tags.
WRITTEN_AT_MOST = {"name": NAME_LENGTH, "note": NOTE_LENGTH, "tag": TAG_LENGTH, "tags": MOST_TAGS}


class RecipeField(TypedDict):
    """A field of a recipe: its names in Python and in documents (``key``), how the form reads it, and its words."""

    name: str
    key: str
    kind: FieldKind
    title: str
    unit: str
    section: str
    form: Form
    default: NotRequired[bool | float | str | list[str] | None]  # none where it is required


class Auto(TypedDict):
    """Candidates of “auto”, for each layer or for the whole model."""

    by: Literal["layer", "model"]
    lams: list[float]
    gammas: list[float]
    strengths: list[float]  # α of GPTAQ's shift


class Unasked(TypedDict):
    """Names of the fields that the form leaves out, with λ and γ given or chosen by “auto”."""

    given: list[str]
    auto: list[str]


class FormMethod(TypedDict):
    """A method as the form knows it.

    ``efforts`` has all fields that efforts set, with their values for this method, by effort.
    """

    name: str
    title: str
    baseline: str
    unit: str
    tunes: list[str]
    options: list[str]
    defaults: dict[str, bool | float | str | None]
    auto: Auto | None
    efforts: dict[str, Fitting]
    unasked: Unasked
    can_tune: bool  # whether tuning can find its λ
    about: str  # one line
    also: str  # a further name, which is accepted too; empty: none
    penalty: Literal["", "identity", "saliency"]  # of drift; empty: a baseline
    conditions: dict[str, tuple[str, str, str]]  # see ``Method``


class StudiedBand(TypedDict):
    """The λ of a line, at one γ, that are not significantly worse than its best one."""

    study: str
    model: str
    bits: int
    grid: str
    group_size: int | None
    method: str
    fitting: dict[str, int | float | str]
    gamma: float | None
    low: float
    high: float
    best: float
    draws: int


PAPERS_GRID: dict[str, int | float | str] = {
    name: Recipe.model_fields[name].default for name in ("range", "order", "refine", "refit")
}
# Further fields that a form leaves out of tuning: its results, and what it refuses.
NOT_ASKED_TO_TUNE = ("lam", "gamma", "sweep", "layer", "from_block", "then_lam", "then_gamma")
FEWEST_LAMS = 4  # of a line: among fewer a band says little


def studied_bands() -> list[StudiedBand]:
    """Return the bands of all shipped lines with several draws and enough values of λ."""
    bands: list[StudiedBand] = []
    for folder in sorted(path.parent for path in STUDIES.glob("*/study.json")):
        study = Study.open(folder)
        for line in study.lines:
            quality = line_facts(study, method=line.name, bits=line.bits, layer=None, with_identity=False).perplexity
            if quality is None or quality.n_draws < 2 or line.second != "gamma" or line.selected:
                continue
            for g, gamma in enumerate(line.gammas):
                best, lams = quality.best[g], [lam for m, lam in enumerate(line.lams) if quality.band[g, m]]
                if best is None or np.isfinite(quality.mean[g]).sum() < FEWEST_LAMS:
                    continue
                bands.append(
                    {
                        "study": study.id,
                        "model": study.model.name,
                        "bits": line.bits,
                        "grid": line.grid,
                        "group_size": line.group_size,
                        "method": line.method,
                        "fitting": PAPERS_GRID
                        | {name: line.fitting[name] for name in PAPERS_GRID if name in line.fitting},
                        "gamma": gamma,
                        "low": min(lams),
                        "high": max(lams),
                        "best": line.lams[best],
                        "draws": quality.n_draws,
                    }
                )
    return bands


def recipe_field(name: str) -> RecipeField:
    """Return what the browser knows of a field of the recipe."""
    info = Recipe.model_fields[name]
    extra = field_extra(info)
    field: RecipeField = {
        "name": name,
        "key": public_name(name),
        "kind": field_kind(info),
        "title": str(info.title),
        "unit": extra.unit,
        "section": extra.section,
        "form": extra.form,
    }
    if not info.is_required():
        field["default"] = list(info.default) if isinstance(info.default, tuple) else info.default
    return field


def form_method(name: str) -> FormMethod:
    """Return a method, and the fields that mean nothing to it.

    With them a λ curve, which “auto” refuses and which for a method that learns a block would be another training at
    each λ: nobody wants that by accident.
    """
    entry = known_entry(name)
    learned = entry.make.unit == "block"
    auto: Auto | None = None
    if entry.auto is not None:
        lams, gammas, strengths = (list(entry.auto.axes().get(field, ())) for field in SIGNS)
        auto = {"by": entry.auto.by, "lams": lams, "gammas": gammas, "strengths": strengths}

    def unasked(is_auto: bool) -> list[str]:
        idle = idle_fields(name, auto=is_auto) | ({"sweep"} if is_auto or learned else set())
        return [field for field in Recipe.model_fields if field in idle]

    idle: Unasked = {"given": unasked(False), "auto": unasked(entry.auto is not None)}
    plain: Fitting = {field: Recipe.model_fields[field].default for field in EFFORTS["best"]}
    efforts: dict[str, Fitting] = {effort: plain | fitting_of(effort, {"method": name}) for effort in EFFORTS}
    return {
        "name": name,
        "title": entry.title,
        "baseline": entry.baseline,
        "unit": entry.make.unit,
        "tunes": list(entry.tunes),
        "options": list(entry.options),
        "defaults": entry.defaults(),
        "auto": auto,
        "conditions": entry.make.conditions,
        "efforts": efforts,
        "unasked": idle,
        "can_tune": can_be_tuned(name),
        "about": entry.about,
        "also": entry.also,
        "penalty": entry.make.saliency if "lam" in entry.tunes else "",
    }


Constant = tuple[str, str, str, Any]  # of a script: its name, its type, the sentence above it, and its value


def names() -> list[Constant]:
    """Return the constants of contract.js, in their order."""
    quantities = {name: short for name, (_, short, *_) in QUANTITIES.items()}
    poolings = {pooling.name: pooling.title for pooling in POOLINGS}
    at_rest = [state for state in State if state in AT_REST]
    ends = [kind for kind in EVENT_TYPES if kind in at_rest]
    clear = [round(value, 4) for value in clear_from(np.arange(1, 31)).tolist()]
    return [
        ("STATE_WORDS", "Record<State, string>", "Where a run stands, in the words of the page.", STATE_WORDS),
        ("AT_REST", "State[]", "States in which nothing goes on by itself.", at_rest),
        ("ENDS", "EventType[]", "Events that end a run, named like the state after them.", ends),
        ("RUN_SORTS", "string[]", "What runs can be sorted by.", list(SORTS)),
        ("WRITTEN_AT_MOST", "Record<string, number>", "Bounds of what people write on a run.", WRITTEN_AT_MOST),
        (
            "LINK_LASTS",
            "{days: number, choices: number[], links: number}",
            "How many days a share link lasts, by default and to choose from, and how many a run or study has at most.",
            LINK_LASTS,
        ),
        (
            "FITTING_WORDS",
            "Record<string, string | Record<string, string>>",
            "How a grid is fitted where it is not plainly: words of each value, or of all with the value in them.",
            {name: words for name, words in FITTING_WORDS.items() if name != "grid"},
        ),
        ("SIGNS", "Record<string, string>", "How people write what “auto” may choose.", SIGNS),
        ("FORMAT_WORDS", "Record<string, string>", "What each format of a checkpoint is.", FORMAT_WORDS),
        ("SITE", "string", "What ends every page's title.", SITE),
        ("QUANTITIES", "Record<Quantity, string>", "What the map of layers can be coloured by.", quantities),
        ("LADDER_STEPS", "string[]", "Steps of the ladder, in their usual order.", list(STEPS)),
        ("POOLINGS", "Record<PoolingName, string>", "Ways of pooling ΔW, and their words.", poolings),
        ("SHOWN", "Record<Shown, string>", "What the main figure can show.", SHOWN),
        ("DOORS", "Record<Door, string>", "Parts of the Lab below its main figure.", DOORS),
        ("DRAWINGS", "Record<Drawing, string>", "How the weights can be drawn.", DRAWINGS),
        ("WORKER", "string", "The script that runs a model beside the page.", WORKER),
        ("CLEAR_FROM", "number[]", "Standard errors to be clear, by degrees of freedom from 1.", clear),
        ("CONTROLS", "Record<Control, string>", "What a link can lock or hide, in the Lab's order.", CONTROLS),
        ("PANELS", "Record<Panel, string>", "What a link can only hide.", PANELS),
        ("CARDS", "Record<string, string>", "What can stand alone in a frame.", CARDS),
        ("EVERYWHERE", "Record<string, string>", "What a link can hide on every page.", EVERYWHERE),
        ("ROLES", "Record<RoleName, Role>", "Colour, dash and marker of each quantity, as plotly says.", ROLES),
        ("CIVIDIS", "number[][]", "The shades of all maps at five places, dark to light, as RGB.", CIVIDIS),
    ]


def recipe_names() -> list[Constant]:
    """Return the constants of recipe_contract.js."""
    fields = {name: recipe_field(name) for name in Recipe.model_fields}
    methods = {name: form_method(name) for name in METHODS}
    idle = [public_name(name) for name in (*OF_THE_OTHER_KIND["tune"], *NOT_ASKED_TO_TUNE)]
    unused_in_ladders = sorted(public_name(name) for name in fields_without_flag("ladder") - {"quantized_checkpoint"})
    return [
        ("PAPERS_GRID", "Record<string, string | number>", "How the paper fits a group's levels.", PAPERS_GRID),
        ("RECIPE_FIELDS", "Record<string, RecipeField>", "Fields of a recipe by their name in Python.", fields),
        (
            "MEASURED_EFFORTS",
            "MeasuredEffort[]",
            "What efforts cost and gain on models of the app, as measured.",
            means(rows_of_runs()),
        ),
        (
            "STUDIED_BANDS",
            "StudiedBand[]",
            "The λ of lines of the shipped studies that can't be told from the best one, by perplexity.",
            studied_bands(),
        ),
        ("GPTQ_LAM", "number", "The λ of the identity penalty that is GPTQ's default damping.", GPTQ.lam),
        ("FORMER_NAMES", "Record<string, string>", "Names of fields by their former names.", FORMER_NAMES),
        ("METHODS", "Record<string, FormMethod>", "Methods by their public names.", methods),
        ("AS_FOUND", "FormMethod", "How a quantized checkpoint is measured.", form_method(AS_FOUND)),
        ("REPAIRING", "string[]", "Methods that solve its codes again.", list(REPAIRING)),
        (
            "NOT_ASKED_OF_OPENED",
            "string[]",
            "Fields that mean nothing to it, by their names in Python.",
            list(NOT_ASKED_OF_OPENED),
        ),
        ("NOT_IN_TUNING", "string[]", "What a form says that means nothing to tuning, by public names.", idle),
        ("NOT_IN_A_LADDER", "string[]", "The same of a ladder.", unused_in_ladders),
    ]


_CHANGE = "Written by `python docs/make_contract.py`: change it there."
_IMPORT = 'import { frozen } from "./contract.js";\n'
_FROZEN = """/**
 * The same data, which nobody can change.
 * @template T
 * @param {T} value
 * @returns {T}
 */
export function frozen(value) {
  for (const part of Object.values(/** @type {object} */ (value))) if (typeof part === "object" && part) frozen(part);
  return Object.freeze(value);
}
"""


def script(module: str, about: str, head: str, constants: Sequence[Constant]) -> str:
    """Return the text of a script of constants."""
    kinds = " ".join(kind for _, kind, _, _ in constants)
    used = ", ".join(sorted({*re.findall(r"\b[A-Z]\w+", kinds)} - {"Record"}))
    about = f"/**\n * {about} {_CHANGE}\n * @module {module}\n */\n"
    parts = [about, head, f'/** @import {{ {used} }} from "./types.d.ts" */\n']
    for name, kind, comment, value in constants:
        type_ = f"readonly {kind}" if kind.endswith("[]") else f"Readonly<{kind}>"
        text = f"export const {name} = frozen({literal(value)});"
        parts.append(f"/**\n * {comment}\n * @type {{{type_}}}\n */\n{text}\n")
    return "\n".join(parts)


def shapes() -> str:
    """Return the text of types.d.ts."""
    declared = Declarations()
    for name, values, comment in (
        ("State", list(State), "Where a run stands."),
        ("Quantity", QUANTITIES, "What the map of layers is coloured by."),
        ("PoolingName", [pooling.name for pooling in POOLINGS], "How ΔW is pooled."),
        ("Shown", SHOWN, "What the main figure shows."),
        ("Door", DOORS, "Part of the Lab below its main figure."),
        ("Drawing", DRAWINGS, "How the weights are drawn."),
        ("Control", CONTROLS, "What a link can lock or hide."),
        ("Panel", PANELS, "What a link can only hide."),
        ("RoleName", ROLES, "Quantity with a colour of its own."),
        ("EventType", EVENT_TYPES, "What a run says."),
        ("Form", get_args(Form), "Place of a field in the form."),
    ):
        declared.union(name, list(values), comment)
    for shape in (
        Role,
        RecipeField,
        MeasuredEffort,
        FormMethod,
        StudiedBand,
        Recipe,
        Plan,
        ModelEntry,
        CorpusEntry,
        View,
        StudyComparison,
        TuningView,
        LadderView,
        RoundingView,
        StudyListing,
        *map(pkgutil.resolve_name, OF_EXTRAS),
        RecipeText,
        ProgramText,
    ):
        declared.interface(shape)
    declared.interface(RunDocument, "Run")
    kinds = [declared.interface(kind, first=f'type: "{kind.type}"') for kind in EVENT_TYPES.values()]
    declared.alias("RunEvent", kinds, "Whatever a run says.")
    declared.alias("StoredEvent", ["RunEvent & { seq: number; at: string }"], "A line of a run's log.")
    return f"/**\n * Shapes of the documents that cross to the browser. {_CHANGE}\n */\n\n{declared.text()}"


def files() -> dict[Path, str]:
    """Return every generated file and its text."""
    return {
        SCRIPTS / "contract.js": script("contract", "The names that Python and the browser share.", _FROZEN, names()),
        SCRIPTS / "recipe_contract.js": script(
            "recipe_contract", "The fields of a recipe, and the methods.", _IMPORT, recipe_names()
        ),
        SCRIPTS / "types.d.ts": shapes(),
    }


if __name__ == "__main__":
    for path, text in files().items():
        if "--check" not in sys.argv:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is not current: run python docs/make_contract.py")
