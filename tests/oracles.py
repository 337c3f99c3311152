"""Slow twins of the quantization mathematics: float64, loops, explicit inverses, nothing shared with ``sarqc``.

Every function takes and returns numpy arrays. Inputs are (n_tokens, in_features), weights (out_features, in_features).
Where a value lies exactly between two codes, either code is right and the choice changes what comes after it in the
same row; so every rounding also returns its ``margin``, the distance to the nearest such tie, and tests compare the
rows whose margin is not at the level of floating-point noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Store = Callable[[float], float]  # the value that a scale keeps in the dtype it will be stored in

ALPHAS = tuple(k / 20 for k in range(21))
FLOOR = 1e-8  # of the mean over channels: the floor of abs_mean and of mean|W|


# The integer grid, element by element


def code_range(bits: int, kind: str) -> tuple[int, int]:
    """The lowest and the highest code of a grid."""
    if kind in ("asymmetric", "affine"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def tie_margin(ratio: float) -> float:
    """How far ``ratio`` is from a number that ends in one half."""
    return abs(ratio - math.floor(ratio) - 0.5)


def group_parameters(values: Array, bits: int, kind: str, store: Store = float) -> tuple[float, float, float]:
    """Scale, zero point and tie margin of one group: absmax/(2^(b-1)-1), absmax/((2^b-1)/2) or (max-min)/(2^b-1).

    The affine grid's zero point is its bias, as everywhere here.
    """
    listed = [float(value) for value in values]
    largest = max(abs(value) for value in listed)
    if largest == 0.0:
        return 1.0, 0, math.inf
    if kind == "symmetric":
        return store(largest / (2 ** (bits - 1) - 1)), 0, math.inf
    if kind == "full_range":
        return store(largest / ((2**bits - 1) / 2)), 0, math.inf
    if kind == "affine":
        step = (max(listed) - min(listed)) / (2**bits - 1)
        return (1.0 if step == 0.0 else store(step)), store(min(listed)), math.inf
    assert kind == "asymmetric"
    lowest, highest = min(0.0, *listed), max(0.0, *listed)
    scale = store((highest - lowest) / (2**bits - 1))
    ratio = -lowest / scale
    zero = min(max(round(ratio), 0), 2**bits - 1)
    return scale, zero, tie_margin(ratio)


def level_of(code: int, scale: float, zero: float, kind: str) -> float:
    """The weight that a code stands for."""
    return scale * code + zero if kind == "affine" else (code - zero) * scale


def code_of(value: float, scale: float, zero: float, bits: int, kind: str) -> tuple[int, float]:
    """The code of one weight and its tie margin (infinite where both neighbours are clipped to one code)."""
    lowest, highest = code_range(bits, kind)
    ratio, moved = (float(value) / scale, int(zero)) if kind != "affine" else ((float(value) - zero) / scale, 0)
    below = min(max(math.floor(ratio) + moved, lowest), highest)
    above = min(max(math.floor(ratio) + 1 + moved, lowest), highest)
    code = min(max(round(ratio) + moved, lowest), highest)
    return code, math.inf if below == above else tie_margin(ratio)


@dataclass
class Rounded:
    """Codes (O, I), scales and zero points (O, G), the weights they stand for, and each row's tie margin (O,).

    On the affine grid the zero points are its biases.
    """

    codes: Integers
    scales: Array
    zero_points: Array
    dequantized: Array
    margin: Array


def _empty(weight: Array, group_size: int) -> Rounded:
    rows, columns = weight.shape
    groups = columns // group_size
    return Rounded(
        codes=np.zeros((rows, columns), dtype=np.int64),
        scales=np.zeros((rows, groups)),
        zero_points=np.zeros((rows, groups)),
        dequantized=np.zeros((rows, columns)),
        margin=np.full(rows, math.inf),
    )


def _open_group(out: Rounded, row: int, group: int, values: Array, bits: int, kind: str, store: Store) -> None:
    out.scales[row, group], out.zero_points[row, group], margin = group_parameters(values, bits, kind, store)
    out.margin[row] = min(out.margin[row], margin)


def _commit(out: Rounded, row: int, column: int, group: int, value: float, bits: int, kind: str) -> None:
    scale, zero = float(out.scales[row, group]), float(out.zero_points[row, group])
    code, margin = code_of(value, scale, zero, bits, kind)
    out.codes[row, column] = code
    out.dequantized[row, column] = level_of(code, scale, zero, kind)
    out.margin[row] = min(out.margin[row], margin)


def round_to_nearest(weight: Array, bits: int, group_size: int | None, kind: str, *, store: Store = float) -> Rounded:
    """Every weight to the nearest level of its own group's grid."""
    rows, columns = weight.shape
    size = group_size or columns
    out = _empty(weight, size)
    for row in range(rows):
        for column in range(columns):
            group = column // size
            if column % size == 0:
                _open_group(out, row, group, weight[row, column : column + size], bits, kind, store)
            _commit(out, row, column, group, float(weight[row, column]), bits, kind)
    return out


