"""Learnable weight clipping: its roundings, its gradient and its learning, against autograd and plain OmniQuant."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import silu

from sarqc import Grid, LayerStatistics
from sarqc.errors import NumericalError, Refused
from sarqc.quantization.learned_clipping import ClippedLinear
from sarqc.quantization.methods import LearnedClipping
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solve import quantize
from sarqc.quantization.solving import BlockRun, Context, Epoch, LayerJob
from tests import oracles, oracles_clipping
from tests.quantizing import quantize_block, same_tensors, spelt_out

KINDS = ["symmetric", "full_range", "asymmetric", "affine"]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
HIDDEN, WIDE, TOKENS = 32, 48, 10


def work_of(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


class Block:
    """x + down(silu(gate x) · up x) with a norm before it, on sequences whose float prefix was a little different."""

    def __init__(self, dtype: torch.dtype = torch.float64, seed: int = 0, compute: torch.dtype | None = None) -> None:
        compute = compute or work_of(dtype)
        make = {"gate": (WIDE, HIDDEN), "up": (WIDE, HIDDEN), "down": (HIDDEN, WIDE)}
        self.weights = {
            name: torch.from_numpy(4 * oracles.uneven_weight(200 + 10 * seed + i, *shape)).to(dtype)
            for i, (name, shape) in enumerate(make.items())
        }
        self.norm = torch.linspace(0.5, 1.5, HIDDEN, dtype=compute)
        x, other = (torch.from_numpy(oracles.correlated_inputs(n + seed, 6 * TOKENS, HIDDEN)) for n in (300, 400))
        x, other = ((part / part.std(dim=0)).reshape(6, TOKENS, HIDDEN) for part in (x, other))
        self.states = x.to(compute)
        self.inputs = list(self.states.split([4, 2]))
        exact = {name: weight.to(compute) for name, weight in self.weights.items()}
        self.targets = [self(exact, part) for part in (x + 0.05 * other).to(compute).split([4, 2])]
        normed = self.states.to(work_of(compute)) * self.norm.to(work_of(compute))
        between = self._between({name: w.to(work_of(compute)) for name, w in exact.items()}, normed)
        read = {"gate": normed, "up": normed, "down": between}
        self.statistics = {name: LayerStatistics.from_inputs(part) for name, part in read.items()}

    @staticmethod
    def _between(weights: dict[str, Tensor], normed: Tensor) -> Tensor:
        return silu(normed @ weights["gate"].mT) * (normed @ weights["up"].mT)

    def __call__(self, weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return x + self._between(weights, x * self.norm) @ weights["down"].mT

    def quantize(
        self, grid: Grid, method: LearnedClipping, **changes: object
    ) -> tuple[list[Epoch], dict[str, QuantizedLayer]]:
        given = {
            "weights": self.weights, "statistics": self.statistics, "grids": dict.fromkeys(self.weights, grid),
            "forward": self, "inputs": self.inputs, "targets": self.targets,
        }  # fmt: skip
        given |= changes
        first = [given.pop(name) for name in ("weights", "statistics", "grids")]
        *epochs, layers = quantize_block(*first, method, **given)
        assert all(isinstance(epoch, Epoch) for epoch in epochs)
        return epochs, layers

    def reference(self, grid: Grid, method: LearnedClipping, epochs: int) -> oracles_clipping.Learned:
        saliencies = None
        if method.saliency == "saliency":
            saliencies = {
                name: oracles_clipping.half_saliency(self.statistics[name].abs_mean, weight.to(work_of(weight.dtype)))
                for name, weight in self.weights.items()
            }
        stored = next(iter(self.weights.values())).dtype
        weights = {name: weight.to(work_of(stored)) for name, weight in self.weights.items()}
        return oracles_clipping.omniquant(
            weights, saliencies, grid.bits, grid.kind, grid.group_size, self,
            list(torch.cat(self.inputs)), list(torch.cat(self.targets)),
            epochs=epochs, lam=method.lam, normalised=method.normalise == "initial", stored=stored,
        )  # fmt: skip


def uneven_linear(grid: Grid, dtype: torch.dtype, saliency: str = "saliency") -> ClippedLinear:
    """Return a linear with a group of zeros, one of each sign, and one whose two ends are equally large."""
    weight = torch.from_numpy(oracles.uneven_weight(31, 10, 48))
    weight[0, :16] = 0.0
    weight[1, :] = weight[1].abs() + 0.01
    weight[2, :] = -weight[2].abs() - 0.01
    weight[3, 16], weight[3, 21] = 0.75, -0.75
    weight[4] = 0.0
    x = torch.from_numpy(oracles.correlated_inputs(32, 60, 48)).to(work_of(dtype))
    layer = CheckedLayer(weight.to(dtype), LayerStatistics.from_inputs(x), grid, None)
    return ClippedLinear(layer, saliency)


def some_logits(linear: ClippedLinear, seed: int) -> Tensor:
    """Logits between almost no clipping and a very strong one; row 3 has equal ones, so that its ends stay equal."""
    logits = 2 * torch.randn(linear.ends.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits[1, 3] = logits[0, 3]
    return logits.to(linear.ends.dtype)


# Rounding


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_block_runs_on_exactly_what_is_stored(kind, dtype):
    """Steps and measurements alike, in the dtype of the inputs: bit for bit what codes, scales and zero points say."""
    block, seen = Block(dtype), []

    def forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        seen.append({name: weight.detach().clone() for name, weight in weights.items()})
        return block(weights, x)

    batch = {"inputs": block.inputs[:1], "targets": block.targets[:1]}
    epochs, layers = block.quantize(Grid(2, 16, kind), LearnedClipping(lam=0.05, epochs=1), forward=forward, **batch)
    assert len(seen) == 6  # a measurement, four sequences, a measurement
    best = seen[-1] if epochs[1].objective < epochs[0].objective else seen[0]
    for name, layer in layers.items():
        assert torch.equal(best[name], spelt_out(layer, dtype).to(work_of(dtype)))
        assert torch.equal(seen[1][name], seen[0][name])  # the first step is taken where the first look was


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_rounding_at_any_logits(bits, kind, dtype):
    """Scales exact in the storage dtype, the oracle's weights, and zeros that stay zeros."""
    for group_size in (16, None):
        linear = uneven_linear(Grid(bits, group_size, kind), dtype)
        logits = some_logits(linear, bits)
        rounded = linear.round([logits])
        assert torch.equal(rounded.scales.to(dtype).to(rounded.scales.dtype), rounded.scales)
        layer = linear.layer.quantized(
            rounded.codes.flatten(-2), rounded.scales, rounded.zero_points, rounded.stored, chosen={}
        )
        assert torch.equal(rounded.stored, spelt_out(layer, dtype))
        assert (rounded.scales[4] == 1).all()
        assert (rounded.stored[4] == 0).all()
        weight = linear.layer.weight
        wanted = oracles_clipping.fake_weight(weight, logits, bits, kind, group_size, stored=dtype)
        # On the affine grid a level near 0 is the difference of two large numbers.
        close = 4 * torch.finfo(dtype).eps * (float(weight.abs().max()) if kind == "affine" else 0)
        assert torch.allclose(rounded.stored.to(weight.dtype), wanted, rtol=4 * torch.finfo(dtype).eps, atol=close)


