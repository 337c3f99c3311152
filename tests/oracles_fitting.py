"""Slow twins of what fits the grid to a layer: searched ranges, columns by falling inputs, coordinate descent, scales.

Written from the definitions: every candidate is tried, every level of every weight, and the column solver is a least
squares problem for each column. numpy and float64; shapes as in ``oracles``.
"""

import math

import numpy as np
import numpy.typing as npt

from tests.oracles import (
    Array,
    Integers,
    Rounded,
    algorithm_1_candidates,
    code_of,
    code_range,
    drift_saliency,
    gram_by_token,
    group_parameters,
    level_of,
    without_dead_channels,
)


def searched_parameters(values: Array, importance: Array, bits: int, kind: str) -> tuple[float, float, float]:
    """Scale, zero point and margin of one group: the best of 25 shrunk ranges, the widest of equals.

    The margin is the smallest distance to a tie: of a code or of a zero point, or between the best two ranges as a part
    of the best's error.
    """
    tried = []
    for step in range(25):
        shrunk = (1.0 - 0.025 * step) * values
        # The zero point needs 0 in the range, not the weight itself: shrinking all values shrinks both ends.
        scale, zero, margin = group_parameters(shrunk, bits, kind)
        error = 0.0
        for value, weight in zip(values, importance, strict=True):
            code, code_margin = code_of(float(value), scale, zero, bits, kind)
            error += float(weight) * (level_of(code, scale, zero, kind) - float(value)) ** 2
            margin = min(margin, code_margin)
        tried.append((error, step, scale, zero, margin))
    best = min(tried)
    other = min(error for error, _, scale, *_ in tried if scale != best[2])
    gap = (other - best[0]) / best[0] if best[0] > 0 else math.inf
    return best[2], best[3], min(best[4], gap)


def jointly_searched_parameters(
    values: Array, importance: Array, bits: int, kind: str
) -> tuple[float, float, float, float]:
    """Scale, zero point, margin and error of one group with two ends that shrink by themselves.

    25 equal shares, 42 unequal pairs of tenths, the neighbours of the best so far at 0.05, and those at 0.025. The
    margin is as in ``searched_parameters``, with the gap to the second of all tries at each choice.
    """
    low, high = float(values.min()), float(values.max())
    if kind == "asymmetric":
        low, high = min(low, 0.0), max(high, 0.0)
    tried: list[tuple[float, float, float, float, float]] = []  # error, shares, scale, zero
    margin = math.inf

    def error_of(left: float, right: float) -> None:
        nonlocal margin
        # Ends that have passed each other leave no range: on the affine grid, of weights of one sign.
        ends = [left * low, max(left * low, right * high)]
        scale, zero, own = group_parameters(np.array(ends), bits, kind)
        total = 0.0
        for value, weight in zip(values, importance, strict=True):
            code, code_margin = code_of(float(value), scale, zero, bits, kind)
            total += float(weight) * (level_of(code, scale, zero, kind) - float(value)) ** 2
            own = min(own, code_margin)
        margin = min(margin, own)
        tried.append((total, left, right, scale, zero))

    def best() -> tuple[float, float, float, float, float]:
        nonlocal margin
        least = min(tried, key=lambda one: one[0])  # the first of equals
        others = [one[0] for one in tried if one[3:] != least[3:]]
        margin = min(margin, (min(others) - least[0]) / least[0] if others and least[0] > 0 else math.inf)
        return least

    for thousandths in range(1000, 399, -25):
        error_of(thousandths / 1000, thousandths / 1000)
    for tenths in range(10, 3, -1):
        for other in range(10, 3, -1):
            if tenths != other:
                error_of(tenths / 10, other / 10)
    for thousandths in (50, 25):
        _, left, right, *_ = best()
        for down in (-thousandths, 0, thousandths):
            for up in (-thousandths, 0, thousandths):
                if (down, up) != (0, 0):
                    moved = (round(1000 * left) + down, round(1000 * right) + up)
                    error_of(*(min(max(share, 300), 1000) / 1000 for share in moved))
    error, _, _, scale, zero = best()
    return scale, zero, margin, error


def turns(g: Array, order: str) -> list[int]:
    """The columns in the order of their turns."""
    natural = list(range(len(g)))
    return natural if order == "natural" else sorted(natural, key=lambda j: -float(g[j, j]))


def columns_by_least_squares(
    weight: Array, g: Array, bits: int, group_size: int, kind: str, *, order: str, source: str
) -> Rounded:
    """Columns in turn, the others moved to the least squares answer to the errors made so far; no factor anywhere.

    In natural order a group's range comes from these moved weights when its first column is reached, in any other from
    the weights as they were. A channel whose diagonal of G is 0 gets 1 in the least squares problem alone.
    """
    rows, columns = weight.shape
    groups = columns // group_size
    out = Rounded(
        codes=np.zeros((rows, columns), dtype=np.int64),
        scales=np.zeros((rows, groups)),
        zero_points=np.zeros((rows, groups)),
        dequantized=np.zeros((rows, columns)),
        margin=np.full(rows, math.inf),
    )
    importance, regular = np.diag(g), without_dead_channels(g)

    def open_group(group: int, values: Array) -> None:
        part = slice(group * group_size, (group + 1) * group_size)
        for row in range(rows):
            if source == "search":
                found = searched_parameters(values[row, part], importance[part], bits, kind)
            else:
                found = group_parameters(values[row, part], bits, kind)
            out.scales[row, group], out.zero_points[row, group] = found[:2]
            out.margin[row] = min(out.margin[row], found[2])

    if order != "natural":
        for group in range(groups):
            open_group(group, weight)
    left, done = turns(g, order), []
    while left:
        working = weight.astype(np.float64).copy()
        if done:
            errors = out.dequantized[:, done] - weight[:, done]
            working[:, left] -= np.linalg.solve(regular[np.ix_(left, left)], (errors @ g[np.ix_(done, left)]).T).T
        column = left.pop(0)
        group = column // group_size
        if order == "natural" and column % group_size == 0:
            open_group(group, working)
        for row in range(rows):
            scale, zero = float(out.scales[row, group]), float(out.zero_points[row, group])
            code, margin = code_of(float(working[row, column]), scale, zero, bits, kind)
            out.codes[row, column], out.dequantized[row, column] = code, level_of(code, scale, zero, kind)
            out.margin[row] = min(out.margin[row], margin)
        done.append(column)
    return out


