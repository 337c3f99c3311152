"""Keys: what a layer's bits depend on, as one hash each."""

from __future__ import annotations

import hashlib
from dataclasses import asdict

import torch
from torch import nn

from sarqc.artefacts import chain_key
from sarqc.calibration.job import CalibrationPlan
from sarqc.calibration.pipeline import _by_block
from sarqc.models.loading import LoadedModel

LAYER_FORMAT = 4  # part of every key: raise it when the same inputs would give other bits, or a file holds more


def layer_keys(loaded: LoadedModel, plan: CalibrationPlan) -> dict[str, str]:
    """The key of every layer, in the order of solving, from the float weights and the plan alone."""
    config = {name: value for name, value in loaded.checkpoint.config.items() if name != "transformers_version"}
    chain = chain_key(
        LAYER_FORMAT, torch.__version__, loaded.device.type, str(loaded.compute_dtype), str(loaded.storage_dtype),
        config, plan.sequences.protocol, plan.inputs_from,
        fingerprint(loaded.model.get_submodule(loaded.family.embedding)),
    )  # fmt: skip
    keys: dict[str, str] = {}
    by_block = _by_block(loaded.checkpoint.layers)
    for index, block in enumerate(loaded.blocks()):
        with loaded.at(block):
            chain = chain_key(chain, fingerprint(block))
        names = [layer.name for layer in by_block.get(index, [])]
        grids = {name: asdict(plan.grids[name]) for name in names}
        block_keys = [
            chain_key(chain, name, grids[name] if plan.method.unit == "layer" else grids, plan.choices())
            for name in names
        ]
        keys.update(zip(names, block_keys, strict=True))
        if plan.inputs_from == "quantized":
            chain = chain_key(chain, block_keys)
    return keys


def model_fingerprint(loaded: LoadedModel) -> str:
    """What changes with any weight of the model as it is now."""
    inside = {id(module) for module in loaded.blocks().modules()}
    outside = [
        fingerprint(module)
        for module in loaded.model.modules()
        if id(module) not in inside and not any(True for _ in module.children())
    ]
    blocks = []
    for block in loaded.blocks():
        with loaded.at(block):
            blocks.append(fingerprint(block))
    return chain_key(outside, blocks)


def fingerprint(module: nn.Module) -> str:
    """SHA-256 over the names, dtypes, shapes and bits of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
