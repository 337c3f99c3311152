"""What a survey asks, and what each of its lines leaves: many methods, widths, λ, γ and calibration draws of one model.

``inputs_from: float`` explores: statistics come from the float model, one pass for each draw, shared by everything, and
candidates are solved as batches. ``inputs_from: quantized`` does for each point what a run would do. ``surveying``
conducts it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sarqc.calibration.plan import LayerCurve
from sarqc.errors import Refused
from sarqc.model_selection import ModelSelection
from sarqc.quantization.grid import Kind
from sarqc.quantization.methods import METHODS, method
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import Recipe
from sarqc.study import ArrayRef, Line, StudyWriter
from sarqc.study_lines import (
    AXES,
    LAYER_AXES,
    UNMEASURED,
    auto_fields,
    curve_arrays,
    study_line,
)

Auto = Literal["auto"]


class SurveyLine(BaseModel):
    """One method with the values of its axes; ``lambda: auto`` leaves λ, and γ unless it is given, to be chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    method: str
    bits: int = Field(ge=2, le=4)
    lams: tuple[float, ...] | Auto = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")
    sizes: tuple[int, ...] = ()  # numbers of calibration sequences for which every layer is solved as well

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of γ and of λ."""
        return (1, 1) if self.lams == "auto" else (len(self.gammas), len(self.lams))


class Survey(BaseModel):
    """What a survey file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    model: str
    grid: Kind
    group_size: int | None
    inputs_from: Literal["float", "quantized"] = "float"
    calibration: str
    samples: int = Field(ge=1)
    length: int = Field(ge=2)
    draws: tuple[int, ...] = Field(min_length=1)
    held_out: str
    held_out_samples: int = Field(ge=1)
    test: str
    window: int = Field(ge=2)
    task: str
    lines: tuple[SurveyLine, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _lines_are_possible(self) -> Survey:
        for line in self.lines:
            where = f"survey “{self.title}”, {line.method} at {line.bits} bits"
            if "cross" in method(line.method).needs and self.inputs_from == "float":
                raise Refused(
                    f"{line.method} corrects what the quantized blocks before a layer did to its inputs, and this "
                    "survey takes every layer's inputs from the float model, where there is nothing to correct",
                    where,
                    "Set inputs_from to quantized, or leave the line out.",
                )
            if line.lams == "auto" and METHODS[line.method].auto is None:
                raise Refused("there is nothing that “auto” could choose", where, "Leave λ out.")
            if line.lams == "auto" and len(line.gammas) > 1:
                raise Refused(
                    "with “auto” for λ there is one γ, or “auto” chooses it too",
                    where,
                    "Leave γ out, or give one value.",
                )
            if line.sizes and (self.inputs_from == "quantized" or line.lams == "auto"):
                raise Refused(
                    "layers at several sizes are solved on the float model's inputs, at given λ",
                    where,
                    "Leave sizes out, or set inputs_from to float.",
                )
        return self

    @classmethod
    def from_file(cls, path: Path) -> Survey:
        """A survey from a YAML file. Raises ``Refused``."""
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
            reason = " ".join(str(error).split()[:40])
            raise Refused(f"the survey can't be read: {reason}", str(path), "See assets/studies for one.") from None


@dataclass
class LineResult:
    """All that one line of the survey leaves, draw by draw."""

    survey: Survey
    wanted: SurveyLine
    items: int
    curves: list[list[list[LayerCurve]]] = field(default_factory=list)  # [draw][layer][gamma]
    reports: list[list[LayerReport]] = field(default_factory=list)  # [draw][layer], of lines with “auto”
    selections: list[ModelSelection | None] = field(default_factory=list)  # [draw], of lines with “auto”
    by_size: list[dict[str, np.ndarray]] = field(default_factory=list)  # [draw], layer × size × γ × λ

    def __post_init__(self) -> None:
        shape = (len(self.survey.draws), *self.wanted.shape)
        self.perplexity, self.accuracy = np.full(shape, np.nan), np.full(shape, np.nan)
        self.correct = np.full((*shape, self.items), UNMEASURED, dtype=np.uint8)

    def measured(self, draw: int, point: tuple[int, int], perplexity: float, correct: np.ndarray) -> None:
        self.perplexity[(draw, *point)] = perplexity
        self.accuracy[(draw, *point)] = np.mean(correct)
        self.correct[(draw, *point)] = correct

    def point_text(self, point: tuple[int, int]) -> str:
        if self.wanted.lams == "auto":
            return "auto" if self.selections[-1] is None else f"auto, λ {self.selections[-1].lam}"
        return f"γ {self.wanted.gammas[point[0]]}, λ {self.wanted.lams[point[1]]}"

    def line(self, writer: StudyWriter) -> Line:
        survey, wanted = self.survey, self.wanted
        arrays: dict[str, ArrayRef] = curve_arrays(writer, self.curves)
        arrays |= {name: writer.add(getattr(self, name), AXES) for name in ("perplexity", "accuracy")}
        arrays["correct"] = writer.add(self.correct, (*AXES, "item"))
        fields: dict[str, Any] = {"lams": wanted.lams, "gammas": wanted.gammas, "sizes": wanted.sizes}
        if wanted.lams == "auto":
            by = METHODS[wanted.method].auto.by
            recipe = recipe_for(survey, wanted, survey.draws[0])
            fields, chosen = auto_fields(writer, by, recipe.candidates(), self.reports, self.selections)
            arrays |= chosen
        for name in self.by_size[0] if self.by_size else ():
            stacked = np.stack([draw[name] for draw in self.by_size])
            arrays[name] = writer.add(stacked, (*LAYER_AXES[:2], "size", *LAYER_AXES[2:]))
        return study_line(
            wanted.method, bits=wanted.bits, grid=survey.grid, group_size=survey.group_size, draws=survey.draws,
            arrays=arrays, **fields,
        )  # fmt: skip


def recipe_for(
    survey: Survey, line: SurveyLine, seed: int, lam: float | Auto = "auto", gamma: float | None = None
) -> Recipe:
    """What a run of one point would be asked; λ and γ as far as the method has them."""
    tunes = METHODS[line.method].tunes
    values: dict[str, Any] = {"lambda": lam, "gamma": "auto" if lam == "auto" and gamma is None else gamma}
    names = {"lambda": "lam", "gamma": "gamma"}
    return Recipe.parse(
        {
            "model": survey.model, "bits": line.bits, "grid": survey.grid,
            "group_size": "per_channel" if survey.group_size is None else survey.group_size, "method": line.method,
            "calibration": survey.calibration, "samples": survey.samples, "length": survey.length,
            "sampling": "random", "seed": seed, "inputs_from": survey.inputs_from,
        }
        | {name: value for name, value in values.items() if names[name] in tunes and value is not None}
    )  # fmt: skip