# Statistics and losses, from the inputs themselves


def gram_by_token(x: Array) -> Array:
    """Σ over tokens of x xᵀ, one token at a time."""
    gram = np.zeros((x.shape[1], x.shape[1]))
    for token in x:
        gram += np.outer(token, token)
    return gram


def recon_from_inputs(delta: Array, x: Array) -> float:
    """‖ΔW X‖²_F: the layer's output error on these tokens, without any Gram."""
    total = 0.0
    for token in x:
        error = delta @ token
        total += float(error @ error)
    return total


def sar_by_channel(delta: Array, s: Array | None) -> float:
    """‖ΔW diag(S)‖²_F = Σ_j S_j² ‖ΔW_·j‖²; S = 1 where None."""
    return sum(
        (1.0 if s is None else float(s[j])) ** 2 * float(delta[:, j] @ delta[:, j]) for j in range(delta.shape[1])
    )


def quadratic_form(delta: Array, g: Array) -> float:
    """tr(ΔW G ΔWᵀ), written as Σ_o Σ_i Σ_j ΔW_oi G_ij ΔW_oj."""
    total = 0.0
    for row in delta:
        for i in range(len(row)):
            for j in range(len(row)):
                total += float(row[i] * g[i, j] * row[j])
    return total


# Saliency and the regularised Gram


def floored(values: Array) -> Array:
    """Values not below 1e-8 of their own mean."""
    least = FLOOR * float(np.mean(values))
    return np.array([max(float(value), least) for value in values])


def mean_abs_columns(weight: Array) -> Array:
    """mean|W_·j| for every input channel j."""
    return np.array([float(np.mean(np.abs(weight[:, j]))) for j in range(weight.shape[1])])


def saliency(abs_mean: Array, weight: Array, gamma: float) -> Array:
    """s_j(γ) = abs_mean_j^γ / mean|W_·j|^(1-γ), both floored."""
    a, w = floored(abs_mean), floored(mean_abs_columns(weight))
    return np.array([a[j] ** gamma / w[j] ** (1.0 - gamma) for j in range(len(a))])


def drift_saliency(abs_mean: Array, weight: Array) -> Array:
    """The S of SARQC-GS: abs_mean_j / mean|W_·j|, both floored."""
    a, w = floored(abs_mean), floored(mean_abs_columns(weight))
    return np.array([a[j] / w[j] for j in range(len(a))])


def mean_diagonal(gram: Array) -> float:
    """h̄ = mean of the Gram's diagonal."""
    return sum(float(gram[j, j]) for j in range(len(gram))) / len(gram)


def regularised_gram(gram: Array, s: Array | None, lam: float) -> Array:
    """G = gram + λ h̄ diag(s²/mean(s²)), s = 1 where None; one diagonal entry at a time."""
    size = len(gram)
    squares = [1.0] * size if s is None else [float(value) ** 2 for value in s]
    mean_square = sum(squares) / size
    g = gram.copy()
    for j in range(size):
        g[j, j] += lam * mean_diagonal(gram) * squares[j] / mean_square
    return g


def column_solver_s(gram: Array, s: Array | None) -> Array:
    """The S for which recon + λ sar is tr(ΔW G ΔWᵀ): √h̄ s/√mean(s²)."""
    s = np.ones(len(gram)) if s is None else s
    return math.sqrt(mean_diagonal(gram)) * s / math.sqrt(float(np.mean(s**2)))


# Algorithm 2: column by column


