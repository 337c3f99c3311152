"""One s̃ for linears that read the same tensor, against loops, and in the coordinates of the weights it was given."""

import json
import math
from functools import cache

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer, sweep_layer
from sarqc.errors import NumericalError, Refused
from sarqc.quantization.methods import ScaleSearch
from sarqc.quantization.quantized_layer import QuantizedLayer
from tests import oracles
from tests.quantizing import quantize_group, quantize_group_points

COLUMNS, TOKENS = 32, 120
X = oracles.correlated_inputs(71, TOKENS, COLUMNS)
STATISTICS = LayerStatistics.from_inputs(torch.from_numpy(X))
HELD_OUT = LayerStatistics.from_inputs(torch.from_numpy(oracles.correlated_inputs(72, 80, COLUMNS)))
ARRAYS = {
    "q": oracles.uneven_weight(73, 6, COLUMNS),
    "k": 3.0 * oracles.uneven_weight(74, 3, COLUMNS),
    "v": 0.2 * oracles.uneven_weight(75, 3, COLUMNS),
}
WEIGHTS = {name: torch.from_numpy(array) for name, array in ARRAYS.items()}
# 4 query heads over 2 heads of values, 8 channels each: channel j comes from row TIES[j].
TIES = torch.tensor([head // 2 * 8 + channel for head in range(4) for channel in range(8)])
ROW_SCALES = {"v": torch.tensor([0.25, 1.7, 6.0], dtype=torch.float64)}
KINDS = ("symmetric", "asymmetric", "full_range")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def foldable(lam: float = 0.3, saliency: str = "saliency", include_identity: bool = True) -> ScaleSearch:
    return ScaleSearch(lam=lam, saliency=saliency, mode="foldable", include_identity=include_identity)


def same(one: QuantizedLayer, other: QuantizedLayer) -> bool:
    """Bit for bit, but for the mode that the report names."""
    scales = [layer.channel_scale for layer in (one, other)]
    reports = [layer.report.to_json() for layer in (one, other)]
    for report in reports:
        del report["chosen"]["mode"]
    return (
        torch.equal(one.codes, other.codes)
        and torch.equal(one.scales, other.scales)
        and torch.equal(one.zero_points, other.zero_points)
        and torch.equal(one.dequantized, other.dequantized)
        and (scales[0] is scales[1] is None or torch.equal(*scales))
        and reports[0] == reports[1]
    )


@cache
def oracle(kind: str, bits: int, salient: bool, tied: bool, scaled: bool) -> list[oracles.GroupCandidate]:
    arrays = {name: np.where(array < 0, 0.05 * array, array) for name, array in ARRAYS.items()}
    return oracles.foldable_candidates(
        arrays if kind == "full_range" else ARRAYS, X, bits, 16, kind, salient=salient,
        ties=TIES.tolist() if tied else list(range(COLUMNS)),
        row_scales={name: scale.numpy() for name, scale in ROW_SCALES.items()} if scaled else {},
    )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("tied", "scaled"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("kind", "bits"), [("symmetric", 3), ("asymmetric", 2), ("asymmetric", 4), ("full_range", 3)])
def test_choice_codes_and_losses_equal_the_oracle(kind, bits, tied, scaled):
    # In full_range the negative end of a group is exactly a tie, so its groups end on the positive side.
    weights = {
        name: torch.where(weight < 0, 0.05 * weight, weight) if kind == "full_range" else weight
        for name, weight in WEIGHTS.items()
    }
    for salient in (True, False):
        found = oracle(kind, bits, salient, tied, scaled)
        lams = (0.0, 0.3, 2.0)
        solved = quantize_group_points(
            weights, STATISTICS, Grid(bits, 16, kind),
            [foldable(lam, "saliency" if salient else "identity") for lam in lams],
            held_out=HELD_OUT, ties=TIES if tied else None, row_scales=ROW_SCALES if scaled else None,
        )  # fmt: skip
        for lam, layers in zip(lams, solved, strict=True):
            best, lead = oracles.algorithm_1_choice(found, lam)
            assert lead > 1e-9  # otherwise the choice is left to rounding and the material is badly chosen
            assert list(layers) == list(WEIGHTS)
            for name, layer in layers.items():
                assert layer.report.chosen["alpha"] == (None if best.alpha is None else pytest.approx(best.alpha))
                scale = np.ones(COLUMNS) if layer.channel_scale is None else layer.channel_scale.numpy()
                assert np.allclose(scale, best.channel_scale, rtol=1e-10, atol=0)
                oracles.assert_same_codes(
                    layer.codes.numpy(), best.rounded[name], share=0.5 if kind == "full_range" else 1.0
                )
                free = best.rounded[name].margin > 1e-7
                assert np.allclose(layer.dequantized.numpy()[free], best.dequantized[name][free], rtol=1e-9, atol=1e-15)
            if kind != "full_range":
                reports = [layer.report for layer in layers.values()]
                assert sum(report.recon_loss for report in reports) == pytest.approx(best.recon, rel=1e-9)
                assert sum(report.sar_loss for report in reports) == pytest.approx(best.sar, rel=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_is_the_paper_bit_for_bit(kind, dtype):
    statistics = STATISTICS if dtype == torch.float64 else STATISTICS.to("cpu", torch.float32)
    weight = WEIGHTS["q"].to(dtype)
    for grid in (Grid(2, 16, kind), Grid(3, None, kind), Grid(4, 8, kind)):
        for lam in (0.0, 0.3):
            paper = quantize_layer(weight, statistics, grid, ScaleSearch(lam=lam), held_out=HELD_OUT)
            single = quantize_layer(weight, statistics, grid, foldable(lam), held_out=HELD_OUT)
            group = quantize_group({"one": weight}, statistics, grid, foldable(lam), held_out=HELD_OUT)["one"]
            own = quantize_group(
                {"one": weight}, statistics, grid, foldable(lam), held_out=HELD_OUT, ties=torch.arange(COLUMNS).flip(0)
            )["one"]
            assert same(single, paper)
            assert same(group, paper)
            assert same(own, paper)  # every channel tied to itself alone
            assert single.report.chosen["mode"] == "foldable"
    sweep = sweep_layer(weight, statistics, grid, foldable(), lams=(0.0, 0.3))
    assert torch.equal(sweep.dequantized(0, 1).codes, single.codes)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_result_is_exactly_what_its_codes_say(kind, dtype):
    work = torch.float64 if dtype == torch.float64 else torch.float32
    row_scales = {"v": ROW_SCALES["v"].to(dtype), "k": torch.tensor([0.011, 3.0, 900.0]).to(dtype)}
    layers = quantize_group(
        {name: weight.to(dtype) for name, weight in WEIGHTS.items()}, STATISTICS.to("cpu", work), Grid(3, 16, kind),
        foldable(include_identity=False), ties=TIES, row_scales=row_scales,
    )  # fmt: skip
    for name, layer in layers.items():
        spread = [part.to(work).repeat_interleave(16, dim=1) for part in (layer.zero_points, layer.scales)]
        levels = (layer.codes.to(work) - spread[0]) * spread[1]
        taken = torch.ones(len(levels), dtype=work) if layer.row_scale is None else layer.row_scale.to(work)
        for part in (layer.dequantized, layer.stored(), layer.scales, layer.channel_scale):
            assert part.dtype == dtype
        assert torch.equal(layer.stored(), levels.to(dtype))
        assert torch.equal(layer.dequantized, (levels * taken[:, None] / layer.channel_scale.to(work)).to(dtype))
        assert name not in row_scales or torch.equal(layer.row_scale, row_scales[name])  # exactly these numbers
        assert (layer.row_scale is None) == (name not in row_scales)
        delta = layer.dequantized.double() - WEIGHTS[name].to(dtype).double()
        assert layer.report.drift == pytest.approx(float(delta.square().sum()), rel=1e-3)


def test_8_bits_fit_their_integers():
    layer = quantize_group(WEIGHTS, STATISTICS, Grid(8, 16, "asymmetric"), foldable())["q"]
    assert layer.codes.dtype == torch.uint8
    assert torch.allclose(layer.stored() / layer.channel_scale, layer.dequantized, rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_ties_are_tied(dtype):
    statistics = STATISTICS.to("cpu", torch.float64 if dtype == torch.float64 else torch.float32)
    weights = {name: weight.to(dtype) for name, weight in WEIGHTS.items()}
    for ties in (TIES, torch.arange(COLUMNS) // 8, torch.arange(COLUMNS) % 2 * -7):
        search = foldable(include_identity=False)
        scale = quantize_group(weights, statistics, Grid(3, 16, "symmetric"), search, ties=ties)["q"].channel_scale
        for number in ties.unique():
            assert len(scale[ties == number].unique()) == 1
        assert ties is not TIES or len(scale.unique()) > 8  # and no more is tied than has to be
        assert float(scale.double().max() * scale.double().min()) == pytest.approx(1.0, rel=0.01)


def test_with_all_channels_tied_nothing_is_scaled():
    ties = torch.full((COLUMNS,), 5)
    layers = quantize_group(WEIGHTS, STATISTICS, Grid(3, 16, "asymmetric"), foldable(include_identity=False), ties=ties)
    for name, layer in layers.items():
        rounded = quantize_layer(WEIGHTS[name], STATISTICS, Grid(3, 16, "asymmetric"), method("rtn"))
        assert layer.channel_scale is None
        assert torch.equal(layer.codes, rounded.codes)
        assert torch.equal(layer.stored(), layer.dequantized)
        assert layer.report.chosen["alpha"] is None
        assert layer.report.chosen["lam_interval"] == [0.0, None]


def test_a_group_that_saw_no_token_keeps_its_row_scales():
    nothing = LayerStatistics.from_inputs(torch.zeros(0, COLUMNS, dtype=torch.float64))
    layers = quantize_group(WEIGHTS, nothing, Grid(3, 16, "symmetric"), foldable(), ties=TIES, row_scales=ROW_SCALES)
    assert all(layer.channel_scale is None for layer in layers.values())
    assert layers["q"].row_scale is None
    assert torch.equal(layers["v"].row_scale, ROW_SCALES["v"])
    rounded = quantize_layer(WEIGHTS["v"], nothing, Grid(3, 16, "symmetric"), method("rtn"))
    assert torch.allclose(layers["v"].dequantized, rounded.dequantized, rtol=1e-12, atol=0)
    assert layers["v"].report.flags == ("no_tokens",)


@pytest.mark.parametrize("mode", ["per_linear", "foldable", "group"])
@pytest.mark.parametrize(
    ("name", "grid"),
    [
        ("sarqc-gs", Grid(3, 16, "symmetric")),
        ("sarqc-gs", Grid(2, None, "asymmetric")),
        ("rqc-gs", Grid(2, 16, "asymmetric")),
    ],
)
def test_intervals_of_lambda_follow_one_another(name, grid, mode):
    """Where two candidates tie the last bit decides between them, and the interval still holds λ."""

    def chosen(lam: float) -> tuple[float | None, float, float]:
        if mode == "group":
            point = method(name, lam=lam, mode="foldable")
            layer = quantize_group(WEIGHTS, STATISTICS, grid, point, ties=TIES, row_scales=ROW_SCALES)["k"]
        else:
            layer = quantize_layer(WEIGHTS["q"], STATISTICS, grid, method(name, lam=lam, mode=mode))
        found = layer.report.chosen
        json.dumps(found, allow_nan=False)
        low, high = found["lam_interval"]
        assert low <= lam <= (math.inf if high is None else high)
        return found["alpha"], low, math.inf if high is None else high

    alpha, low, high = chosen(0.0)
    assert low == 0
    seen = {alpha}
    while high < math.inf:
        chosen(math.nextafter(high, 0.0))
        chosen(high)
        alpha, low, next_high = chosen(high * (1 + 1e-9))
        assert low == pytest.approx(high, rel=1e-12)
        assert alpha not in seen
        assert chosen((low + next_high) / 2 if next_high < math.inf else low + 1)[0] == alpha
        seen.add(alpha)
        high = next_high
    assert len(seen) > 1


REFUSED = [
    *((r"group", {"q": WEIGHTS["q"]}, name, {"ties": TIES}) for name in ("gptq", "rtn", "sarqc-gs", "omniquant")),
    ("no linear", {}, "foldable", {}),
    ("dtypes", WEIGHTS | {"k": WEIGHTS["k"].half()}, "foldable", {}),
    (r"^k: ", WEIGHTS | {"k": WEIGHTS["k"][:, :16]}, "foldable", {}),
    *(
        ("ties", WEIGHTS, "foldable", {"ties": ties})
        for ties in (torch.arange(8), torch.zeros(COLUMNS), torch.zeros(COLUMNS, 1, dtype=torch.long))
    ),
    *(
        (r"^v: row scale: ", WEIGHTS, "foldable", {"row_scales": {"v": torch.tensor(scale, dtype=torch.float64)}})
        for scale in ([1.0, 2.0], *([1.0, value, 1.0] for value in (0.0, -1.0, math.nan, math.inf)))
    ),
    (  # which the model could not hold
        "row scale",
        {name: weight.half() for name, weight in WEIGHTS.items()},
        "foldable",
        {"row_scales": {"v": torch.tensor([1.0, 1.0001, 1.0])}},
    ),
    ("group", {"v": WEIGHTS["v"]}, "gptq", {"row_scales": ROW_SCALES}),  # a method that divides by none
]


@pytest.mark.parametrize(("words", "weights", "name", "options"), REFUSED)
def test_what_is_no_group_is_refused(words, weights, name, options):
    chosen = foldable() if name == "foldable" else method(name)
    with pytest.raises(Refused, match=words):
        quantize_group(weights, STATISTICS, Grid(3, 16, "symmetric"), chosen, **options)


def test_a_weight_that_is_not_finite_is_named():
    broken = WEIGHTS["v"].clone()
    broken[1, 2] = math.nan
    with pytest.raises(NumericalError, match=r"^v: .*row 1, column 2"):
        quantize_group(WEIGHTS | {"v": broken}, STATISTICS, Grid(3, 16, "symmetric"), foldable())
