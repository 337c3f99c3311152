"""Errors of layers on unseen text at every λ and γ, from the statistics of one draw: as many as there is time for.

Without a budget all linears are solved at all points, block by block. With one a part of each block's linears comes
first, at the method's own γ, while the float model passes the text; then the same linears at the other γ, then the
others, in blocks that are spread over the model. So whenever it stops, the results are of the whole depth.

Axes: L layers, G values of γ, M values of λ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sarqc.calibration.block import BlockStatistics
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.budget import Budget
from sarqc.engine.keys import tuning_key
from sarqc.engine.trials import Draw, errors_of_layers, grids_as_values, load_or_make_each
from sarqc.models.families import LayerInfo
from sarqc.quantization.methods import Method

LARGEST = 1000.0  # λ to which a range is widened
# Above the smallest mean of ln errors. In the shipped studies the λ with the best perplexity is at most 0.04 above it.
DULL = 0.1
FEWEST = 3  # λ that are left
MATTERS = 0.01  # by so much smaller must the errors at another γ be to leave the method's own
FIRST_SHARE = 1 / 3  # of a budget, for the first part of the layers
SHARE = 1 / 5  # after which no more are begun
SAMPLED = 7  # one of so many linears of a block comes first: one of a dense block

_SUFFIX = ".screened"


@dataclass
class Screening:
    """The errors so far. ``errors`` (L, G, M): relative errors on unseen text, NaN where not known."""

    draw: Draw
    base: Method
    lams: tuple[float, ...]
    gammas: tuple[float | None, ...]
    errors: np.ndarray
    budget: Budget = field(init=False)  # of ``run``
    _begun: float = field(init=False)  # seconds that were spent before

    @classmethod
    def of(cls, draw: Draw, base: Method, lams: tuple[float, ...], gammas: tuple[float | None, ...]) -> Screening:
        """Return one without any errors yet."""
        return cls(draw, base, lams, gammas, np.full((len(draw.ground.layers), len(gammas), len(lams)), np.nan))

    @property
    def layers(self) -> int:
        return len(self.errors)

    def known(self, gamma: int) -> np.ndarray:
        """Return logarithms (layers, M) at a γ, of the layers that are known there at every λ."""
        rows = self.errors[:, gamma]
        logarithms: np.ndarray = np.log(np.maximum(rows[np.isfinite(rows).all(axis=1)], np.finfo(float).tiny))
        return logarithms

    def compared(self) -> list[int]:
        """Return positions of the γ that have errors."""
        return [gamma for gamma in range(len(self.gammas)) if len(self.known(gamma))]

    def of_gammas(self) -> list[float]:
        """Return the mean logarithm at the best λ of each γ that was compared, over the layers that all have."""
        rows = self.errors[:, self.compared()]
        rows = np.log(np.maximum(rows[np.isfinite(rows).all(axis=(1, 2))], np.finfo(float).tiny))
        return [float(mean) for mean in rows.mean(axis=0).min(axis=1)] if len(rows) else []

    def gamma(self) -> int:
        """Return the position of the best γ: the method's own unless another one is better by more than ``MATTERS``."""
        own, compared, errors = self.gammas.index(self.base.gamma), self.compared(), self.of_gammas()
        if own not in compared or not errors:
            return own
        best = int(np.argmin(errors))
        return compared[best] if errors[best] < errors[compared.index(own)] - MATTERS else own

    def run(self, budget: Budget) -> Iterator[None]:
        """Yield after each part. Raises ``TimeUp`` where the whole budget is spent."""
        self.budget, self._begun = budget, budget.spent()
        every = range(len(self.gammas))
        if budget.seconds is None or budget.is_shared:
            yield from self._solve_in_order(1, every)
        else:
            yield from self._solve_in_order(SAMPLED, [self.gammas.index(self.base.gamma)])
            yield from self._solve_from_stored(SAMPLED, every)
            yield from self._solve_from_stored(1, [self.gamma()])
            yield from self._solve_from_stored(1, every)
        while self._has_time() and (further := _further_lams(self.lams, self.known(self.gamma()))):
            yield from self._solve_further(further)

    def _has_time(self, share: float = SHARE) -> bool:
        self.budget.check()
        if self.budget.seconds is None or self.budget.is_shared:
            return True
        return self.budget.spent() - self._begun < share * (self.budget.seconds - self._begun)

    def _solve_in_order(self, part: int, gammas: Sequence[int]) -> Iterator[None]:
        """Solve in the order of the model, in which statistics are collected. ``part``: one of so many linears."""
        by_block = layers_by_block(self.draw.ground.layers)
        positions = {index: self._choose_positions(layers, part) for index, layers in by_block.items()}
        missing = [index for index in positions if not self._read(positions[index], gammas)]
        if not missing:
            yield
            return
        for block in self.draw.blocks():
            index = next(iter(block.layers.values())).block
            if index in missing:
                self._solve(block, positions[index], gammas)
            yield
            if not self._has_time(FIRST_SHARE):
                return

    def _solve_from_stored(self, part: int, gammas: Sequence[int]) -> Iterator[None]:
        """Solve from stored statistics, in blocks that are spread over the model, while there is time."""
        by_block = layers_by_block(self.draw.ground.layers)
        for index in _spread_order([*by_block]):
            positions = self._choose_positions(by_block[index], part)
            for gamma in gammas:
                if not self._has_time():
                    return
                missing = [at for at in positions if not np.isfinite(self.errors[at, gamma]).all()]
                if missing and not self._read(missing, [gamma]):
                    self._solve(self._block(index), missing, [gamma])
                    yield

    def _solve_further(self, further: Sequence[float]) -> Iterator[None]:
        """Solve further λ of all linears that are known; none of them where the time does not suffice."""
        before, finite = (self.lams, self.errors), np.isfinite(self.errors)
        self._widen(further)
        try:
            yield from self._fill_gaps(finite)
        finally:
            if np.isfinite(self.errors).sum() * len(before[0]) < finite.sum() * len(self.lams):
                self.lams, self.errors = before

    def _fill_gaps(self, finite: np.ndarray) -> Iterator[None]:
        for index, layers in layers_by_block(self.draw.ground.layers).items():
            positions = self._choose_positions(layers, 1)
            for gamma in range(len(self.gammas)):
                if not self._has_time():
                    return
                incomplete = [at for at in positions if finite[at, gamma].any()]
                if incomplete and not self._read(incomplete, [gamma]):
                    self._solve(self._block(index), incomplete, [gamma])
                    yield

    def _block(self, index: int) -> BlockStatistics:
        [block] = self.draw.blocks([index])
        return block

    def _choose_positions(self, layers: Sequence[LayerInfo], part: int) -> list[int]:
        """Return positions of a part of a block's linears, another one in each block."""
        chosen = layers[layers[0].block % min(part, len(layers)) :: part]
        return [self.draw.ground.layers.index(layer) for layer in chosen]

    def _missing(self, positions: Sequence[int], gammas: Sequence[int]) -> list[int]:
        """Return positions of the λ that some of these linears lack."""
        finite = np.isfinite(self.errors[np.ix_(positions, gammas)])
        return np.flatnonzero(~finite.all(axis=(0, 1))).tolist()

    def _keys(self, positions: Sequence[int], gammas: Sequence[int], lams: Sequence[int]) -> list[str]:
        layers = self.draw.ground.layers
        block, grids = layers[positions[0]].block, grids_as_values(self.draw.ground)
        names = [layers[at].name for at in positions]
        statistics = [self.draw.own_keys[block], self.draw.unseen_keys[block]]
        chosen = [self.gammas[gamma] for gamma in gammas]
        return [
            tuning_key(
                "screened",
                statistics,
                {name: grids[name] for name in names},
                self.base.points((self.lams[lam],), chosen),
            )
            for lam in lams
        ]

    def _note(self, positions: Sequence[int], gammas: Sequence[int], lam: int, payload: bytes) -> None:
        document = json.loads(payload)
        self.errors[np.ix_(positions, gammas, [lam])] = np.array(document["errors"], dtype=np.float64)[:, :, None]
        self.budget.count(document["seconds"])

    def _read(self, positions: Sequence[int], gammas: Sequence[int]) -> bool:
        """Read the stored errors of all λ; return True if none is missing."""
        if not positions:
            return True
        store, lams = self.draw.ground.bench.store, self._missing(positions, gammas)
        payloads = [store.read(key, _SUFFIX) for key in self._keys(positions, gammas, lams)]
        for lam, payload in zip(lams, payloads, strict=True):
            if payload is None:
                return False
            self._note(positions, gammas, lam, payload)
        return True

    def _solve(self, block: BlockStatistics, positions: Sequence[int], gammas: Sequence[int]) -> None:
        """Solve the λ that are not stored, as one of several workers a share of them."""
        ground, lams = self.draw.ground, self._missing(positions, gammas)
        names = [ground.layers[at].name for at in positions]
        some = {path: layer for path, layer in block.layers.items() if layer.name in names}
        part = BlockStatistics(some, {path: block.weights[path] for path in some}, block.own, block.unseen)

        def make(missing: list[int]) -> Iterator[bytes]:
            values = [self.lams[lams[number]] for number in missing]
            points = self.base.points(values, [self.gammas[gamma] for gamma in gammas])
            rows = dict[str, list[float | None]]()
            seconds = self.budget.timed(
                lambda: rows.update(errors_of_layers([part], ground.grids, points, ground.context()))
            )
            table = np.array([rows[name] for name in names], dtype=np.float64).reshape(len(names), len(gammas), -1)
            for number in range(len(missing)):
                errors = [[None if np.isnan(error) else error for error in row] for row in table[:, :, number].tolist()]
                yield json.dumps({"errors": errors, "seconds": seconds / len(missing)}).encode()

        keys = self._keys(positions, gammas, lams)
        for number, payload in load_or_make_each(ground.bench.store, keys, _SUFFIX, make):
            self._note(positions, gammas, lams[number], payload)

    def _widen(self, further: Sequence[float]) -> None:
        """Add further λ, of which nothing is known yet."""
        lams = (*self.lams, *further)
        order = np.argsort(lams)
        unknown = np.full((*self.errors.shape[:2], len(further)), np.nan)
        self.errors = np.concatenate([self.errors, unknown], axis=2)[:, :, order]
        self.lams = tuple(float(lams[at]) for at in order)