def least_squares_scales(
    target: Array, g: Array, codes: Integers, scales: Array, zero_points: Array, kind: str
) -> tuple[Array, Array]:
    """Scales, and on the affine grid biases, that are best for the codes: each row's own least squares problem.

    With g = L Lᵀ the loss of a row is ‖L'(target - θ B)‖², and ``lstsq`` gets L' Bᵀ written out. A group without any
    weight in the loss, or whose unknowns can't be told apart, keeps its numbers; so does a row that gains nothing.
    """
    rows, columns = target.shape
    groups = scales.shape[1]
    size = columns // groups
    values, vectors = np.linalg.eigh(g)
    root = np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T  # rootᵀ root = g
    scales, zero_points = scales.copy(), zero_points.copy()
    for row in range(rows):
        design, fixed = [], target[row].copy()
        free: list[tuple[str, int]] = []
        for group in range(groups):
            part = slice(group * size, (group + 1) * size)
            ramp, flat = np.zeros(columns), np.zeros(columns)
            ramp[part] = codes[row, part] - (0 if kind == "affine" else zero_points[row, group])
            flat[part] = 1.0
            own = [ramp, flat] if kind == "affine" else [ramp]
            weighted = root @ np.stack(own, axis=1)
            if np.linalg.matrix_rank(weighted, tol=1e-9 * math.sqrt(float(np.trace(g)))) < len(own):
                fixed -= scales[row, group] * ramp + (zero_points[row, group] * flat if kind == "affine" else 0.0)
                continue
            free += [("scale", group), ("bias", group)][: len(own)]
            design += own
        if not design:
            continue
        answer = np.linalg.lstsq(root @ np.stack(design, axis=1), root @ fixed, rcond=None)[0]
        for (what, group), value in zip(free, answer, strict=True):
            (scales if what == "scale" else zero_points)[row, group] = value
    return scales, zero_points


def row_losses(target: Array, g: Array, codes: Integers, scales: Array, zero_points: Array, kind: str) -> Array:
    """Each row's (ŵ - target) g (ŵ - target)ᵀ, level by level."""
    size = target.shape[1] // scales.shape[1]
    losses = []
    for row in range(len(target)):
        levels = [
            level_of(int(code), float(scales[row, j // size]), float(zero_points[row, j // size]), kind)
            for j, code in enumerate(codes[row])
        ]
        delta = np.array(levels) - target[row]
        losses.append(float(delta @ g @ delta))
    return np.array(losses)


def coordinate_descent(
    target: Array,
    g: Array,
    codes: Integers,
    scales: Array,
    zero_points: npt.NDArray[np.generic],
    bits: int,
    kind: str,
    *,
    passes: int,
    order: str = "natural",
) -> tuple[Integers, Array]:
    """Codes after some passes, and each row's margin: every level of every weight is tried, the row's loss in full.

    The margin is the smallest gap between the best two levels of a weight, as a part of the row's loss. A channel
    without any weight in the loss keeps its codes.
    """
    codes, (rows, columns) = codes.copy(), target.shape
    size = columns // scales.shape[1]
    lowest, highest = code_range(bits, kind)
    margin = np.full(rows, math.inf)
    for _ in range(passes):
        for column in (column for column in turns(g, order) if g[column, column] != 0):
            group = column // size
            for row in range(rows):
                levels = np.array(
                    [
                        level_of(codes[row, j], scales[row, j // size], zero_points[row, j // size], kind)
                        for j in range(columns)
                    ]
                )
                losses = []
                for code in range(lowest, highest + 1):
                    levels[column] = level_of(code, scales[row, group], zero_points[row, group], kind)
                    delta = levels - target[row]
                    losses.append((float(delta @ g @ delta), code))
                (best, code), (second, _) = sorted(losses)[:2]
                codes[row, column] = code
                margin[row] = min(margin[row], (second - best) / best if best > 0 else math.inf)
    return codes, margin


def objective_of_search(name: str, w: Array, x: Array, bits: int, group_size: int, kind: str) -> Array:
    """The Gram (I, I) of what AWQ, or SARQC-GS at λ = 0.3, minimises: with the penalty as both terms are normalised."""
    gram = gram_by_token(x)
    if name == "awq":
        return gram
    tried = algorithm_1_candidates(w, x, bits, group_size, kind, salient=True, include_identity=True)
    recons, sars = [one.recon for one in tried], [one.sar for one in tried]
    weight = 0.3 * (max(recons) - min(recons)) / (max(sars) - min(sars))
    return gram + weight * np.diag(drift_saliency(np.abs(x).mean(axis=0), w) ** 2)
