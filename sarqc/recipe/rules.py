"""Rules between the fields of a recipe: which exclude each other, and which have no effect."""

from collections.abc import Iterator

from sarqc.errors import Fix, Refused, in_recipe, refused_for
from sarqc.quantization.methods import AS_FOUND, METHODS
from sarqc.recipe.effort import UNDISTILLED, fitting_of
from sarqc.recipe.fields import (
    DESCRIPTORS,
    DISTILLATION,
    KINDS,
    LATER_VALUES,
    RecipeFields,
    known_entry,
    method_title,
    public_name,
)

OF_THE_OTHER_KIND: dict[str, tuple[str, ...]] = {
    kind: tuple(name for name, about in DESCRIPTORS.items() if kind not in about.kinds) for kind in KINDS
}
_KIND_WORDS = {
    "run": "a run that does not tune",
    "tune": "tuning",
    "ladder": "a ladder",
}
_TWO_SAMPLES = Fix("Use 2 samples", {"samples": 2})
LADDER_METHOD = "rqc-gbs"  # whose λ is a step of the ladder, and whose fitting the other steps are
LADDER_LAMBDA = 0.1  # of the step of λ, where none is given

# Further fields that a form leaves out of a ladder, whose method and γ are its own.
NOT_ASKED_OF_A_LADDER = ("method", "gamma", "layer", "from_block", "then_lam", "then_gamma")

# What solves codes again on the scales of a quantized checkpoint.
REPAIRING = ("gptq", "rqc-gbs", "sarqc-gbs")
# Fields that a quantized checkpoint leaves no choice of, by the reason that people read.
_OPENED_WHOLE = {name: about.opened for name, about in DESCRIPTORS.items() if about.opened}

# Fields that a form leaves out for a quantized checkpoint: its own ones, and those without a choice.
OF_THE_FILE = ("bits", "grid", "group_size")
NOT_ASKED_OF_OPENED = (
    *OF_THE_FILE,
    "indivisible",
    "range",
    "static_groups",
    *_OPENED_WHOLE,
    "from_block",
    "then_lam",
    "then_gamma",
)

# Fields that only “auto” reads, by the scope of its choice: each layer, or the whole model.
AUTO_FIELDS = {"layer": ("validation_share", "channel_fraction"), "model": ("validation_share",)}


def check(recipe: RecipeFields) -> None:
    """Check that the fields agree.

    Raises:
        Refused: For the first field that conflicts with another one.
    """
    if recipe.blocks and recipe.block_fraction is not None:
        raise refused_for(
            "blocks",
            "the blocks are given by number and as a fraction",
            "Leave one of the two out.",
            Fix("Leave the fraction out", {"block_fraction": None}),
        )
    _check_later(recipe)
    _check_rotation(recipe)
    if recipe.quantized_checkpoint is not None:
        _check_opened(recipe)
    elif recipe.method == AS_FOUND:
        raise Refused(
            "no codes to take as they are",
            in_recipe("method"),
            "Give the checkpoint as quantized_checkpoint, or use another method.",
        ).about("quantized_checkpoint")
    if recipe.kind == "tune":
        _check_tuning(recipe)
    if recipe.kind == "ladder":
        _check_ladder(recipe)
    if "cross" in recipe.to_method().needs and recipe.inputs_from == "float":
        raise refused_for(
            "inputs_from",
            f"{recipe.method} corrects what the quantized blocks before a layer did to its inputs, and with "
            "inputs from the float model there is nothing to correct",
            "Set inputs_from to quantized, or use a method without this correction, such as gptq.",
            Fix("Use the quantized blocks’ inputs", {"inputs_from": "quantized"}),
        )
    if recipe.layer is not None and recipe.to_method().unit != "layer":
        what = f"{recipe.method} with these options works on a {recipe.to_method().unit} of linears at once"
        remedy = "Leave layer out, or use a method that works on single layers."
        raise Refused(what, in_recipe("layer"), remedy)
    _check_distillation(recipe)
    if recipe.candidates():
        if recipe.samples < 2:
            raise refused_for(
                "samples",
                "“auto” judges on a part of the calibration sequences, and there is only one",
                "Use at least two samples, or give λ and γ as numbers.",
                _TWO_SAMPLES,
            )
        if recipe.sweep:
            raise refused_for(
                "sweep",
                "a λ curve needs a fixed λ and γ, and “auto” chooses them",
                "Leave the curve out, or give λ and γ as numbers.",
                Fix("Leave the curve out", {"sweep": []}),
            )


