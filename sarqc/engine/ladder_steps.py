"""The points of a model's own ladder, as its recipe asks for them. No torch."""

from dataclasses import dataclass, replace
from typing import Any

from sarqc.documents import LeftOutStep
from sarqc.quantization.methods import METHODS, Method, method
from sarqc.quantization.storage import Kind
from sarqc.recipe import BASELINE, EFFORTS, LADDER_LAMBDA, LADDER_METHOD, Recipe
from sarqc.study.ladder import PLAIN_LAMBDA, STEPS

# The last steps, which studies don't have: their ladders are of every subset of ``STEPS``.
LAST = ("refit", "affine", "joint")
# Of the solver in general, and not a step: they hold for every point from GPTQ 1 % on.
_THROUGHOUT = ("static_groups", "expert_damping")
# Fields that the run after a ladder leaves at their defaults, unless its method says otherwise.
_LADDER_FIELDS = (
    "kind",
    "minutes",
    "draws",
    "band",
    "sweep",
    "gamma",
    "blocks",
    "block_fraction",
    "range",
    "order",
    "refine",
    "refit",
    *_THROUGHOUT,
)


@dataclass(frozen=True)
class StepMethod:
    """A step with the method that the model is quantized with after it."""

    step: str  # “nearest”, “gptq”, one of ``study.ladder.STEPS`` or of ``LAST``
    name: str  # public, of the method
    method: Method  # with this step and all before it
    grid: Kind


def ladder_steps(recipe: Recipe) -> tuple[StepMethod, ...]:
    """Return the steps in their order: rounding to nearest, GPTQ 1 %, ``STEPS`` and ``LAST`` without those left out.

    Passes and rounds are those of the recipe, or of the effort “best” where it has none.
    """
    point = method(BASELINE, **{name: getattr(recipe, name) for name in _THROUGHOUT})
    current = StepMethod("gptq", BASELINE, point, recipe.grid)
    steps = [StepMethod("nearest", "rtn", method("rtn"), recipe.grid), current]
    changes: dict[str, dict[str, Any]] = {
        "order": {"order": "activation"},
        "range": {"range": EFFORTS["balanced"]["range"]},
        "lambda": {"lam": ladder_lambda(recipe)},
        "refine": {"refine": recipe.refine or EFFORTS["best"]["refine"]},
        "refit": {"refit": recipe.refit or EFFORTS["best"]["refit"]},
        "affine": {},
        "joint": {"range": "joint"},
    }
    out = {entry["step"] for entry in left_out(recipe)}
    for step in (step for step in (*STEPS, *LAST) if step not in out):
        current = replace(
            current,
            step=step,
            name=LADDER_METHOD if step == "lambda" else current.name,
            method=current.method.with_(**changes[step]),
            grid="affine" if step == "affine" else current.grid,
        )
        steps.append(current)
    return tuple(steps)


def ladder_lambda(recipe: Recipe) -> float:
    """Return the λ of the step, of the identity penalty."""
    return LADDER_LAMBDA if not isinstance(recipe.lam, float) else recipe.lam


def left_out(recipe: Recipe) -> list[LeftOutStep]:
    """Return the steps that would not change the model, each with the reason."""
    alike: list[LeftOutStep] = []
    if ladder_lambda(recipe) == PLAIN_LAMBDA:
        alike.append({"step": "lambda", "why": f"λ = {PLAIN_LAMBDA:g} is the damping of GPTQ 1 % itself"})
    if recipe.grid == "affine":
        alike.append({"step": "affine", "why": "all steps are on this grid"})
    return alike


def run_after(recipe: Recipe, step: StepMethod) -> Recipe:
    """Return the run that quantizes the whole model as it is after a step."""
    point = step.method
    plain = {name: Recipe.model_fields[name].default for name in _LADDER_FIELDS}
    fitting = {name: getattr(point, name) for name in METHODS[step.name].options if hasattr(point, name)}
    lam = point.lam if "lam" in METHODS[step.name].tunes else None
    return recipe.model_copy(update=plain | fitting | {"method": step.name, "lam": lam, "grid": step.grid})
