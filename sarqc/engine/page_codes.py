"""Codes of a point beside its study, with which pages run the model: packed, listed, and written by a run.

They are stored for a model that ships with the app, whose float weights pages can fetch, if pages can run its
architecture.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch

from sarqc.checkpoints.codes import coded
from sarqc.checkpoints.compressed_tensors import packed_tensors
from sarqc.engine.run import RunContext
from sarqc.files.hashes import sha256_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.facts import has_lam
from sarqc.study.kept_codes import FOLDER, MODEL_FILES, KeptPoint, ModelFile, write_codes

_ARCHITECTURE = "llama"  # that of assets/js/model/llama.js


def model_files_of(model: str, settings: Settings) -> list[ModelFile] | None:
    """Return the files of the float model, with which pages run it; None where it does not ship with the app."""
    models = settings.embedded_models_dir()
    folder = models / model
    if folder.parent != models or not all((folder / name).is_file() for name in MODEL_FILES):
        return None
    return [file_of(folder / name) for name in MODEL_FILES]


def file_of(path: Path) -> ModelFile:
    """Return a file's facts for pages."""
    return {"name": path.name, "bytes": path.stat().st_size, "version": sha256_of(path)[:16]}


def packed_point(
    loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], grids: Mapping[str, Grid], about: Mapping[str, Any]
) -> bytes:
    """Return the quantized linears of a point in the format ``pack-quantized`` of compressed-tensors, as safetensors.

    A scale search adds ``<linear>.channel_scale`` (I,), by which pages divide the columns. ``about``: the header's
    entries on the point beside the format.
    """
    tensors = {
        name: tensor
        for linear, layer in layers.items()
        for name, tensor in packed_tensors(
            coded(loaded.family.in_file(linear), layer, grids[linear], loaded.stored_as(f"{linear}.weight"))
        )
    }
    tensors |= {
        f"{loaded.family.in_file(linear)}.channel_scale": layer.channel_scale.cpu().contiguous()
        for linear, layer in layers.items()
        if layer.channel_scale is not None
    }
    return safetensors.torch.save(tensors, {"point": json.dumps({"format": "pack-quantized", **about})})


def keep_codes(
    run: RunContext, loaded: LoadedModel, layers: Mapping[str, QuantizedLayer], study: Study, settings: Settings
) -> None:
    """Write the codes of a run into the folder of its study, if pages can run its model by them."""
    recipe, job, (line,) = run.recipe, run.job, study.lines
    if not _is_for_pages(recipe, run.prepared.checkpoint):
        return
    files = model_files_of(recipe.model, settings)
    if files is None:
        return
    gamma, lam = line.gammas[0], line.lams[job.own_point()] if has_lam(line) else None
    about = {
        "bits": recipe.bits,
        "group_size": recipe.group_size,
        "grid": recipe.grid,
        "method": recipe.method,
        "gamma": gamma,
        "lambda": lam,
    }
    packed = packed_point(loaded, layers, job.grids, about)
    # Runs that are gathered into one study have names of their own.
    path = study.folder / FOLDER / f"codes-{hashlib.sha256(packed).hexdigest()[:16]}.safetensors"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed)
    point: KeptPoint = {"method": line.name, "bits": recipe.bits, "gamma": gamma, "lam": lam, "file": file_of(path)}
    name = Path(recipe.model).name  # of the folder, where that was given
    write_codes(study.folder, {"model": name, "draw": recipe.seed, "files": files, "points": [point]})


def _is_for_pages(recipe: Recipe, checkpoint: Checkpoint) -> bool:
    """Return True if quantized linears alone make the model of a recipe, and one point of its study is that model."""
    is_single_point = recipe.auto_by() is None and recipe.layer is None and recipe.quantized_checkpoint is None
    if (
        not is_single_point
        or recipe.rotates
        or recipe.distill_norms  # which change more than the linears
        or recipe.grid != "asymmetric"
        or checkpoint.config.get("model_type") != _ARCHITECTURE
    ):
        return False
    return {layer.name for layer in checkpoint.layers} == {
        f"{checkpoint.family.blocks}.{block}.{path}"
        for block in range(checkpoint.n_blocks)
        for group in checkpoint.all_groups(block)
        for path in group.linears
    }
