"""A recipe's quantized checkpoint as plans need it: where it is, and whether it belongs to the model. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

from sarqc.checkpoints.layout import CheckpointLayout, describe
from sarqc.checkpoints.stored_linear import StoredLinear
from sarqc.errors import Fix, NotFound, Refused, in_recipe, refused_for
from sarqc.files.names import path_of, shortened
from sarqc.models import hub
from sarqc.models.catalogue import declared_folders, exported_folder, is_hub_name
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.tensor_files import byte_ranges, weight_files
from sarqc.recipe import Recipe, choice_words
from sarqc.settings import Settings

_CALLED = {"gptq": "GPTQ", "awq": "AWQ", "mlx": "MLX", "auto-round": "AutoRound"}  # formats, as people do


def folder_of(name: str, settings: Settings, *, download: bool = False) -> Path:
    """The folder of a quantized checkpoint: one that the operator has declared, an export, a path, or one of the Hub.

    Raises ``NotFound`` where there is none, and where one of the Hub is not here and ``download`` does not allow to
    fetch it.
    """
    if (here := declared_folders(settings).get(name) or exported_folder(name, settings)) is not None:
        return here
    folder = path_of(name)
    if folder is not None and folder.is_dir():
        return folder
    if is_hub_name(name):
        if (cached := hub.cached(name, None, settings)) is not None:
            return cached
        if download:
            return hub.download(name, None)
    raise NotFound(
        f"no checkpoint “{shortened(name)}” on this host",
        in_recipe("quantized_checkpoint"),
        "Give the folder of a quantized checkpoint; one of the Hub has to be downloaded before.",
    ).about("quantized_checkpoint")


def described(
    recipe: Recipe, checkpoint: Checkpoint, settings: Settings, *, download: bool = False
) -> CheckpointLayout | None:
    """The checkpoint that a recipe opens, beside the float ``checkpoint``; None where it opens none.

    Raises ``NotFound``, or ``Refused`` for what can't be read or belongs to another model.
    """
    if recipe.quantized_checkpoint is None:
        return None
    found = describe(folder_of(recipe.quantized_checkpoint, settings, download=download), checkpoint)
    widest = max(place.bits for place in linears(checkpoint, found))
    if widest > 4:
        raise Refused(
            f"it has linears of {widest} bits, and recipes are of 2 to 4",
            f"quantized checkpoint {found.folder.name}",
            "Open one whose linears have 2, 3 or 4 bits.",
        ).about("quantized_checkpoint")
    return found


def linears(checkpoint: Checkpoint, found: CheckpointLayout) -> list[StoredLinear]:
    """Where the codes of the model's linears are, in their order: not those of an embedding or a head."""
    return [found.places[checkpoint.family.in_file(layer.name)] for layer in found.layers]


def as_it_has_it(recipe: Recipe, checkpoint: Checkpoint, found: CheckpointLayout) -> Recipe:
    """The recipe, completed with bits, grid and group size from the quantized checkpoint.

    Raises ``Refused`` if the recipe gives other values.
    """
    own = dict(zip(("bits", "grid", "group_size"), _usual_grid(linears(checkpoint, found)), strict=True))
    for name, value in own.items():
        if name in recipe.model_fields_set and getattr(recipe, name) != value:
            said, asked = ("per_channel" if one is None else one for one in (value, getattr(recipe, name)))
            raise refused_for(
                name,
                f"{str(Recipe.model_fields[name].title).lower()} is {asked}, and the quantized checkpoint has {said}",
                f"Leave {name} out, or give {said}.",
                Fix(f"Use {said}", {name: said}),
            )
    return recipe.model_copy(update=own)


def restricted(checkpoint: Checkpoint, found: CheckpointLayout) -> Checkpoint:
    """The float checkpoint with the linears to quantize that have codes there."""
    return replace(checkpoint, of_names=frozenset(layer.name for layer in found.layers))


def bits_of_linears(checkpoint: Checkpoint, found: CheckpointLayout) -> int:
    """All bits that are stored of the linears: codes, scales, zero points and whatever else."""
    ranges: dict[str, tuple[int, int]] = {}
    for path in weight_files(found.folder, found.folder.name):
        ranges |= byte_ranges(path)
    stored = {name for place in linears(checkpoint, found) for name in place.tensors}  # a stack of experts once
    return 8 * sum(end - begin for begin, end in (ranges[name] for name in stored))


def opened_bytes(found: CheckpointLayout) -> int:
    """Bytes of its weight files."""
    return sum(path.stat().st_size for path in weight_files(found.folder, found.folder.name))


def what_it_is(found: CheckpointLayout) -> str:
    """Format, maker and how much is quantized, in words."""
    maker = f", made by {found.made_by}" if found.made_by else ""
    return f"{_CALLED.get(found.format, found.format)}{maker}, {len(found.layers)} linears with codes"


def grid_words(checkpoint: Checkpoint, found: CheckpointLayout) -> str:
    """The grid of most weights in words."""
    bits, grid, group_size = _usual_grid(linears(checkpoint, found))
    scales = {None: "one scale for each row", 1: "a scale for each channel"}.get(group_size, f"groups of {group_size}")
    return f"{bits} bits, {choice_words(grid)}, {scales}"


def opened_warnings(checkpoint: Checkpoint, found: CheckpointLayout) -> Iterator[str]:
    """What is to be known of a quantized checkpoint before it is measured."""
    yield from found.notices
    places = linears(checkpoint, found)
    grids = Counter((place.bits, place.kind, place.group_size) for place in places)
    if len(grids) > 1:
        yield f"its linears have {len(grids)} different grids: each is measured on its own"
    spread = sum(place.is_spread for place in places)
    if spread:
        yield (
            f"the groups of {spread} of its linears are not contiguous: each channel has the scale of its group, as "
            "if it were a group by itself"
        )
    left = len(checkpoint.linears) - len(found.layers)
    if left:
        yield f"{left} linears have no codes there and are taken as they stand there"


def _usual_grid(places: Iterable[StoredLinear]) -> tuple[int, str, int | None]:
    weights: Counter[tuple[int, str, int | None]] = Counter()
    for place in places:
        weights[place.bits, place.kind, place.group_size] += prod(place.shape)
    return weights.most_common(1)[0][0]