def _check_later(recipe: RecipeFields) -> None:
    """Refuse values from a block on that have no block, no method that has them, or no one λ before them."""
    names = [later for later in LATER_VALUES if getattr(recipe, later) is not None]
    if recipe.from_block is None:
        if names:
            name = public_name(names[0])
            raise Refused(
                f"{name} is given without the block from which on it is meant",
                in_recipe(name),
                f"Give from_block, or leave {name} out.",
            ).about("from_block", Fix("Leave it out", {name: None}))
        return
    fix = Fix("Use one λ for all blocks", {"from_block": None, **{public_name(name): None for name in names}})
    if not names:
        raise refused_for(
            "from_block",
            f"nothing changes at block {recipe.from_block}",
            "Give then_lambda or then_gamma, or leave from_block out.",
            fix,
        )
    for what in _why_single_lambda(recipe):
        raise refused_for(
            "from_block",
            f"{what}, and other values are given from block {recipe.from_block} on",
            "Leave from_block and the values with it out.",
            fix,
        )
    for later in names:
        name = LATER_VALUES[later]
        if name not in METHODS[recipe.method].tunes:
            raise refused_for(
                public_name(later),
                f"{recipe.method} has no {type(recipe).model_fields[name].title}",
                "Leave it out, or use another method.",
                fix,
            )
    if recipe.later_method() == recipe.to_method():
        raise refused_for(
            "from_block",
            f"nothing changes at block {recipe.from_block}: the values are those of the blocks before it",
            "Give others, or leave from_block out.",
            fix,
        )


def _why_single_lambda(recipe: RecipeFields) -> Iterator[str]:
    """Yield the reasons why a recipe has one λ and γ for all blocks."""
    if recipe.kind == "tune":
        yield "tuning finds one λ for the whole model"
    if recipe.kind == "ladder":
        yield "the λ of a ladder is that of the whole model"
    if recipe.quantized_checkpoint is not None:
        yield "the codes of a quantized checkpoint are solved at one λ"
    if recipe.layer is not None:
        yield "a single layer is quantized"
    if recipe.candidates():
        yield "“auto” chooses λ and γ, from the first block on"
    if recipe.sweep:
        yield "a λ curve is drawn over λ of the whole model"


def _check_rotation(recipe: RecipeFields) -> None:
    """Refuse a rotation where models are compared, whose statistics are those of the unrotated model."""
    if recipe.rotates and recipe.compares_models:
        raise refused_for(
            "rotate",
            f"{_KIND_WORDS[recipe.kind]} works on the model as it is, and a rotation is asked for",
            "Set rotate to none, or kind to run.",
            Fix("Leave the rotation out", {"rotate": "none"}),
        )


def _check_opened(recipe: RecipeFields) -> None:
    if recipe.compares_models:
        raise refused_for(
            "quantized_checkpoint",
            f"{_KIND_WORDS[recipe.kind]} quantizes the float model again and again, and the recipe has a quantized "
            "checkpoint",
            "Leave it out, or set kind to run.",
            Fix("Leave the checkpoint out", {"quantized_checkpoint": None}),
        )
    if recipe.method not in (AS_FOUND, *REPAIRING):
        recipe.to_method()  # which refuses an unknown name
        raise refused_for(
            "method",
            f"{recipe.method} makes scales of its own, and those of a quantized checkpoint stay",
            f"Use {AS_FOUND} to measure it, or {', '.join(REPAIRING)} to solve its codes again.",
            Fix("Measure it as it was found", {"method": AS_FOUND}),
        )
    for name, why in _OPENED_WHOLE.items():
        info = type(recipe).model_fields[name]
        if getattr(recipe, name) != info.default:
            default = list(info.default) if isinstance(info.default, tuple) else info.default
            raise refused_for(
                name,
                f"{info.title!s} = {_plain(getattr(recipe, name))} is not available for a quantized checkpoint: {why}",
                f"Leave {name} as it is by default.",
                Fix("Leave it as it is by default", {name: default}),
            )
    if recipe.repairs and recipe.samples < 2:
        raise refused_for(
            "samples",
            "a part of the calibration sequences is kept to judge repaired codes beside those found, and there is "
            "only one",
            "Use at least two samples.",
            _TWO_SAMPLES,
        )