# Gradient


@pytest.mark.parametrize("group_size", [16, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_gradient_equals_autograd(bits, kind, group_size):
    linear = uneven_linear(Grid(bits, group_size, kind), torch.float64)
    weight = linear.layer.weight
    slope = 20 * torch.from_numpy(oracles.uneven_weight(77, *weight.shape))
    for seed in range(4):
        logits = some_logits(linear, seed) if seed else linear.first()[0]
        (ours,) = linear.gradient([logits], linear.round([logits]), slope)
        leaf = logits.clone().requires_grad_()
        (oracles_clipping.fake_weight(weight, leaf, bits, kind, group_size) * slope).sum().backward()
        assert ours.abs().max() > 1e-4
        assert torch.allclose(ours, leaf.grad, rtol=1e-9, atol=1e-12)
        assert (ours[:, 4] == 0).all()


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float16, 4), (torch.bfloat16, 8)], ids=str)
def test_gradient_where_a_scale_or_a_zero_point_is_clamped(dtype, bits):
    """Scales below what float16 can hold, and zero points that a rounded-down bfloat16 scale pushes past the codes."""
    noise = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
    weight = (noise * 1e-7 if dtype == torch.float16 else -noise.abs() - 0.5).to(dtype)
    layer = CheckedLayer(weight, LayerStatistics.from_inputs(torch.ones(3, 16)), Grid(bits, 16, "asymmetric"), None)
    linear = ClippedLinear(layer, "saliency")
    logits = 2 * torch.randn(linear.ends.shape, generator=torch.Generator().manual_seed(2))
    rounded = linear.round([logits])
    if dtype == torch.float16:
        assert (rounded.scales == 2.0**-24).float().mean() > 0.5
    else:
        ratio = -torch.sigmoid(logits[1]) * linear.ends[1] / rounded.scales
        assert (ratio.round() > 255).float().mean() > 0.1
    (ours,) = linear.gradient([logits], rounded, torch.ones_like(layer.weight))
    leaf = logits.clone().requires_grad_()
    oracles_clipping.fake_weight(layer.weight, leaf, bits, "asymmetric", 16, stored=dtype).sum().backward()
    assert torch.allclose(ours, leaf.grad, rtol=1e-4, atol=1e-5 * float(leaf.grad.abs().max()))


