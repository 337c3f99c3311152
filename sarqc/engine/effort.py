"""The effort of a recipe on a given model: its unavailable parts, and the effort that a recipe amounts to."""

from collections.abc import Callable
from typing import TypeVar

from sarqc.errors import Refused
from sarqc.recipe import UNDISTILLED, Effort, Fitting, Recipe, fitting_of

_Planned = TypeVar("_Planned")


def plan_with_fallbacks(recipe: Recipe, plan: Callable[[Recipe], _Planned]) -> tuple[_Planned, str]:
    """Plan a recipe, with the distillation that its effort asked for as far as the model and the memory allow it.

    Where the whole model is out of reach, scales are distilled block by block; where these are too, not at all. Returns
    the result of ``plan``, and a sentence about the differences; empty without any. Raises ``Refused`` as
    ``plan``, also for a distillation requested by its own field.
    """
    try:
        return plan(recipe), ""
    except Refused as refusal:
        if not _concerns_effort(recipe, refusal):
            raise
        reason = refusal.what
    if recipe.distill_by == "model":
        by_block = recipe.model_copy(update={"distill_by": "block"})
        try:
            words = f"effort {recipe.effort} distills scales block by block: {reason}"
            return plan(by_block), words
        except Refused as refusal:
            if not _concerns_effort(by_block, refusal):
                raise
            reason = refusal.what
    left_out = f"effort {recipe.effort} leaves distillation out: {reason}"
    return plan(recipe.model_copy(update={**UNDISTILLED})), left_out


def _concerns_effort(recipe: Recipe, refusal: Refused) -> bool:
    requested = None if recipe.effort is None else fitting_of(recipe.effort, recipe.to_json()).get("distill")
    return refusal.field == "distill" and bool(requested) and recipe.distill == requested


def without_effort(recipe: Recipe) -> Recipe:
    """Return the recipe as it is queued and recorded: with the fields of its effort, and without the effort."""
    return recipe.model_copy(update={"effort": None})


def effort_and_fitting(recipe: Recipe, *, can_distill: bool) -> tuple[Effort | None, Fitting]:
    """Return the effort that a recipe amounts to, and its values of the fields that efforts set on this model.

    ``can_distill``: False for a model whose scales can't be distilled, and which has no effort that does.
    """
    names = {name: None for fitting in recipe.efforts().values() for name in fitting}
    fitting = {name: getattr(recipe, name) for name in names}
    if recipe.distills and recipe.distill_by != "model":
        fitting["distill_by"] = recipe.distill_by
    return recipe.amounts_to(can_distill=can_distill), fitting