def _check_distillation(recipe: RecipeFields) -> None:
    if recipe.distills and not recipe.held_out_samples:
        count = max(1, recipe.samples // 2)
        raise refused_for(
            "held_out_samples",
            "distillation of scales is judged by the predictions on held-out sequences, and there are none",
            "Give held_out_samples, or leave distill out.",
            Fix(f"Hold out {count} samples", {"held_out_samples": count}),
            Fix("Leave distillation out", {**UNDISTILLED}),
        )


def _check_tuning(recipe: RecipeFields) -> None:
    method = recipe.to_method()
    if "lam" not in METHODS[recipe.method].tunes or method.unit != "layer" or "cross" in method.needs:
        fitting = [name for name in METHODS if can_be_tuned(name)]
        raise Refused(
            f"{recipe.method} with these options can't be tuned: it has no λ, or it needs more than the inputs of "
            "single layers",
            in_recipe("method"),
            f"Use {' or '.join(fitting)}.",
        )
    if recipe.lam not in (None, "auto"):
        raise refused_for(
            "lambda",
            f"tuning finds λ, and λ is given as {_plain(recipe.lam)}",
            "Leave it out; values to compare go into sweep.",
            Fix("Leave λ empty", {"lambda": None}),
        )
    _check_whole_models(recipe)
    if recipe.sweep and len({*recipe.sweep}) < 2:
        raise Refused("there is a single λ to compare", in_recipe("sweep"), "Give two or more, or none.")


def _check_ladder(recipe: RecipeFields) -> None:
    if recipe.method != LADDER_METHOD:
        title = method_title(LADDER_METHOD)
        raise refused_for(
            "method",
            f"a ladder goes from rounding to nearest to {title}, and the method is {recipe.method}",
            "Leave method out.",
            Fix(f"Use {title}", {"method": LADDER_METHOD}),
        )
    if recipe.lam == "auto":
        raise refused_for(
            "lambda",
            "a ladder has one λ for the whole model, and λ is left to “auto”",
            f"Give a number, or none for {LADDER_LAMBDA:g}.",
            Fix("Leave λ empty", {"lambda": None}),
        )
    _check_whole_models(recipe)


def _check_whole_models(recipe: RecipeFields) -> None:
    if recipe.layer is not None:
        raise refused_for(
            "layer",
            f"{_KIND_WORDS[recipe.kind]} measures the whole model, and a single layer is asked for",
            "Leave layer out; blocks takes a part of the model.",
            Fix("Leave it out", {"layer": None}),
        )
    if recipe.test is None:
        raise refused_for(
            "test",
            f"{_KIND_WORDS[recipe.kind]} compares perplexities, with no text to measure them on",
            "Give a test text.",
        )


def without_effect(recipe: RecipeFields) -> list[str]:
    """Return a sentence for each value that has no effect on the chosen method."""
    idle = idle_fields(recipe.method, auto=bool(recipe.candidates()) or recipe.repairs)
    if recipe.quantized_checkpoint is not None:
        idle |= {"range", "static_groups", "indivisible"}  # groups have their scales
    infos = type(recipe).model_fields
    changed = [name for name, info in infos.items() if getattr(recipe, name) != info.default]

    def title(name: str) -> str:
        return str(infos[name].title)

    def idle_words(name: str) -> str:
        return f"{title(name)} = {_plain(getattr(recipe, name))} has no effect on {recipe.method}"

    words = [
        f"{idle_words(name)}{' as it is asked for' if name in AUTO_FIELDS['layer'] else ''}"
        for name in changed
        if name in idle
    ]
    words += [f"{idle_words(name)}, {why}" for name, why in recipe.idle_options().items()]
    if recipe.effort is not None and recipe.kind != "ladder" and not fitting_of(recipe.effort, recipe.to_json()):
        words.append(idle_words("effort"))
    names = [name for name in DISTILLATION if name in changed]
    if recipe.layer is not None:
        words += [f"{title(name)} has no effect on a single layer" for name in names]
    elif not recipe.distill:
        words += [f"{title(name)} has no effect without distillation" for name in names]
    return words + [
        f"{title(name)} has no effect on {_KIND_WORDS[recipe.kind]}"
        for name in changed
        if name in OF_THE_OTHER_KIND[recipe.kind]
    ]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def can_be_tuned(name: str) -> bool:
    """Return True if tuning can choose the λ of a method with its default options."""
    entry = known_entry(name)
    return "lam" in entry.tunes and entry.make.unit == "layer" and "cross" not in entry.make.needs


def idle_fields(name: str, *, auto: bool) -> frozenset[str]:
    """Return the fields that have no effect on a method.

    Args:
        name: Public name of the method.
        auto: True if something is left to “auto”.
    """
    entry = known_entry(name)
    read = {*entry.tunes, *entry.options}
    if auto and entry.auto is not None:
        read |= {*AUTO_FIELDS[entry.auto.by]}
    every = {field for other in METHODS.values() for field in (*other.tunes, *other.options)}
    if entry.make.has_free_scales:
        read |= {*DISTILLATION}
    later = {later for later, field in LATER_VALUES.items() if field in read and not auto}
    read |= later | ({"from_block"} if later else set())
    return frozenset((every | {*AUTO_FIELDS["layer"], *DISTILLATION, "from_block", *LATER_VALUES}) - read)


def fields_without_flag(kind: str) -> frozenset[str]:
    """Return the fields for which the command of a kind has no flag, since they mean nothing to it or are refused."""
    other = {"kind", *OF_THE_OTHER_KIND[kind]}
    if kind == "ladder":
        other |= {*NOT_ASKED_OF_A_LADDER, "quantized_checkpoint"} | idle_fields(LADDER_METHOD, auto=False)
    return frozenset(other)
