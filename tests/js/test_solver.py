"""The browser's solver against the library's: a thousand seeded layers, answered by both, number by number."""

import json
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from sarqc import Grid, LayerStatistics, quantize_layer
from sarqc.quantization.methods import ColumnSolver
from tests.js.node import run_node

pytestmark = pytest.mark.thorough

LAYERS = 1000
LAMS = (0.0, 0.01, 0.1, 0.3, 1.0, 3.0)


def layer(seed: int) -> dict[str, Any]:
    """Return a layer of at most 6 × 16 with correlated inputs; every seventh has a channel that no token reaches."""
    rng = np.random.default_rng(seed)
    width = int(rng.choice([2, 3, 4, 6, 8, 12, 16]))
    lam = float(rng.choice(LAMS))
    # Without λ a Gram of few tokens is singular, and whether its factor exists is a matter of the last bit.
    tokens = int(rng.integers(3 * width, 6 * width)) if lam == 0 else int(rng.integers(1, 6 * width))
    inputs = rng.normal(size=(tokens, width)) @ (np.eye(width) + 0.6 * rng.normal(size=(width, width)))
    weight = rng.normal(size=(int(rng.integers(1, 7)), width)) * rng.uniform(0.2, 2.0, size=width)
    if seed % 7 == 0:
        inputs[:, rng.integers(width)] = 0.0
    sizes = [None, *(size for size in range(1, width + 1) if width % size == 0)]
    return {
        "weight": weight.tolist(), "inputs": inputs.tolist(), "bits": int(rng.integers(2, 5)),
        "groupSize": sizes[int(rng.integers(len(sizes)))], "kind": str(rng.choice(["asymmetric", "symmetric"])),
        "lam": lam, "gamma": None if rng.random() < 0.4 else float(rng.choice([0.0, 0.1, 0.5, 1.0])),
        "staticGroups": bool(rng.random() < 0.25),
    }  # fmt: skip


def answered(case: dict[str, Any]) -> dict[str, Any]:
    """Return the case with what the library says."""
    statistics = LayerStatistics.from_inputs(torch.tensor(case["inputs"], dtype=torch.float64))
    salient = {} if case["gamma"] is None else {"gamma": case["gamma"], "saliency": "saliency"}
    method = ColumnSolver(lam=case["lam"], static_groups=case["staticGroups"], **salient)
    weight = torch.tensor(case["weight"], dtype=torch.float64)
    solved = quantize_layer(weight, statistics, Grid(case["bits"], case["groupSize"], case["kind"]), method)
    return case | {
        "answer": {
            "codes": solved.codes.tolist(), "scales": solved.scales.tolist(), "zeroPoints": solved.zero_points.tolist(),
            "dequantized": solved.dequantized.tolist(), "reconLoss": solved.report.recon_loss,
            "sarLoss": solved.report.sar_loss, "diagonalFloor": solved.report.diagonal_floor,
        }
    }  # fmt: skip


def singular() -> dict[str, Any]:
    """Two channels that are one: in exact numbers the second pivot is 0, so a floor is needed by both sides."""
    grid = {"bits": 2, "groupSize": None, "kind": "asymmetric", "staticGroups": False}
    return {"weight": [[0.7, -0.3], [0.1, 0.9]], "inputs": [[2.0, 2.0]], "lam": 0.0, "gamma": None, **grid}


def best_pair(seed: int) -> dict[str, Any]:
    """Two weights on levels -4 … 3, the best pair found by trying all of them on the tokens themselves."""
    rng = np.random.default_rng(seed)
    weight, inputs = rng.uniform(-3, 3, size=2), rng.normal(size=(3, 2)) * rng.uniform(0.2, 2)
    lam = float(rng.choice(LAMS))
    mean = (inputs**2).sum() / 2
    costs = {}
    for codes in product(range(8), repeat=2):
        delta = np.array(codes) - 4 - weight
        costs[codes] = ((inputs @ delta) ** 2).sum() + lam * mean * (delta**2).sum()
    best = min(costs, key=costs.__getitem__)
    return {"weight": weight.tolist(), "inputs": inputs.tolist(), "lam": lam, "codes": best, "cost": costs[best]}


def test_learns_solver_equals_the_library(tmp_path):
    cases = [answered(case) for case in (*map(layer, range(LAYERS)), singular())]
    assert cases[-1]["answer"]["diagonalFloor"] > 0
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"layers": cases, "pairs": [best_pair(seed) for seed in range(200)]}))
    found = json.loads(run_node("compare_solver.mjs", path))
    assert found["layers"] == LAYERS + 1
    for name in ("codes", "zero_points", "floors", "pairs"):
        assert found[f"{name}_that_differ"] == 0, name
    assert max(found[name] for name in ("levels", "scales", "losses")) <= 1e-9
    # No value of these layers lies on a rounding boundary, where the last bit would choose the code.
    assert found["nearest_to_a_tie"] > 1e-9
    assert found["winners"] == []