def algorithm_2(
    weight: Array,
    g: Array,
    bits: int,
    group_size: int | None,
    kind: str,
    *,
    static_groups: bool = False,
    store: Store = float,
) -> Rounded:
    """SARQC-GBS as printed, with M = chol(G⁻¹)ᵀ from an explicit inverse, one column at a time.

    At the first column of a group its scale is read from the current working copy U of that group (from the original
    weights with ``static_groups``). A channel whose diagonal of G is 0 gets 1 there: nothing else depends on it.
    """
    rows, columns = weight.shape
    size = group_size or columns
    g = g.copy()
    for j in range(columns):
        if g[j, j] == 0.0:
            g[j, j] = 1.0
    m = np.linalg.cholesky(np.linalg.inv(g)).T  # upper: G⁻¹ = Mᵀ M
    u = weight.astype(np.float64).copy()
    out = _empty(weight, size)
    for j in range(columns):
        group = j // size
        for row in range(rows):
            if j % size == 0:
                source = weight if static_groups else u
                _open_group(out, row, group, source[row, j : j + size], bits, kind, store)
            _commit(out, row, j, group, float(u[row, j]), bits, kind)
        e = (u[:, j] - out.dequantized[:, j]) / m[j, j]
        u[:, j:] -= np.outer(e, m[j, j:])
    return out


def without_dead_channels(g: Array) -> Array:
    """G with 1 where its diagonal is 0."""
    return g + np.diag([1.0 if g[j, j] == 0.0 else 0.0 for j in range(len(g))])


