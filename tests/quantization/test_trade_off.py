"""λ-intervals against pairwise comparisons in rational numbers, and against the searches themselves."""

import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solve import quantize_layer, sweep_layer
from tests import oracles
from tests.theory.lambda_path import SearchPath, multipliers, search_path, sweep_intervals
from tests.theory.trade_off import Interval, LambdaIntervals, lambda_intervals

Points = list[tuple[float, float]]

# Small integers make ties, equal drifts and points on one line common; floats make them rare and the numbers awkward.
COARSE = st.tuples(st.integers(0, 6), st.integers(0, 6)).map(lambda point: (float(point[0]), float(point[1])))
FINE = st.tuples(*[st.floats(0, 1e6, allow_nan=False, width=64)] * 2)
SETS = st.one_of(st.lists(COARSE, min_size=1, max_size=9), st.lists(FINE, min_size=1, max_size=9))


def tensors(points: Points) -> tuple[torch.Tensor, torch.Tensor]:
    drift, recon = zip(*points, strict=True)
    return torch.tensor(drift, dtype=torch.float64), torch.tensor(recon, dtype=torch.float64)


def minimisers(points: Points, lam: Fraction) -> set[int]:
    values = [Fraction(recon) + lam * Fraction(drift) for drift, recon in points]
    least = min(values)
    return {position for position, value in enumerate(values) if value == least}


def exact_interval(points: Points, position: int) -> tuple[Fraction, Fraction | None] | None:
    """Every λ ≥ 0 at which no other candidate is better, one half-line after another; None where nothing is left."""
    drift, recon = map(Fraction, points[position])
    lowest, highest = Fraction(0), None
    for other_drift, other_recon in points:
        ahead, nearer = Fraction(other_recon) - recon, drift - Fraction(other_drift)  # wanted: ahead ≥ λ · nearer
        if nearer == 0:
            if ahead < 0:
                return None
        elif nearer > 0:
            highest = ahead / nearer if highest is None else min(highest, ahead / nearer)
        else:
            lowest = max(lowest, ahead / nearer)
    return None if highest is not None and lowest > highest else (lowest, highest)


def rounded(value: Fraction | None) -> float:
    if value is None:
        return math.inf
    try:
        return float(value)
    except OverflowError:
        return 1.7976931348623157e308


def found(points: Points) -> LambdaIntervals:
    return lambda_intervals(*tensors(points))


@pytest.mark.thorough
@settings(max_examples=400)
@given(SETS)
def test_intervals_are_all_pairwise_comparisons_together(points: Points) -> None:
    ours = found(points)
    for position in range(len(points)):
        expected = exact_interval(points, position)
        interval = ours.interval(position)
        assert bool(ours.supported[position]) == (expected is not None) == (not interval.is_empty)
        if expected is not None:
            assert (interval.lowest, interval.highest) == (rounded(expected[0]), rounded(expected[1]))


@settings(max_examples=150)
@given(st.lists(COARSE, min_size=1, max_size=9))
def test_a_dense_scan_of_lambda_finds_the_same_candidates(points: Points) -> None:
    """Differences of integers up to 6 can tie only at p/q with p, q ≤ 6: sixtieths hold them all and much between."""
    ours = found(points)
    intervals = [ours.interval(position) for position in range(len(points))]
    for step in [*range(0, 6 * 60 + 60), 10**6]:
        lam, values = step / 60, [60 * recon + step * drift for drift, recon in points]  # whole numbers
        least = min(values)
        for value, interval in zip(values, intervals, strict=True):
            assert (lam in interval) == (value == least), (lam, value)


@pytest.mark.thorough
@settings(max_examples=400)
@given(SETS)
def test_both_definitions_agree(points: Points) -> None:
    """λ_min ≤ λ ≤ λ_max is the hull's interval, save for a candidate beaten at its own drift."""
    ours, (drift, recon) = found(points), tensors(points)
    for position, (own_drift, own_recon) in enumerate(points):
        interval, definition = ours.interval(position), multipliers(drift, recon, position)
        if any(other == own_drift and better < own_recon for other, better in points):
            assert interval.is_empty
        elif interval.is_empty:
            assert definition.is_empty
        else:
            assert definition == interval


