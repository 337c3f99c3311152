"""A recipe's quantized checkpoint for plans: its place, and a check that it belongs to the model. No torch."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

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

_CALLED = {"gptq": "GPTQ", "awq": "AWQ", "mlx": "MLX", "auto-round": "AutoRound"}  # formats by their usual names


def folder_of(name: str, settings: Settings, *, download: bool = False) -> Path:
    """Return the folder of a quantized checkpoint: declared by the operator, an export, a path, or on the Hub.

    Raises ``NotFound`` where there is none, and where one of the Hub is not here and ``download`` does not allow to
    fetch it.
    """
    if (place := declared_folders(settings).get(name) or exported_folder(name, settings)) is not None:
        return place
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


def with_codes(
    recipe: Recipe, checkpoint: Checkpoint, settings: Settings, *, download: bool = False
) -> tuple[Recipe, Checkpoint, CheckpointLayout | None]:
    """Return a recipe and its float checkpoint fitted to the recipe's quantized checkpoint, and the latter's layout.

    The recipe is completed with bits, grid and group size, and the checkpoint restricted to the linears with codes.
    Both stay as they are without one.

    Raises:
        NotFound: If it is not there.
        Refused: For what can't be read, belongs to another model, or has other values than the recipe gives.
    """
    if recipe.quantized_checkpoint is None:
        return recipe, checkpoint, None
    layout = describe(folder_of(recipe.quantized_checkpoint, settings, download=download), checkpoint)
    places = _places(checkpoint, layout)
    if (widest := max(place.bits for place in places)) > 4:
        raise Refused(
            f"it has linears of {widest} bits, and recipes are of 2 to 4",
            f"quantized checkpoint {layout.folder.name}",
            "Open one whose linears have 2, 3 or 4 bits.",
        ).about("quantized_checkpoint")
    own = dict(zip(("bits", "grid", "group_size"), _usual_grid(places), strict=True))
    for name, value in own.items():
        if name in recipe.model_fields_set and getattr(recipe, name) != value:
            has, asked = ("per_channel" if each is None else each for each in (value, getattr(recipe, name)))
            raise refused_for(
                name,
                f"{str(Recipe.model_fields[name].title).lower()} is {asked}, and the quantized checkpoint has {has}",
                f"Leave {name} out, or give {has}.",
                Fix(f"Use {has}", {name: has}),
            )
    restricted = replace(checkpoint, only_names=frozenset(layer.name for layer in layout.layers))
    return recipe.model_copy(update=own), restricted, layout


def _places(checkpoint: Checkpoint, layout: CheckpointLayout) -> list[StoredLinear]:
    """Return the places of the codes of the model's linears, in their order: not those of an embedding or a head."""
    return [layout.places[checkpoint.family.in_file(layer.name)] for layer in layout.layers]


def kind_words(layout: CheckpointLayout) -> str:
    """Return format, maker and number of quantized linears in words."""
    maker = f", made by {layout.made_by}" if layout.made_by else ""
    return f"{_CALLED.get(layout.format, layout.format)}{maker}, {len(layout.layers)} linears with codes"


def plan_fields(checkpoint: Checkpoint, layout: CheckpointLayout) -> dict[str, Any]:
    """Return the fields of a plan about a quantized checkpoint."""
    places, files = _places(checkpoint, layout), weight_files(layout.folder, layout.folder.name)
    bits, grid, group_size = _usual_grid(places)
    scales = {None: "one scale for each row", 1: "a scale for each channel"}.get(group_size, f"groups of {group_size}")
    ranges = {name: span for path in files for name, span in byte_ranges(path).items()}
    # Codes, scales, zero points and all other tensors of the linears; a stack of experts once.
    stored = {name for place in places for name in place.tensors}
    return {
        "opened": f"{layout.folder.name}, {kind_words(layout)}, {bits} bits, {choice_words(grid)}, {scales}",
        "bits_per_weight": 8
        * sum(end - begin for begin, end in (ranges[name] for name in stored))
        / sum(prod(layer.shape) for layer in layout.layers),
        "bytes_after": sum(path.stat().st_size for path in files),
        "warnings": (*layout.notices, *_warnings(checkpoint, layout, places)),
    }


def _warnings(checkpoint: Checkpoint, layout: CheckpointLayout, places: list[StoredLinear]) -> Iterator[str]:
    grids = {(place.bits, place.kind, place.group_size) for place in places}
    if len(grids) > 1:
        yield f"its linears have {len(grids)} different grids: each is measured on its own"
    if spread := sum(place.is_spread for place in places):
        yield (
            f"the groups of {spread} of its linears are not contiguous: each channel has the scale of its group, as "
            "if it were a group by itself"
        )
    if left := len(checkpoint.linears) - len(layout.layers):
        yield f"{left} linears have no codes there and are taken as they stand there"


def _usual_grid(places: Iterable[StoredLinear]) -> tuple[int, str, int | None]:
    weights: Counter[tuple[int, str, int | None]] = Counter()
    for place in places:
        weights[place.bits, place.kind, place.group_size] += prod(place.shape)
    return weights.most_common(1)[0][0]