def in_question(errors: np.ndarray, layers: int) -> np.ndarray:
    """Return positions of the λ that the errors of layers leave. ``errors`` (L, M): ln relative errors of the known
    ones of ``layers`` layers.

    A λ is ruled out where its mean is more than ``DULL`` above the smallest one, beyond the possible effect of
    unknown layers; the best three are always left, because a λ that is compared with none says nothing.
    """
    above = errors - errors[:, [int(errors.mean(axis=0).argmin())]]
    count, mean = len(above), above.mean(axis=0)
    spread = above.std(axis=0, ddof=1) if count > 1 else np.full(mean.shape, np.inf)
    doubt = 2 * spread * np.sqrt((1 - count / layers) / count) if count < layers else np.zeros(mean.shape)
    left: np.ndarray = mean - doubt <= DULL
    left[np.argsort(mean, kind="stable")[:FEWEST]] = True
    return np.flatnonzero(left)


def _further_lams(lams: tuple[float, ...], errors: np.ndarray) -> tuple[float, ...]:
    """Return further λ where the best one is the last or the last but one of the range, at either end. ``errors`` (L,
    M).
    """
    if not len(errors):
        return ()
    best = int(errors.mean(axis=0).argmin())
    beyond: tuple[float, ...] = ()
    if best >= len(lams) - 2 and 0 < lams[-1] < LARGEST:
        beyond = (2 * lams[-1], 5 * lams[-1])
    if best <= 1 and lams[0] > 0:
        beyond = (0.0, lams[0] / 2, *beyond)
    return beyond


def _spread_order(blocks: Sequence[int]) -> list[int]:
    """Return the blocks in an order in which any first few of them are spread over all: by reversed bits."""
    digits = max(1, (len(blocks) - 1).bit_length())
    return sorted(blocks, key=lambda block: int(f"{blocks.index(block):0{digits}b}"[::-1], 2))