def gptaq(
    weight: Array,
    g: Array,
    cross: Array,
    alpha: float,
    bits: int,
    group_size: int | None,
    kind: str,
    *,
    static_groups: bool = False,
    store: Store = float,
) -> Rounded:
    """GPTAQ as published but for one thing: w_j is column j's value before rounding everywhere, so blocks don't matter.

    H⁻¹ = Uᵀ U from an explicit inverse, P = α triu(cross Uᵀ, 1) U; after column j every later one loses the error's
    share and gains w_j P_j. Scales as in ``algorithm_2``.
    """
    rows, columns = weight.shape
    size = group_size or columns
    upper = np.linalg.cholesky(np.linalg.inv(without_dead_channels(g))).T
    p = alpha * np.triu(cross @ upper.T, 1) @ upper
    working = weight.astype(np.float64).copy()
    out = _empty(weight, size)
    for j in range(columns):
        for row in range(rows):
            if j % size == 0:
                source = weight if static_groups else working
                _open_group(out, row, j // size, source[row, j : j + size], bits, kind, store)
            _commit(out, row, j, j // size, float(working[row, j]), bits, kind)
        value = working[:, j].copy()
        error = (value - out.dequantized[:, j]) / upper[j, j]
        for k in range(j + 1, columns):
            working[:, k] += value * p[j, k] - error * upper[j, k]
    return out


def first_order(
    weight: Array,
    g: Array,
    beta: float,
    bits: int,
    group_size: int | None,
    kind: str,
    *,
    cross: Array | None = None,
    alpha: float = 0.0,
    static_groups: bool = False,
) -> Rounded:
    """FOEM's loop as engines run it, with an explicit inverse and without its skipped pull at the first column of a
    block: when its turn comes a column is pulled back by β, and the error that the later ones get is less β times what
    the column is still away from its original weight. With ``cross`` GPTAQ's P is added as in ``gptaq``.
    """
    rows, columns = weight.shape
    size = group_size or columns
    upper = np.linalg.cholesky(np.linalg.inv(without_dead_channels(g))).T
    p = np.zeros_like(g) if cross is None else alpha * np.triu(cross @ upper.T, 1) @ upper
    working = weight.astype(np.float64).copy()
    out = _empty(weight, size)
    for j in range(columns):
        pulled = working - beta * (working - weight)
        for row in range(rows):
            if j % size == 0:
                source = weight if static_groups else pulled
                _open_group(out, row, j // size, source[row, j : j + size], bits, kind, float)
            _commit(out, row, j, j // size, float(pulled[row, j]), bits, kind)
        value = pulled[:, j].copy()
        error = (value - out.dequantized[:, j] - beta * (value - weight[:, j])) / upper[j, j]
        for k in range(j + 1, columns):
            working[:, k] += value * p[j, k] - error * upper[j, k]
    return out


def cross_by_token(x_float: Array, x: Array) -> Array:
    """Σ over tokens of (x_float - x) xᵀ, one token at a time."""
    cross = np.zeros((x.shape[1], x.shape[1]))
    for wanted, token in zip(x_float, x, strict=True):
        cross += np.outer(wanted - token, token)
    return cross


def shifted_target(weight: Array, g: Array, cross: Array, strength: float = 1.0) -> Array:
    """W* = W + strength · W cross G⁻¹, by an explicit inverse."""
    return weight + strength * weight @ cross @ np.linalg.inv(without_dead_channels(g))


def asymmetric_loss(dequantized: Array, x: Array, weight: Array, x_float: Array) -> float:
    """‖Ŵ X - W X_float‖²: what the layer says on its own inputs against what the float layer said on the float ones."""
    total = 0.0
    for token, wanted in zip(x, x_float, strict=True):
        error = dequantized @ token - weight @ wanted
        total += float(error @ error)
    return total


def columns_by_least_squares(weight: Array, g: Array, bits: int, group_size: int | None, kind: str) -> Rounded:
    """The same solver from its meaning, for positive definite G: no Cholesky factor anywhere.

    Before column j is rounded, the columns not yet rounded take the continuous values that minimise tr(ΔW G ΔWᵀ)
    given the errors already made: ΔW_rest = -ΔW_done G_(done,rest) G_(rest,rest)⁻¹.
    """
    rows, columns = weight.shape
    size = group_size or columns
    out = _empty(weight, size)
    for j in range(columns):
        done = out.dequantized[:, :j] - weight[:, :j]
        working = weight[:, j:] - np.linalg.solve(g[j:, j:], (done @ g[:j, j:]).T).T
        for row in range(rows):
            if j % size == 0:
                _open_group(out, row, j // size, working[row, :size], bits, kind, store=float)
            _commit(out, row, j, j // size, float(working[row, 0]), bits, kind)
    return out


# Algorithm 1: one scale per channel, searched


@dataclass
class Candidate:
    """One point of the α grid; ``alpha`` is None for the identity candidate s̃ = 1."""

    alpha: float | None
    channel_scale: Array
    rounded: Rounded  # of W s̃
    dequantized: Array  # Q(W s̃)/s̃
    recon: float
    sar: float


def search_scale(abs_mean: Array, weight: Array, alpha: float) -> Array:
    """s̃_j(α) = abs_mean_j^α / mean|W_·j|^(1-α), divided by the geometric mean of its extrema."""
    s = saliency(abs_mean, weight, alpha)
    return s / math.sqrt(max(s.tolist()) * min(s.tolist()))


def algorithm_1_candidates(
    weight: Array,
    x: Array,
    bits: int,
    group_size: int | None,
    kind: str,
    *,
    salient: bool,
    include_identity: bool,
) -> list[Candidate]:
    """The first loop of SARQC-GS: every α's Ŵ with its two losses, and s̃ = 1 as one more at the end if asked for."""
    abs_mean = np.array([float(np.mean(np.abs(x[:, j]))) for j in range(x.shape[1])])
    s = drift_saliency(abs_mean, weight) if salient else None
    scales: list[tuple[float | None, Array]] = [(alpha, search_scale(abs_mean, weight, alpha)) for alpha in ALPHAS]
    if include_identity:
        scales.append((None, np.ones(weight.shape[1])))
    candidates = []
    for alpha, scale in scales:
        rounded = round_to_nearest(weight * scale, bits, group_size, kind)
        dequantized = rounded.dequantized / scale
        recon = recon_from_inputs(weight - dequantized, x)
        sar = sar_by_channel(dequantized - weight, s)
        candidates.append(Candidate(alpha, scale, rounded, dequantized, recon, sar))
    return candidates


@dataclass
class GroupCandidate:
    """One s̃ for linears that read the same tensor, losses summed over them; dicts are by linear."""

    alpha: float | None
    channel_scale: Array
    rounded: dict[str, Rounded]  # of W s̃ / t
    dequantized: dict[str, Array]  # Q(W s̃ / t) t / s̃
    recon: float
    sar: float


def foldable_candidates(
    weights: dict[str, Array],
    x: Array,
    bits: int,
    group_size: int | None,
    kind: str,
    *,
    salient: bool,
    ties: list[int],
    row_scales: dict[str, Array],
) -> list[GroupCandidate]:
    """Every α's shared s̃ and s̃ = 1 last: mean|W| row by row over all linears, ties by k-th roots of products."""
    channels = x.shape[1]
    abs_mean = floored(np.array([float(np.mean(np.abs(x[:, j]))) for j in range(channels)]))
    all_rows = [row for weight in weights.values() for row in weight]
    means = floored(np.array([sum(abs(float(row[j])) for row in all_rows) / len(all_rows) for j in range(channels)]))
    scales: list[tuple[float | None, Array]] = []
    for alpha in ALPHAS:
        raw = [abs_mean[j] ** alpha / means[j] ** (1.0 - alpha) for j in range(channels)]
        tied = []
        for j in range(channels):
            members = [raw[k] for k in range(channels) if ties[k] == ties[j]]
            tied.append(math.prod(members) ** (1.0 / len(members)))
        scales.append((alpha, np.array(tied) / math.sqrt(max(tied) * min(tied))))
    scales.append((None, np.ones(channels)))
    candidates = []
    for alpha, scale in scales:
        found = GroupCandidate(alpha, scale, {}, {}, 0.0, 0.0)
        for name, weight in weights.items():
            rows = row_scales.get(name, np.ones(len(weight)))
            moved = np.array([[weight[o, j] * scale[j] / rows[o] for j in range(channels)] for o in range(len(rows))])
            rounded = round_to_nearest(moved, bits, group_size, kind)
            back = rounded.dequantized * rows[:, None] / scale
            found.rounded[name], found.dequantized[name] = rounded, back
            found.recon += recon_from_inputs(back - weight, x)
            own = np.array([abs_mean[j] / value for j, value in enumerate(floored(mean_abs_columns(weight)))])
            found.sar += sar_by_channel(back - weight, own if salient else None)
        candidates.append(found)
    return candidates


def normalised(values: list[float]) -> list[float]:
    """(v - min)/(max - min), with 0/0 := 0."""
    low, high = min(values), max(values)
    return [0.0 if high == low else (value - low) / (high - low) for value in values]


AnyCandidate = TypeVar("AnyCandidate", Candidate, GroupCandidate)


def algorithm_1_choice(candidates: list[AnyCandidate], lam: float) -> tuple[AnyCandidate, float]:
    """The second loop of SARQC-GS: the first strict minimum of recon~ + λ sar~, and its lead over the runner-up."""
    recon = normalised([candidate.recon for candidate in candidates])
    sar = normalised([candidate.sar for candidate in candidates])
    best, best_value = candidates[0], math.inf
    values = []
    for position, candidate in enumerate(candidates):
        value = recon[position] + lam * sar[position]
        values.append(value)
        if value < best_value:
            best, best_value = candidate, value
    values.remove(best_value)
    return best, min(values) - best_value


# Material to work on


def correlated_inputs(seed: int, tokens: int, channels: int) -> Array:
    """Inputs (tokens, channels) whose channels are correlated, of unequal size, and not centred."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(channels, channels)) / math.sqrt(channels) + 1.2 * np.eye(channels)
    size = np.exp(0.7 * rng.normal(size=channels))
    return (rng.normal(size=(tokens, channels)) @ mixing + 0.2 * rng.normal(size=channels)) * size


def uneven_weight(seed: int, rows: int, columns: int) -> Array:
    """Weights (rows, columns) with columns of unequal size and a slight lean to the positive side."""
    rng = np.random.default_rng(seed)
    return 0.05 * (rng.normal(size=(rows, columns)) + 0.3) * np.exp(0.5 * rng.normal(size=columns))


def assert_same_codes(codes: npt.NDArray[np.integer], oracle: Rounded, *, share: float = 1.0) -> None:
    """Codes equal the oracle's in every row free of ties, and at least ``share`` of the rows are free of ties."""
    rows = oracle.margin > 1e-7
    assert rows.mean() >= share, f"only {rows.mean():.2f} of the rows are free of rounding ties"
    wrong = np.argwhere((codes != oracle.codes) & rows[:, None])
    assert len(wrong) == 0, f"{len(wrong)} codes differ, first at (row, column) {tuple(wrong[0])}"