# Learning


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("bits", [2, 3])
def test_every_epoch_is_plain_omniquant_and_the_result_no_worse(bits, kind, seed):
    """The whole way equals autograd's: gradients, AdamW, order of sequences; the kept epoch is the best of it."""
    block, grid = Block(seed=seed), Grid(bits, 16, kind)
    for lam in (0.0, 0.1):
        choice = LearnedClipping(lam=lam, epochs=12)
        plain = block.reference(grid, choice, epochs=12)
        epochs, layers = block.quantize(grid, choice)
        assert [epoch.objective for epoch in epochs] == pytest.approx(plain.objective, rel=1e-7)
        assert [epoch.sar for epoch in epochs] == pytest.approx(plain.sar, rel=1e-7)
        best = min(epochs, key=lambda epoch: epoch.objective)
        chosen = layers["up"].report.chosen
        assert (chosen["best_epoch"], chosen["objective"]) == (best.epoch, best.objective)
        assert best.objective <= plain.objective[-1] * (1 + 1e-9)
        assert best.objective < 0.99 * epochs[0].objective  # there is something to learn
        exact = {name: layer.dequantized for name, layer in layers.items()}
        error = (block(exact, torch.cat(block.inputs)) - torch.cat(block.targets)).square().mean()
        assert float(error) == pytest.approx(best.recon, rel=1e-12)
        assert sum(layer.report.sar_loss for layer in layers.values()) == pytest.approx(best.sar, rel=1e-12)


@pytest.mark.parametrize("normalise", ["initial", "none"])
@pytest.mark.parametrize("saliency", ["saliency", "identity"])
def test_the_other_forms_are_the_references_too(saliency, normalise):
    block, grid = Block(), Grid(3, None, "full_range")
    choice = LearnedClipping(lam=0.02, epochs=5, saliency=saliency, normalise=normalise)
    plain = block.reference(grid, choice, epochs=5)
    epochs, layers = block.quantize(grid, choice)
    assert [epoch.objective for epoch in epochs] == pytest.approx(plain.objective, rel=1e-7)
    assert [epoch.recon for epoch in epochs] == pytest.approx(plain.recon, rel=1e-7)
    assert [epoch.sar for epoch in epochs] == pytest.approx(plain.sar, rel=1e-7)
    assert sum(layer.report.sar_loss for layer in layers.values()) == pytest.approx(min(plain.sar), rel=1e-7)


def test_the_earlier_of_equal_epochs_is_kept():
    """A rate of 0 changes nothing, a huge one only makes it worse: in both the logits stay where they were."""
    block, grid = Block(), Grid(3, 16, "asymmetric")
    still, layers = block.quantize(grid, LearnedClipping(epochs=2, learning_rate=0.0))
    assert len({epoch.objective for epoch in still}) == 1
    wild, same = block.quantize(grid, LearnedClipping(epochs=2, learning_rate=50.0))
    assert min(epoch.objective for epoch in wild[1:]) > wild[0].objective
    for name in layers:
        assert layers[name].report.chosen["best_epoch"] == same[name].report.chosen["best_epoch"] == 0
        assert same[name].report.chosen["objective"] == wild[0].objective
        assert torch.equal(layers[name].dequantized, same[name].dequantized)


