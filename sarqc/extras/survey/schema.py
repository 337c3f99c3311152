"""Content of survey files: many methods, widths, λ, γ (or α, or β) and calibration draws of one model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sarqc.engine.study_output import Pictures
from sarqc.errors import Refused
from sarqc.files.yaml_document import read_yaml
from sarqc.quantization.methods import METHODS, Method, method
from sarqc.recipe import FITTING, Recipe, public_name, renamed
from sarqc.study.document import SECOND_SIGNS, Second

Auto = Literal["auto"]

_LINE_FIELDS = ("method", "bits", "range", "order", "refine", "refit", "expert_damping", "warm_start")
_IN_COMMON = (
    "model",
    "grid",
    "group_size",
    "inputs_from",
    "calibration",
    "samples",
    "length",
    "test_tokens",
    "begin",
    "tasks",
    "task_limit",
)


class SurveyLine(BaseModel):
    """A method with the values of its axes.

    ``lambda: auto`` leaves λ, and γ unless it is given, to be chosen, and α of a method that has nothing else to
    choose.

    Attributes:
        recipe: Its fields that are a recipe's, with those of the survey.
        lams: Values of λ, or “auto”.
        gammas: Values of γ; None for the method's own.
        strengths: Values of α, the strength of GPTAQ's shift, in the place of γ; empty for the method's own.
        betas: Values of β, the weight of FOEM's first-order term, in the place of γ; empty for the method's own.
        sizes: Further numbers of calibration sequences for which every layer is solved.
        draws: Number of the survey's draws, from the first; None for all.
        tasks_at: Values of λ at which the tasks are measured, at the first γ and in the first draw; None for every
            point of every draw.
        pictures: Pictures of the line's weights in the study.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    recipe: Recipe
    lams: tuple[float, ...] | Auto = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")
    strengths: tuple[float, ...] = Field((), alias="shift_strength")
    betas: tuple[float, ...] = Field((), alias="first_order")
    sizes: tuple[int, ...] = ()
    draws: int | None = Field(None, ge=1)
    tasks_at: tuple[float, ...] | None = None
    pictures: Pictures = "all"

    @property
    def second(self) -> Second:
        """The value that the second axis holds."""
        return "shift_strength" if self.strengths else "first_order" if self.betas else "gamma"

    def seconds(self) -> tuple[float | None, ...]:
        """Return the values of the second axis; None for the method's own γ."""
        return self.strengths or self.betas or self.gammas

    def fitting(self) -> dict[str, str | int | float]:
        """Return the values of ``FITTING`` that are not plain."""
        differences = self.recipe.differences()
        return {name: differences[name] for name in FITTING if name in _LINE_FIELDS and name in differences}

    def to_method(self, second: float | None = None) -> Method:
        """Return the method with its own λ.

        Args:
            second: A value of the second axis; None for the method's own.

        Raises:
            Refused: For a value that the method does not have.
        """
        return method(self.recipe.method, **self.fitting(), **({} if second is None else {self.second: second}))

    def run_at(self, seed: int, lam: float | Auto = "auto", second: float | None = None) -> Recipe:
        """Return the recipe of a run at one point, with λ and the second value as far as the method has them.

        Args:
            seed: Seed of the draw.
            lam: λ; “auto” chooses α of a method that has nothing else to choose.
            second: A value of the second axis; None for the method's own, or for a γ of “auto” beside a λ of “auto”.
        """
        entry = METHODS[self.recipe.method]
        values: dict[str, Any] = {"lambda": lam, self.second: "auto" if lam == "auto" and second is None else second}
        if lam == "auto" and "lam" not in entry.tunes:
            values["shift_strength"] = "auto"
        read = {public_name(name) for name in (*entry.tunes, *entry.options)}
        return Recipe.parse(
            self.recipe.differences()
            | {"sampling": "random", "seed": seed}
            | {name: value for name, value in values.items() if name in read and value is not None}
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of values on the second axis and of λ."""
        return (1, 1) if self.lams == "auto" else (len(self.seconds()), len(self.lams))

    def points(self) -> tuple[float, ...]:
        """Return the values of λ; empty with “auto”."""
        return () if self.lams == "auto" else self.lams


class Survey(BaseModel):
    """Content of a survey file; its lines have the fields that are a recipe's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    draws: tuple[int, ...] = Field(min_length=1)
    held_out: str
    held_out_samples: int = Field(ge=1)
    test: str
    window: int = Field(ge=2)
    lines: tuple[SurveyLine, ...] = Field(min_length=1)

    @property
    def recipe(self) -> Recipe:
        """A recipe with all that the lines have in common."""
        return self.lines[0].recipe

    def draws_of(self, line: SurveyLine) -> tuple[int, ...]:
        """Return the seeds of the draws of a line."""
        return self.draws[: line.draws]

    @model_validator(mode="before")
    @classmethod
    def _lines_have_recipes(cls, document: Any) -> Any:
        given_lines = document.get("lines") if isinstance(document, dict) else None
        if not isinstance(given_lines, list) or not all(isinstance(line, dict) for line in given_lines):
            return document  # which is refused
        common = {"inputs_from": "float"} | {name: document[name] for name in _IN_COMMON if name in document}
        lines = []
        for line in map(renamed, given_lines):
            own = {name: value for name, value in line.items() if name in _LINE_FIELDS}
            lines.append({name: value for name, value in line.items() if name not in own})
            lines[-1]["recipe"] = Recipe.parse(common | own)
        return {name: value for name, value in document.items() if name not in _IN_COMMON} | {"lines": lines}

    @model_validator(mode="after")
    def _lines_are_possible(self) -> Survey:
        names = set()
        for line in self.lines:
            recipe = line.recipe
            where = f"survey “{self.title}”, {recipe.method} at {recipe.bits} bits"
            name = (recipe.method, recipe.bits, line.lams == "auto", line.second, *line.fitting().items())
            for is_wrong, what, remedy in (
                (name in names, "the line is there twice", "Merge the two."),
                (
                    not set(line.tasks_at or ()) <= set(line.points()),
                    "tasks_at names a λ that the line does not have",
                    "Correct tasks_at.",
                ),
                (
                    line.lams == "auto" and METHODS[recipe.method].auto is None,
                    "there is nothing that “auto” could choose",
                    "Leave λ out.",
                ),
                (
                    line.lams == "auto" and len(line.gammas) > 1,
                    "with “auto” for λ there is one γ, or “auto” chooses it too",
                    "Leave γ out, or give one value.",
                ),
                *_problems_of_second(line),
                (
                    line.sizes and (recipe.inputs_from == "quantized" or line.lams == "auto"),
                    "layers at several sizes are solved on the float model's inputs, at given λ",
                    "Leave sizes out, or set inputs_from to float.",
                ),
            ):
                if is_wrong:
                    raise Refused(what, where, remedy)
            names.add(name)
            for value in line.seconds():
                line.to_method(value)  # which refuses a method without it
        return self

    @classmethod
    def from_file(cls, path: Path) -> Survey:
        """Return a survey from a YAML file.

        Raises:
            Refused: If the file can't be read or is not a survey.
        """
        document = read_yaml(path, "survey")
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            reason = " ".join(str(error).split()[:40])
            raise Refused(f"the survey can't be read: {reason}", str(path), "See assets/studies for one.") from None


def _problems_of_second(line: SurveyLine) -> Iterator[tuple[bool, str, str]]:
    """Yield problems of α or β: other values beside them, or no 0 to compare them with."""
    if line.second == "gamma":
        return
    sign, values = SECOND_SIGNS[line.second], line.seconds()
    for name, is_given in (
        ("gamma", line.gammas != (None,)),
        ("first_order", bool(line.strengths and line.betas)),
        ("sizes", bool(line.sizes)),
        ("lambda: auto", line.lams == "auto"),
    ):
        what = f"a line over {sign} has nothing else beside λ, and {name} is given"
        yield is_given, what, f"Leave {name} out, or make two lines."
    yield (
        values[0] != 0 or len({*values}) < len(values),
        f"the values of {sign} are compared with {sign} = 0, which is not the first of them, or one is there twice",
        f"Begin {line.second} with 0, and give each value once.",
    )
