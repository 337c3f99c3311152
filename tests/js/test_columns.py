"""The tour's way through a row against GPTQ as its paper writes it, and its turned tokens against numpy."""

import json
from typing import Any

import numpy as np

from tests.js.node import run_node

ROWS, ANGLES = 100, (0, 15, 40, 90)


def case(seed: int) -> dict[str, Any]:
    """Return a row of 2 to 10 weights with more tokens than channels."""
    rng = np.random.default_rng(seed)
    width = int(rng.integers(2, 11))
    inputs = rng.normal(size=(3 * width, width)) @ (np.eye(width) + 0.7 * rng.normal(size=(width, width)))
    lam = float(rng.choice([0.01, 0.1, 1.0]))
    return {
        "row": rng.normal(size=width).tolist(), "inputs": inputs.tolist(), "bits": int(rng.integers(2, 5)), "lam": lam,
    }  # fmt: skip


def regularised_gram(one: dict[str, Any]) -> np.ndarray:
    inputs = np.array(one["inputs"])
    gram = inputs.T @ inputs
    return gram + one["lam"] * np.trace(gram) / len(gram) * np.eye(len(gram))


def by_the_paper(one: dict[str, Any], levels: np.ndarray) -> list[np.ndarray]:
    """GPTQ: H⁻¹ = UᵀU, and after column i each later one gets −(w_i − q_i) / U_ii · U_ij. The row after each column."""
    row = np.array(one["row"])
    upper = np.linalg.cholesky(np.linalg.inv(regularised_gram(one))).T
    working = [row.copy()]
    for i in range(len(row)):
        now = working[-1].copy()
        nearest = levels[np.argmin(np.abs(levels - now[i]))]
        now[i + 1 :] -= (now[i] - nearest) / upper[i, i] * upper[i, i + 1 :]
        now[i] = nearest
        working.append(now)
    return working


def test_each_column_pushes_its_error_on_as_gptq_does_and_turned_tokens_are_turned(tmp_path):
    cases = [case(seed) for seed in range(ROWS)]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps({"rows": cases, "angles": ANGLES}))
    found = json.loads(run_node("compare_columns.mjs", path))
    for one, way in zip(cases, found["ways"], strict=True):
        scale, zero = way["own"]["scale"], way["own"]["zeroPoint"]
        expected = by_the_paper(one, scale * (np.arange(2 ** one["bits"]) - zero))
        np.testing.assert_allclose(np.array(way["working"]), np.array(expected), rtol=0, atol=1e-8)
        # What the rest moves to is the best that it can do: no change of it makes the regularised error smaller.
        regularised, row = regularised_gram(one), np.array(one["row"])
        for count, working in enumerate(way["working"]):
            slope = regularised @ (np.array(working) - row)
            assert np.abs(slope[count:]).max(initial=0) < 1e-7 * np.abs(regularised).max()
    for turn in found["turns"]:
        angle = np.radians(turn["angle"])
        turning = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        tokens, weight = np.array(turn["tokens"]), np.array(turn["weight"])
        for dot in turn["dots"]:
            delta = np.array(dot["levels"]) - weight
            np.testing.assert_allclose(dot["recon"], ((tokens @ delta) ** 2).sum(), rtol=1e-9)
            np.testing.assert_allclose(dot["fresh"], ((tokens @ turning.T @ delta) ** 2).sum(), rtol=1e-9)
            np.testing.assert_allclose(dot["distance"], np.linalg.norm(delta), rtol=1e-9)