def constrained_minimisers(points: Points) -> set[int]:
    """Those that have the least recon under some bound on drift, which is what the corollary is about."""
    positions = set()
    for squared_radius in {drift for drift, _ in points}:
        least = min(recon for drift, recon in points if drift <= squared_radius)
        positions |= {k for k, (drift, recon) in enumerate(points) if drift <= squared_radius and recon == least}
    return positions


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.lists(COARSE, min_size=1, max_size=9), st.integers(0, 500).map(lambda step: Fraction(step, 60)))
def test_the_corollary(points: Points, lam: Fraction) -> None:
    """A minimiser under a bound on drift minimises the penalised objective if and only if λ_min ≤ λ ≤ λ_max."""
    drift, recon = tensors(points)
    for position in constrained_minimisers(points):
        definition = multipliers(drift, recon, position)
        assert (position in minimisers(points, lam)) == (float(lam) in definition)


@pytest.mark.thorough
@settings(max_examples=300)
@given(st.lists(FINE, min_size=1, max_size=9), st.floats(0, 1e6))
def test_the_corollary_with_awkward_numbers(points: Points, lam: float) -> None:
    """The same; a λ that an end was rounded to or past is left out."""
    drift, recon = tensors(points)
    for position in constrained_minimisers(points):
        definition = multipliers(drift, recon, position)
        ends = [end for end in (definition.lowest, definition.highest) if math.isfinite(end)]
        if not any(abs(lam - end) <= 1e-15 * abs(end) + 1e-320 for end in ends):
            assert (position in minimisers(points, Fraction(lam))) == (lam in definition)


@settings(max_examples=200)
@given(SETS)
def test_supported_intervals_cover_every_lambda(points: Points) -> None:
    ours = found(points)
    kept = sorted(
        (ours.interval(position) for position in range(len(points)) if ours.supported[position]),
        key=lambda interval: (interval.lowest, interval.highest),
    )
    assert kept[0].lowest == 0
    assert max(interval.highest for interval in kept) == math.inf
    reached = 0.0
    for interval in kept:
        assert interval.lowest <= reached  # no hole between neighbours
        reached = max(reached, interval.highest)


@pytest.mark.thorough
@settings(max_examples=200)
@given(SETS, st.integers(-40, 40), st.integers(-40, 40))
def test_units_move_lambda_and_nothing_else(points: Points, of_drift: int, of_recon: int) -> None:
    """Powers of two, so that nothing is rounded: recon · a and drift · b turn λ into λ · a/b."""
    points = [(drift if drift > 1e-200 else 0.0, recon if recon > 1e-200 else 0.0) for drift, recon in points]
    drift, recon = tensors(points)
    plain, scaled = lambda_intervals(drift, recon), lambda_intervals(drift * 2.0**of_drift, recon * 2.0**of_recon)
    assert torch.equal(plain.supported, scaled.supported)
    factor = 2.0 ** (of_recon - of_drift)
    middling = plain.highest.isinf() | ((plain.highest > 1e-200) & (plain.highest < 1e200)) | (plain.highest == 0)
    assert torch.equal((plain.highest * factor)[middling], scaled.highest[middling])
    for position in range(len(points)):
        one = multipliers(drift, recon, position)
        other = multipliers(drift * 2.0**of_drift, recon * 2.0**of_recon, position)
        assert one.is_empty == other.is_empty


