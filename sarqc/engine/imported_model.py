"""A model quantized elsewhere, put into the float one: codes of its linears, and its other tensors.

The other tensors are the original's, but for three reasons: it was rounded to another type; it has codes too, as
embeddings have in MLX; or norms have taken up channel scales, as in AWQ. Then the file is the same function of an
equivalent float model, whose linears are multiplied by what its norms were divided by, and drift is measured beside
that. Whatever differs for another reason belongs to another model, and is refused.

Axes: O out_features, I in_features, R rows of an operation before.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from sarqc.checkpoints.layout import CheckpointLayout
from sarqc.checkpoints.quantized_checkpoint import QuantizedCheckpoint
from sarqc.documents import OpenedCheckpoint
from sarqc.engine.imported_checkpoint import kind_words
from sarqc.errors import Refused
from sarqc.files.artefacts import chain_key
from sarqc.files.hashes import sha256_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import InputGroup, LayerInfo
from sarqc.models.folding import Fold, folds
from sarqc.models.linears import weight_of
from sarqc.models.loading import LoadedModel
from sarqc.models.tensor_files import weight_files
from sarqc.models.weight_files import WeightFiles
from sarqc.quantization.grid import Grid
from sarqc.quantization.quantized_layer import ImportedCodes

_NEAR = 2**-6  # relative: error of rounding a product to bfloat16 twice
_EXPLAINED = 0.5  # of the squared distance that a fitted scale has to take away


class ImportedModel:
    """The model of a quantized checkpoint, for ``CalibrationJob.imported``.

    Raises ``Refused`` where tensors without codes are another model's.
    """

    def __init__(self, described: CheckpointLayout, checkpoint: Checkpoint) -> None:
        self.opened = QuantizedCheckpoint(described, checkpoint)
        self.grids: dict[str, Grid] = dict(self.opened.grids)
        self._described, self._checkpoint = described, checkpoint
        self._files = WeightFiles(checkpoint)
        self._layers = {layer.name: layer for layer in self.opened.layers}
        self._check()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every byte of its weights and configuration."""
        folder = self._described.folder
        files = [*weight_files(folder, folder.name), *sorted(folder.glob("*config*.json"))]
        return chain_key("opened", *(sha256_of(path) for path in files))

    @property
    def dtype(self) -> torch.dtype:
        """The type of its weights, by the first of its linears."""
        return self.opened.read(self.opened.layers[0]).weight.dtype

    @property
    def is_folded(self) -> bool:
        """True if its norms have taken up channel scales."""
        return bool(self._folded)

    def words(self) -> Iterator[str]:
        """Yield notes on its tensors without codes."""
        if self._rounded:
            yield f"{len(self._rounded)} of its tensors without codes are the original's, rounded to another type"
        if self._coded:
            yield f"{', '.join(self._coded)} are quantized there too, and measured as they are there"
        if self.is_folded:
            yield (
                f"{len(self._folded)} of its norms have taken up channel scales: drift is measured beside an "
                "equivalent float model, whose scales between linears were fitted"
            )

    def layer(self, info: LayerInfo) -> ImportedCodes:
        """Return the codes of a linear as stored."""
        stored = self.opened.read(info)
        affine = stored.biases is not None
        return ImportedCodes(
            stored.codes,
            stored.scales,
            stored.zero_points if stored.biases is None else stored.biases,
            stored.weight,
            affine,
        )

    def put_outside(self, loaded: LoadedModel) -> None:
        """Give embedding, last norm and head their values in the checkpoint."""
        prefix = self._checkpoint.family.in_file(f"{self._checkpoint.family.blocks}.")
        others = [*self._rounded, *self._coded]
        loaded.replace({name: self.opened.tensor(name) for name in others if not name.startswith(prefix)})

    def put_into(self, loaded: LoadedModel, index: int) -> None:
        """Give a block, whose weights are in memory, its other tensors; its linears with codes are multiplied by the
        channel scales that its norms have taken up.
        """
        block, family = loaded.blocks()[index], self._checkpoint.family
        prefix = f"{family.blocks}.{index}."
        if self.is_folded:
            self._fold(loaded, block, prefix)
        others = {*self._rounded, *self._coded, *self._folded, *self._follow}
        coded = {f"{family.in_file(layer.name)}.weight" for layer in self._layers.values() if layer.block == index}
        with torch.no_grad():
            for name, value in loaded.stored_tensors(index):
                if name in others and name not in coded:
                    value.copy_(self.opened.tensor(name))

    def _fold(self, loaded: LoadedModel, block: nn.Module, prefix: str) -> None:
        """Multiply the columns of linears by the divisor of the operation before them."""
        with torch.no_grad():
            for fold in folds(block, loaded.groups(block), self._checkpoint.architecture.num_attention_heads):
                if fold.source is None:
                    continue
                norm = self._checkpoint.family.in_file(f"{prefix}{fold.source}.weight")
                if norm in self._folded:
                    scale = self._norm_scale(norm)
                elif f"{prefix}{fold.source}" in self._layers:
                    scale = self._fitted_scale(block, fold, prefix)
                    rows = fold.source_scale(scale)
                    weight_of(block, fold.source).div_(rows.to(weight_of(block, fold.source)).unsqueeze(-1))
                else:
                    continue
                for path in fold.linears:
                    weight_of(block, path).mul_(scale.to(weight_of(block, path)))

    def _norm_scale(self, name: str) -> Tensor:
        """Return the divisor of a norm, (I,) float64."""
        own, stored = self._files.read(name).double(), self.opened.tensor(name).double()
        return torch.where(stored == 0, 1.0, own / stored)

    def _fitted_scale(self, block: nn.Module, fold: Fold, prefix: str) -> Tensor:
        """Return for each channel that a linear reads from another the scale that brings its weight nearest to the
        stored one, (I,) float64; 1 where that explains little. Channels from one row share one.
        """
        ties = fold.ties
        products, squares, distances = (torch.zeros(int(ties.max()) + 1, dtype=torch.float64) for _ in range(3))
        for path in fold.linears:
            info = self._layers.get(f"{prefix}{path}")
            if info is None:
                return torch.ones(len(ties), dtype=torch.float64)
            weight = weight_of(block, path).double().cpu()
            stored = self.opened.read(info).weight.double()
            products.index_add_(0, ties, (weight * stored).sum(0))
            squares.index_add_(0, ties, weight.square().sum(0))
            distances.index_add_(0, ties, (stored - weight).square().sum(0))
        fitted = torch.where(squares > 0, products / squares, 1.0)
        # Of the squared distance, which is least at the fitted scale.
        remaining = distances - (fitted - 1).square() * squares
        if float(remaining.sum()) > _EXPLAINED * float(distances.sum()) or bool((fitted <= 0).any()):
            fitted = torch.ones_like(fitted)
        return fitted[ties]

    def _check(self) -> None:
        """Sort the original's tensors without codes by the reason they differ; raise ``Refused`` without one."""
        family, checkpoint = self._checkpoint.family, self._checkpoint
        self._rounded: list[str] = []
        self._coded: list[str] = []
        self._folded: list[str] = []  # norms
        self._follow: list[str] = []  # readers of such a norm, and parts of a linear that was divided
        quantized = {f"{family.in_file(name)}.weight" for name in self._layers}
        different: list[str] = []
        for name in checkpoint.parameter_names:
            if name in quantized:
                continue
            if name.removesuffix(".weight") in self._described.places:
                self._coded.append(name)
                continue
            own, stored = self._files.read(name), self.opened.tensor(name)
            if torch.equal(own.to(stored.dtype), stored):
                wide = torch.promote_types(own.dtype, stored.dtype)
                if not torch.equal(own.to(wide), stored.to(wide)):
                    self._rounded.append(name)
            else:
                different.append(name)
        norms = self._norms()
        self._folded = [name for name in different if name in norms]
        for name in different:
            if name not in norms:
                self._check_follows(name)
                self._follow.append(name)
        self._check_first()

    def _norms(self) -> set[str]:
        """Return names of the norms in blocks that can take up channel scales of linears with codes."""
        return {
            norm
            for prefix, group, norm in self._groups()
            if group.source is not None and f"{prefix}{group.source}" not in self._layers
        }

    def _groups(self) -> Iterator[tuple[str, InputGroup, str]]:
        """Yield the groups of linears of all blocks, with the prefix of the block and the name of the norm before."""
        family = self._checkpoint.family
        for block in range(self._checkpoint.n_blocks):
            prefix = f"{family.blocks}.{block}."
            for group in self._checkpoint.groups(block):
                yield prefix, group, family.in_file(f"{prefix}{group.source}.weight")

    def _check_follows(self, name: str) -> None:
        """Raise ``Refused`` unless a tensor differs because a norm before it, or a linear's rows, took up scales."""
        family = self._checkpoint.family
        own, stored = self._files.read(name).double(), self.opened.tensor(name).double()
        for prefix, group, norm in self._groups():
            readers = [family.in_file(f"{prefix}{path}.weight") for path in (*group.also, *group.linears)]
            if norm in self._folded and name in readers and _is_near(stored, own * self._norm_scale(norm)):
                return
            source = f"{prefix}{group.source}"
            if source in self._layers and name == f"{family.in_file(source)}.bias" and self._folded:
                return  # divided with its rows
        raise Refused(
            f"{name} differs from the original's, and no channel scales explain it",
            f"quantized checkpoint {self._described.folder.name}",
            "Give the float checkpoint that it was made from as the model: drift and errors would be those of the "
            "difference of two models.",
        ).about("quantized_checkpoint")

    def _check_first(self) -> None:
        info = self.opened.layers[0]
        family = self._checkpoint.family
        own, stored = self._files.read(f"{family.in_file(info.name)}.weight").double(), self.layer(info).weight.double()
        for prefix, group, norm in self._groups():
            if norm in self._folded and info.name in {f"{prefix}{path}" for path in group.linears}:
                own = own * self._norm_scale(norm)
        distance = float((stored - own).norm() / own.norm())
        if not distance < 1:
            raise Refused(
                f"its codes of {info.name} are as far from the original's weight as that is from nothing",
                f"quantized checkpoint {self._described.folder.name}",
                "Give the float checkpoint that it was made from as the model.",
            ).about("quantized_checkpoint")

    def facts(self, name: str) -> OpenedCheckpoint:
        """Return its facts for summaries and studies; ``name``: as people gave it."""
        described = self._described
        return {
            "name": Path(name).name,
            "format": described.format,
            "made_by": described.made_by,
            "layers": len(described.layers),
            "fingerprint": self.fingerprint,
            "words": ". ".join((kind_words(described), *self.words())) + ".",
        }


def _is_near(values: Tensor, expected: Tensor) -> bool:
    return bool((values - expected).norm() <= _NEAR * expected.norm())
