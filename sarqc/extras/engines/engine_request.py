"""A request to another engine: GPTQ with a penalty on all linears, or with one for each that “auto” chose.

All engines share GPTQ: λ of the identity penalty is their damping, that share of the mean of the Gram's diagonal added
to each of its entries. Settings that no engine has are refused here, settings that one engine lacks where its program
is written.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sarqc.errors import Fix, Refused, in_recipe, refused_for
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe, can_be_tuned, method_title
from sarqc.study.document import Line, Study

_PATH = re.compile(r"\w+(\.\w+)*", re.ASCII)
ELSEWHERE = "recipe for other engines"


class Penalty(NamedTuple):
    """λ and γ of a linear; γ is None for the identity penalty."""

    lam: float
    gamma: float | None


@dataclass(frozen=True)
class EngineRequest:
    """A run for another engine.

    ``penalties`` are the most frequent first, with the names of their linears; a single one is that of all, without
    names.
    """

    recipe: Recipe
    penalties: Mapping[Penalty, tuple[str, ...]]
    blocks: tuple[int, ...] | None  # numbers of those that are quantized; None: all

    @property
    def usual(self) -> Penalty:
        """The penalty of all linears, or of most."""
        return next(iter(self.penalties))

    @property
    def is_identity(self) -> bool:
        """True if no linear has a saliency penalty."""
        return all(penalty.gamma is None for penalty in self.penalties)

    @property
    def has_static_scales(self) -> bool:
        """True if groups have the scales of the original weights: by choice, by the order, or as whole rows."""
        return self.recipe.static_groups or self.recipe.order != "natural" or self.recipe.group_size is None

    @property
    def title(self) -> str:
        """Title, as “3 bits, GPTQ + identity penalty, λ 0.25”."""
        lams = sorted({penalty.lam for penalty in self.penalties})
        lam = f"{lams[0]:g}" if len(lams) == 1 else f"{lams[0]:g} to {lams[-1]:g} by layer"
        return f"{self.recipe.bits} bits, {method_title(self.recipe.method)}, λ {lam}"


def request_for(recipe: Recipe, study: Study | None = None, line: Line | None = None) -> EngineRequest:
    """Return the request of a recipe; ``study`` and ``line`` are of its run, for a recipe that chose λ for each linear.

    Raises ``Refused`` for a setting that no other engine has, and for one that is known only after the run.
    """
    _check(recipe, study)
    method = recipe.to_method()
    if recipe.candidates() or method.fitting().get("expert_damping"):
        penalties = _by_layer(recipe, study, line)
    else:
        assert method.lam is not None
        penalties = {Penalty(method.lam, method.gamma): ()}
    blocks: tuple[int, ...] | None = tuple(sorted({*recipe.blocks})) or None
    if recipe.block_fraction is not None and study is not None:
        blocks = tuple(sorted({layer.block for layer in study.layers}))
    return EngineRequest(recipe, penalties, blocks)


# Steps of fitting the grid that no other engine has, each by its field with the value without it.
_OWN_STEPS: dict[str, tuple[str, Any]] = {
    "range": ("the range of each group is searched for by an error that the Gram weighs", "minmax"),
    "refine": ("the codes are refined after solving", 0),
    "refit": ("the scales are fitted to the codes after solving", 0),
    "distill": ("the scales are tuned by the predictions of the whole model", 0),
}
_CARRIED = {"order", "static_groups", "expert_damping"}  # options of the solver that the programs take


def _check_fitting(recipe: Recipe) -> None:
    """Refuse all steps of fitting the grid that no other engine has, at once: an effort sets several of them."""
    steps = {name: words for name, (words, without) in _OWN_STEPS.items() if getattr(recipe, name) != without}
    if not steps:
        return
    without = {name: _OWN_STEPS[name][1] for name in steps}
    settings = ", ".join(f"{name} to {value}" for name, value in without.items())
    raise Refused(
        f"{'; '.join(steps.values())}: no other engine does",
        in_recipe(", ".join(steps)),
        f"Set {settings}.",
    ).about(next(iter(steps)), Fix("Fit the grid as they do", without))


def _check(recipe: Recipe, study: Study | None) -> None:
    method = recipe.to_method()
    if recipe.compares_models:
        tunes = recipe.kind == "tune"
        what = "tuning finds λ, and another engine needs it" if tunes else "a ladder compares models and keeps none"
        raise Refused(what, ELSEWHERE, "Give the run that it ends with.")
    if not method.damps or method.aim != "outputs":
        with_gptq = {name: entry.make for name, entry in METHODS.items() if entry.baseline == "gptq"}
        known = ", ".join(
            name
            for name, make in with_gptq.items()
            if make.damps and make.aim == "outputs" and (name == "gptq" or can_be_tuned(name))
        )
        raise refused_for(
            "method",
            f"other engines have no {method_title(recipe.method)}, or use that name for another method",
            f"What they share is GPTQ: {known}.",
        )
    if recipe.quantized_checkpoint is not None:
        raise refused_for(
            "quantized_checkpoint",
            "the codes of a quantized checkpoint are solved again on its own scales, which no other engine does",
            "Leave it out.",
            Fix("Leave the checkpoint out", {"quantized_checkpoint": None}),
        )
    if recipe.from_block is not None:
        raise refused_for(
            "from_block",
            f"λ or γ are others from block {recipe.from_block} on, and programs for other engines have one setting",
            "Leave from_block and the values with it out.",
        )
    _check_fitting(recipe)
    if recipe.rotates:
        raise refused_for(
            "rotate",
            "the residual stream is rotated before, and programs for other engines start from the model as it is",
            "Set rotate to none.",
            Fix("Leave the rotation out", {"rotate": "none"}),
        )
    if method.fitting().get("first_order"):
        raise refused_for(
            "first_order",
            "compensation is pulled back by β, and other engines do that in another way or not at all",
            "Set first_order to 0.",
            Fix("Leave the first-order term out", {"first_order": 0.0}),
        )
    for name in method.fitting().keys() - _CARRIED - _OWN_STEPS.keys():
        raise refused_for(name, "no program for another engine has it", "Leave it out.")
    if recipe.layer is not None:
        raise refused_for(
            "layer",
            "a single layer is asked for",
            "Leave layer out; blocks takes a part of the model.",
            Fix("Leave it out", {"layer": None}),
        )
    if recipe.exclude or recipe.include:
        raise refused_for(
            "exclude",
            "layers are chosen by patterns, which other engines write in other ways",
            "Leave exclude and include out; blocks takes a part of the model.",
            Fix("Leave them out", {"exclude": [], "include": []}),
        )
    if recipe.block_fraction is not None and study is None:
        raise refused_for(
            "block_fraction",
            "the blocks that a fraction selects depend on the model",
            "Give their numbers as blocks, or the finished run.",
        )
    size, layers = recipe.group_size, None if study is None else study.layers
    is_mixed = size is not None and (layers is None or any(layer.shape[1] % size for layer in layers))
    if is_mixed and recipe.indivisible == "per_channel":
        raise refused_for(
            "indivisible",
            f"layers whose width {recipe.group_size} does not divide have one scale a row, the others groups",
            "Use a group size that divides all widths, and refuse.",
            Fix("Refuse such layers", {"indivisible": "refuse"}),
        )


def _by_layer(recipe: Recipe, study: Study | None, line: Line | None) -> dict[Penalty, tuple[str, ...]]:
    if study is None or line is None:
        what = (
            "“auto” chooses λ for each layer during the run"
            if recipe.candidates()
            else "λ of experts depends on their tokens during the run"
        )
        raise Refused(what, in_recipe("lambda"), "Give the finished run, or λ as a number.")
    method = recipe.to_method()
    assert method.lam is not None
    lams = _values(study, line, "selected_lambda", line.candidate_lams, method.lam)
    gammas = _values(study, line, "selected_gamma", line.candidate_gammas, method.gamma)
    by_penalty: dict[Penalty, list[str]] = {}
    for layer in study.layers:
        if not _PATH.fullmatch(layer.name):  # a study may come from anybody, and names become part of a program
            raise Refused(
                "a layer's name is not a path of a module",
                f"study {study.id}",
                "Give the study as it was left.",
            )
    for layer, lam, gamma in zip(study.layers, lams, gammas, strict=True):
        if method.fitting().get("expert_damping"):
            lam = _damped_lambda(study, layer.name)
        assert lam is not None
        by_penalty.setdefault(Penalty(lam, gamma), []).append(layer.name)
    if len(by_penalty) == 1:
        return dict.fromkeys(by_penalty, ())
    return {penalty: tuple(names) for penalty, names in sorted(by_penalty.items(), key=lambda item: -len(item[1]))}


def _values(
    study: Study, line: Line, name: str, candidates: Sequence[float | None], fixed: float | None
) -> list[float | None]:
    """Return each linear's chosen value in the first draw, as the candidate was written: arrays are float32."""
    values, known = study.read(line, name), [value for value in candidates if value is not None]
    if values is None or not known:
        return [fixed] * len(study.layers)
    return [known[int(np.abs(np.subtract(known, value)).argmin())] for value in values[0]]


def _damped_lambda(study: Study, layer: str) -> float:
    report = study.layer_reports.get(layer)
    if report is None:
        raise Refused(
            "the λ of an expert is not in this study",
            f"study {study.id}",
            "Give a run with expert_damping = damped.",
        )
    return float(report["chosen"]["lam_used"])