@settings(max_examples=100)
@given(SETS, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(points: Points, random) -> None:
    order = list(range(len(points)))
    random.shuffle(order)
    ours, shuffled = found(points), found([points[position] for position in order])
    assert torch.equal(ours.lowest[order], shuffled.lowest)
    assert torch.equal(ours.highest[order], shuffled.highest)


EVERYWHERE, AT_ZERO, LARGEST = Interval(0.0, math.inf), Interval(0.0, 0.0), 1.7976931348623157e308
DEGENERATE: dict[str, tuple[Points, list[Interval | None]]] = {
    "one candidate wins everywhere": ([(3.0, 2.0)], [EVERYWHERE]),
    "equal candidates share their interval": ([(1.0, 2.0), (1.0, 2.0)], [EVERYWHERE] * 2),
    "inside an edge one λ is left": (
        [(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)],
        [Interval(1.0, math.inf), Interval(1.0, 1.0), Interval(0.0, 1.0)],
    ),
    "of equal drifts the smaller error wins": ([(1.0, 2.0), (1.0, 3.0)], [EVERYWHERE, None]),
    "of equal errors more drift is supported at 0 only": (
        [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)],
        [EVERYWHERE, AT_ZERO, AT_ZERO],
    ),
    "beaten in both, and above the hull": (
        [(0.0, 4.0), (1.0, 3.0), (2.0, 0.0), (3.0, 1.0)],
        [Interval(2.0, math.inf), None, Interval(0.0, 2.0), None],
    ),
    "a steepness beyond doubles": (
        [(0.0, 1e300), (5e-324, 0.0)],
        [Interval(LARGEST, math.inf), Interval(0.0, LARGEST)],
    ),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_sets(name: str) -> None:
    points, expected = DEGENERATE[name]
    intervals = [found(points).interval(position) for position in range(len(points))]
    assert [None if interval.is_empty else interval for interval in intervals] == expected


def test_decimals_that_only_look_collinear() -> None:
    """In doubles 0.1 + 0.2 ≠ 0.3: the middle point lies on one side of the line, and exactly which is known."""
    points = [(0.1, 0.3), (0.2, 0.2), (0.3, 0.1)]
    assert found(points).interval(1).is_empty == (exact_interval(points, 1) is None)


def test_a_rival_of_the_same_drift_is_not_in_the_definition() -> None:
    assert multipliers(*tensors([(1.0, 2.0), (1.0, 3.0)]), 1) == EVERYWHERE


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (Refused, lambda: lambda_intervals(torch.ones(0), torch.ones(0))),
        (Refused, lambda: lambda_intervals(ONE, torch.ones(2))),
        (NumericalError, lambda: lambda_intervals(ONE, ONE * math.nan)),
        (NumericalError, lambda: multipliers(ONE * math.inf, ONE, 0)),
    ],
)
def test_sets_that_are_none_are_refused(error: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(error):
        call()


X = torch.from_numpy(oracles.correlated_inputs(81, 160, 64))
W = torch.from_numpy(oracles.uneven_weight(82, 8, 64))
STATISTICS = LayerStatistics.from_inputs(X)
LAMS = [0.0, *torch.logspace(-3, 2, 40, dtype=torch.float64).tolist(), 1e6]


def assert_the_path_is_the_search(
    path: SearchPath, name: str, weight: torch.Tensor, statistics: LayerStatistics, grid: Grid, include_identity: bool
) -> None:
    ends = [end for end in path.intervals.lowest.tolist() + path.intervals.highest.tolist() if 0 < end < math.inf]
    inside = [
        (low + high) / 2 if high < math.inf else low + 1
        for low, high in zip(path.intervals.lowest.tolist(), path.intervals.highest.tolist(), strict=True)
        if low < high
    ]
    for lam in [*LAMS, *ends, *inside]:
        selected = path.select(lam)
        search = method(name, lam=lam, include_identity=include_identity)
        report = quantize_layer(weight, statistics, grid, search).report  # the public way in
        assert path.alphas[selected] == report.chosen["alpha"], lam
        interval = path.intervals.interval(selected)
        assert interval.lowest * (1 - 1e-12) <= lam <= interval.highest * (1 + 1e-12) + 1e-15, lam


@pytest.mark.thorough
@pytest.mark.parametrize("include_identity", [True, False])
@pytest.mark.parametrize(
    ("name", "bits", "kind"), [("sarqc-gs", 3, "symmetric"), ("sarqc-gs", 2, "asymmetric"), ("rqc-gs", 3, "asymmetric")]
)
def test_search_path_selects_what_quantize_layer_selects(
    name: str, bits: int, kind: str, include_identity: bool
) -> None:
    grid = Grid(bits, 32, kind)
    path = search_path(W, STATISTICS, grid, method(name, include_identity=include_identity))
    assert len(path.alphas) == 21 + include_identity
    assert path.alphas[-1] is None or not include_identity
    assert_the_path_is_the_search(path, name, W, STATISTICS, grid, include_identity)


def test_search_path_in_single_precision() -> None:
    """float32 losses, and still the same choice at every λ, the ends of the intervals included."""
    weight, statistics, grid = W.float(), LayerStatistics.from_inputs(X.float()), Grid(3, 32, "symmetric")
    path = search_path(weight, statistics, grid, method("sarqc-gs"))
    assert path.recon_loss.dtype == torch.float64
    assert_the_path_is_the_search(path, "sarqc-gs", weight, statistics, grid, True)


def test_search_path_losses_equal_the_oracle() -> None:
    grid = Grid(3, 32, "asymmetric")
    path = search_path(W, STATISTICS, grid, method("sarqc-gs"))
    expected = oracles.algorithm_1_candidates(
        W.numpy(), X.numpy(), 3, 32, "asymmetric", salient=True, include_identity=True
    )
    for position, candidate in enumerate(expected):
        alpha = path.alphas[position]
        assert alpha == (None if candidate.alpha is None else pytest.approx(candidate.alpha, abs=1e-12))
        assert float(path.recon_loss[position]) == pytest.approx(candidate.recon, rel=1e-9)
        assert float(path.sar_loss[position]) == pytest.approx(candidate.sar, rel=1e-9)
    for normalised in (path.recon_normalised, path.sar_normalised):
        assert (float(normalised.min()), float(normalised.max())) == (0.0, 1.0)


def test_search_path_ignores_the_methods_lambda_and_the_units() -> None:
    grid = Grid(3, 32, "symmetric")
    path = search_path(W, STATISTICS, grid, method("sarqc-gs", lam=0.1))
    other = search_path(W, STATISTICS, grid, method("sarqc-gs", lam=0.9))
    assert torch.equal(path.intervals.lowest, other.intervals.lowest)
    scaled = search_path(8 * W, LayerStatistics.from_inputs(X / 4), grid, method("sarqc-gs"))
    assert torch.equal(path.intervals.supported, scaled.intervals.supported)
    kept = path.intervals.supported
    assert torch.allclose(path.intervals.lowest[kept], scaled.intervals.lowest[kept], rtol=1e-6)


def test_awq_and_the_far_end() -> None:
    """λ = 0 takes the least reconstruction error, a very large λ the least drift."""
    path = search_path(W, STATISTICS, Grid(3, 32, "symmetric"), method("sarqc-gs"))
    assert path.select(0.0) == int(path.recon_loss.argmin())
    assert path.select(1e9) == int(path.sar_loss.argmin())
    assert path.intervals.interval(int(path.sar_loss.argmin())).highest == math.inf


def test_a_layer_without_tokens_has_one_candidate() -> None:
    nothing = LayerStatistics.from_inputs(torch.zeros(0, 64, dtype=torch.float64))
    path = search_path(W, nothing, Grid(3, 32, "symmetric"), method("sarqc-gs"))
    assert path.alphas == (None,)
    assert path.intervals.interval(0) == Interval(0.0, math.inf)


def test_only_a_scale_search_has_a_path() -> None:
    with pytest.raises(Refused, match="candidates"):
        search_path(W, STATISTICS, Grid(3, 32, "symmetric"), method("gptq"))


def test_sweep_intervals_are_those_of_its_points() -> None:
    sweep = sweep_layer(
        W, STATISTICS, Grid(3, 32, "asymmetric"), method("sarqc-gbs"), lams=(0.0, 0.1, 1.0, 10.0), gammas=(0.1, 0.5)
    )
    ours = sweep_intervals(sweep)
    assert ours.lowest.shape == ours.supported.shape == (2, 4)
    points = list(zip(sweep.drift.flatten().tolist(), sweep.recon_loss.flatten().tolist(), strict=True))
    for position in range(8):
        expected, interval = exact_interval(points, position), ours.interval(position // 4, position % 4)
        assert interval.is_empty == (expected is None)
        if expected is not None:
            assert (interval.lowest, interval.highest) == (rounded(expected[0]), rounded(expected[1]))
    assert bool(ours.supported.any())


def test_a_sweep_of_the_search_repeats_its_candidates() -> None:
    """Neighbouring λ that take the same candidate are equal points, with equal intervals."""
    sweep = sweep_layer(W, STATISTICS, Grid(3, 32, "symmetric"), method("rqc-gs"), lams=(0.0, 1e-6, 1e6, 1e7))
    ours = sweep_intervals(sweep)
    assert ours.interval(0, 0) == ours.interval(0, 1)
    assert ours.interval(0, 2) == ours.interval(0, 3)
    assert ours.interval(0, 2).highest == math.inf
    assert bool(ours.supported.all())