@pytest.mark.thorough
@pytest.mark.parametrize(("bits", "epochs"), [(2, 40), (3, 20)])
def test_epochs_follow_the_bit_width(bits, epochs):
    block = Block(torch.float32)
    seen, layers = block.quantize(Grid(bits, None, "symmetric"), LearnedClipping())
    assert [epoch.epoch for epoch in seen] == list(range(epochs + 1))
    assert {epoch.epochs for epoch in seen} == {epochs}
    assert layers["gate"].report.chosen["epochs"] == epochs


def test_half_precision_does_not_underflow():
    """A block that computes in float16 with small outputs and smaller errors, whose mean would have no gradient."""
    block, grid = Block(torch.float16, compute=torch.float16), Grid(3, 16, "asymmetric")

    def small(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        return (block(weights, x) - x) / 4096

    targets = [small(block.weights, part) for part in block.inputs]
    epochs, layers = block.quantize(grid, LearnedClipping(epochs=6, learning_rate=0.03), forward=small, targets=targets)
    assert 0 < epochs[0].recon < 1e-6
    assert min(epoch.objective for epoch in epochs) < 0.99
    assert layers["down"].dequantized.dtype == torch.float16


# What goes in and what comes out


def test_what_has_gradients_gets_none():
    """Nothing of a block that takes part in another graph is changed, whether gradients are on or off."""
    block, grid = Block(torch.float32), Grid(2, 16, "asymmetric")
    block.weights = {name: torch.nn.Parameter(weight) for name, weight in block.weights.items()}
    block.norm.requires_grad_()
    block.inputs = [part.requires_grad_() for part in map(Tensor.detach, block.inputs)]
    before = copy.deepcopy((block.inputs, block.targets))
    choice = LearnedClipping(lam=0.1, epochs=3)
    first, layers = block.quantize(grid, choice)
    with torch.no_grad():
        again, same = block.quantize(grid, choice)
    assert first == again
    for name, layer in layers.items():
        same_tensors(layer, same[name])
        assert not layer.dequantized.requires_grad
    for part in (*block.inputs, *block.weights.values(), block.norm):
        assert part.grad is None
    for now, then in zip(block.inputs + block.targets, before[0] + before[1], strict=True):
        assert torch.equal(now, then)


def test_batches_are_only_a_way_to_hand_over_sequences():
    """Other batches, an empty one among them: the same steps; measurements differ by the order of their sums."""
    block, grid, choice = Block(), Grid(3, 16, "asymmetric"), LearnedClipping(lam=0.1, epochs=3)
    epochs, layers = block.quantize(grid, choice)
    parts = [list(torch.cat(part).split([1, 0, 5])) for part in (block.inputs, block.targets)]
    other, same = block.quantize(grid, choice, inputs=parts[0], targets=parts[1])
    assert [epoch.objective for epoch in other] == pytest.approx([epoch.objective for epoch in epochs], rel=1e-12)
    assert all(torch.equal(layer.codes, same[name].codes) for name, layer in layers.items())


def test_one_graph_at_a_time_and_no_grad_mode_left_behind():
    block, calls = Block(torch.float32), []

    def forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        calls.append((torch.is_grad_enabled(), len(x)))
        return block(weights, x)

    given = (block.weights, block.statistics, dict.fromkeys(block.weights, Grid(3, 16, "symmetric")))
    batches = {"forward": forward, "inputs": block.inputs, "targets": block.targets}
    for mode in (True, False):
        with torch.set_grad_enabled(mode):
            for _ in quantize_block(*given, LearnedClipping(epochs=1), **batches):
                assert torch.is_grad_enabled() is mode
    once = [(False, 4), (False, 2), *[(True, 1)] * 6, (False, 4), (False, 2)]
    assert calls == 2 * once


def test_nothing_to_learn():
    """Weights that are levels already, or inputs of zeros: both terms may be 0 and nothing divides by them."""
    block = Block(torch.float32)
    on_grid = {name: torch.round(weight).clamp(-1, 1) for name, weight in block.weights.items()}
    zeros = [torch.zeros_like(part) for part in block.inputs]
    epochs, layers = block.quantize(
        Grid(2, None, "symmetric"), LearnedClipping(lam=0.1, epochs=1), weights=on_grid, inputs=zeros, targets=zeros
    )
    assert epochs[0].recon == 0
    assert math.isfinite(epochs[-1].objective)
    nothing = {name: torch.zeros_like(weight) for name, weight in block.weights.items()}
    epochs, layers = block.quantize(
        Grid(2, 16, "asymmetric"), LearnedClipping(lam=0.1, epochs=2), weights=nothing, targets=block.inputs
    )
    assert [epoch.objective for epoch in epochs] == [0.0, 0.0, 0.0]
    assert all((layer.dequantized == 0).all() for layer in layers.values())


def test_a_linear_that_some_sequences_do_not_reach():
    """As an expert that a router passes over: with and without λ the rest is learned."""
    block, grid = Block(torch.float32), Grid(2, 16, "asymmetric")

    def without_gate(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        normed = x * block.norm
        return x + silu(normed @ weights["up"].mT) @ weights["down"].mT

    exact = {name: weight.clone() for name, weight in block.weights.items()}
    targets = [without_gate(exact, part) for part in block.inputs]
    for lam in (0.0, 0.1):
        choice = LearnedClipping(lam=lam, epochs=3)
        epochs, layers = block.quantize(grid, choice, forward=without_gate, targets=targets)
        assert epochs[-1].objective < epochs[0].objective
        _, still = block.quantize(grid, LearnedClipping(epochs=1, learning_rate=0.0))
        unmoved = torch.equal(layers["gate"].dequantized, still["gate"].dequantized)
        assert unmoved is (lam == 0)


# What is turned down


def test_divergence_names_its_epoch():
    block = Block(torch.float32)
    calls = []

    def forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        calls.append(None)
        return block(weights, x) * (math.inf if len(calls) > 12 else 1)

    with pytest.raises(NumericalError) as failed:
        block.quantize(Grid(3, 16, "symmetric"), LearnedClipping(epochs=4), forward=forward)
    assert "epoch 2 of 4" in failed.value.where
    assert "learning rate" in failed.value.remedy


def test_refusals_come_before_any_work():
    block, grid = Block(torch.float32), Grid(3, 16, "symmetric")

    def forward(weights: dict[str, Tensor], x: Tensor) -> Tensor:
        raise AssertionError("work was done")

    def refused(message: str, **changes: object) -> None:
        with pytest.raises(Refused, match=message) as error:
            block.quantize(grid, LearnedClipping(epochs=1), **{"forward": forward} | changes)
        assert error.value.remedy

    refused("no linear", weights={}, statistics={}, grids={})
    grids = dict.fromkeys(block.weights, grid) | {"up": Grid(4, 16, "symmetric")}
    refused("3 and 4 bits", grids=grids)
    refused("groups of 20", grids=dict.fromkeys(block.weights, Grid(3, 20, "symmetric")))
    refused("statistics are of", statistics=block.statistics | {"up": block.statistics["down"]})
    refused("no sequence", inputs=[], targets=[])
    refused("no sequence", inputs=[block.inputs[0][:0]], targets=[block.targets[0][:0]])
    refused("targets", targets=block.targets[:1])
    refused("targets", targets=[part[:, :-1] for part in block.targets])
    flat = [part.flatten(0, 1) for part in block.inputs]
    refused("inputs are", inputs=flat, targets=flat)
    layer = CheckedLayer(block.weights["up"], block.statistics["up"], grid, None, name="up")
    up = LayerJob(layer, [LearnedClipping(epochs=1)])
    with pytest.raises(Refused, match="share a name"):
        quantize([up, up], Context(block=BlockRun(forward, block.inputs, block.targets)))


def test_a_block_that_makes_another_shape_is_refused():
    block = Block(torch.float32)
    grid, once = Grid(3, 16, "symmetric"), LearnedClipping(epochs=1)
    with pytest.raises(Refused, match="the block makes"):
        block.quantize(grid, once, forward=lambda weights, x: block(weights, x)[:, :1])
