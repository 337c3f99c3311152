"""The study of a survey: results of its lines, and the protocol."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sarqc.calibration.pictures import LayerCurve
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.engine.measure import versions, weights_protocol
from sarqc.engine.study_output import AXES, LAYER_AXES, UNMEASURED, auto_arrays, auto_axes, curve_arrays, study_line
from sarqc.extras.survey.schema import Survey, SurveyLine
from sarqc.extras.survey.shared import SharedData, SurveyPoint
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.study.document import SECOND_SIGNS, ArrayRef, Line, StudyWriter


@dataclass
class LineResult:
    """Results of one line of the survey, draw by draw."""

    survey: Survey
    spec: SurveyLine
    items: int  # of the task; 0 without one
    curves: list[list[list[LayerCurve]]] = field(default_factory=list)  # [draw][layer][gamma]
    reports: list[list[LayerReport]] = field(default_factory=list)  # [draw][layer], of lines with “auto”
    selections: list[ModelSelection | None] = field(default_factory=list)  # [draw], of lines with “auto”
    by_size: list[dict[str, np.ndarray]] = field(default_factory=list)  # [draw], layer × size × γ × λ

    def __post_init__(self) -> None:
        shape = (len(self.survey.draws_of(self.spec)), *self.spec.shape)
        self.perplexity, self.kl, self.accuracy = (np.full(shape, np.nan) for _ in range(3))
        self.correct = np.full((*shape, self.items), UNMEASURED, dtype=np.uint8)

    def note(self, draw: int, point: tuple[int, int], quality: SurveyPoint) -> None:
        """Take the measurements at a point of a draw."""
        at = (draw, *point)
        self.perplexity[at], self.kl[at] = quality.perplexity, quality.kl
        if (accuracy := quality.accuracy()) is not None:
            self.accuracy[at], self.correct[at] = accuracy[0], quality.correct

    def point_text(self, point: tuple[int, int]) -> str:
        """Return the name of a point in words."""
        if self.spec.lams == "auto":
            return "auto" if self.selections[-1] is None else f"auto, λ {self.selections[-1].lam}"
        sign = SECOND_SIGNS[self.spec.second]
        return f"{sign} {self.spec.seconds()[point[0]]}, λ {self.spec.lams[point[1]]}"

    def line(self, writer: StudyWriter) -> Line:
        """Return the line of the study."""
        arrays: dict[str, ArrayRef] = curve_arrays(writer, self.curves, self.spec.pictures)
        arrays |= {name: writer.add(getattr(self, name), AXES) for name in ("perplexity", "kl", "accuracy")}
        if self.items:
            arrays["correct"] = writer.add(self.correct, (*AXES, "item"))
        for name in self.by_size[0] if self.by_size else ():
            stacked = np.stack([draw[name] for draw in self.by_size])
            arrays[name] = writer.add(stacked, (*LAYER_AXES[:2], "size", *LAYER_AXES[2:]))
        line, recipe = self.spec, self.spec.recipe
        if line.lams == "auto":
            chosen = line.run_at(self.survey.draws[0])
            arrays |= auto_arrays(writer, chosen, self.reports, self.selections)
            fields = auto_axes(chosen)
        else:
            fields = {"lams": line.lams, "gammas": line.seconds(), "second": line.second, "sizes": line.sizes}
        return study_line(
            recipe.method,
            line.fitting(),
            bits=recipe.bits,
            grid=recipe.grid,
            group_size=recipe.group_size,
            draws=self.survey.draws_of(line),
            arrays=arrays,
            **fields,
        )


def protocol(shared: SharedData, items: int) -> dict[str, Any]:
    """Return the protocol of all lines; ``items`` of the tasks, 0 without one."""
    survey, recipe, loaded, test = shared.survey, shared.survey.recipe, shared.bench.loaded, shared.test
    windows, unpredicted = len(test.ids) // survey.window, max(1, len(test.begin))

    def text(name: str, corpus: str, part: str, samples: int = 0) -> dict[str, Any]:
        """Return facts of a text, with the recipe's name for it where that is another."""
        facts: dict[str, Any] = {"corpus": corpus} if name == corpus else {"corpus": corpus, "text": name}
        if part:
            facts["part"] = part
        # Without it, a run of the study's settings begins its sequences as the model's tokenizer does.
        if test.begin or recipe.begin == "none":
            facts["begin"] = test.begin.text or "none"
        if samples:
            facts |= {"samples": samples, "length": recipe.length, "tokens": samples * recipe.length}
        return facts

    return {
        "calibration": text(recipe.calibration, shared.calibration.corpus, shared.calibration.part, recipe.samples)
        | {"sampling": "random"}
        | ({"begin_rule": "bos"} if recipe.begin == "bos" else {}),
        "held_out": text(
            survey.held_out, shared.held_out.protocol["corpus"], shared.held_out_part, survey.held_out_samples
        ),
        "test": text(survey.test, test.corpus, test.part)
        | {
            "window": survey.window,
            "windows": windows,
            "predicted_tokens": windows * (survey.window - unpredicted),
            "dtype": str(loaded.compute_dtype).removeprefix("torch."),
        }
        | ({} if test.first is None else {"only_the_first_tokens": test.first}),
        "tasks": [*recipe.tasks],
        **({} if recipe.task_limit is None else {"task_limit": recipe.task_limit}),
        "items": items,
        "device": str(loaded.device),
        "versions": versions(),
        **weights_protocol(loaded.checkpoint),
    }
