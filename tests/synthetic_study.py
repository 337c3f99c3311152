"""A small made-up study whose every number is known, for tests of facts and figures. Not a result of anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sarqc.study import LayerInfo, Line, ModelFacts, Study, StudyWriter

LAMS = (0.0, 0.01, 0.1, 0.3, 1.0)
GAMMAS = (0.1, 0.5)
MODULES = ("q_proj", "down_proj")
# Perplexity of identity by λ: λ=0 is off any scale, 0.3 is the best, 0.1 nearly as good.
CURVE = np.array([140.0, 86.0, 83.2, 83.0, 84.0])


def layers(blocks: int = 2) -> tuple[LayerInfo, ...]:
    return tuple(
        LayerInfo(name=f"model.layers.{b}.{m}", block=b, module=m, shape=(8, 8)) for b in range(blocks) for m in MODULES
    )


def perplexity(draws: int, offset: float = 0.0, gammas: int = 1, base: np.ndarray = CURVE) -> np.ndarray:
    """(draw, γ, λ): draws differ by whole units, which cancel in pairs, and by an alternating ± 0.2, which does not."""
    level = 3.0 * np.arange(draws)[:, None, None]
    wobble = 0.2 * np.where((np.arange(draws)[:, None] + np.arange(len(LAMS))[None]) % 2, 1.0, -1.0)[:, None, :]
    curve = np.where(np.array(LAMS) > 0, base + offset, base)
    return curve + level + wobble + 0.5 * np.arange(gammas)[None, :, None]


def write_study(
    folder: Path, *, draws: int = 4, prefix: str = "quantized", gs: bool = True, curve: np.ndarray = CURVE
) -> Study:
    """Writes the study to ``folder`` and returns it: rtn, rqc-gbs, sarqc-gbs and the scale searches at 2 bits."""
    writer = StudyWriter(folder)
    rng = np.random.default_rng(0)
    infos = layers()
    lines = []
    plan = [("rtn", "rtn", (0.0,), (None,), None), ("rqc-gbs", "gptq", LAMS, (None,), 0.0)]
    plan.append(("sarqc-gbs", "gptq", LAMS, GAMMAS, -1.0))
    if gs:
        plan += [("rqc-gs", "awq", LAMS, (None,), 20.0), ("sarqc-gs", "awq", LAMS, (None,), 20.0)]
    for name, baseline, lams, gammas, offset in plan:
        n_l, n_g, n_m = len(infos), len(gammas), len(lams)
        ppl = np.full((draws, 1, 1), 300.0) if offset is None else perplexity(draws, offset, n_g, curve)
        base = np.linspace(0.4, 0.1, n_m)[None, None, None] * (1 + np.arange(n_l))[None, :, None, None] / n_l
        held = np.broadcast_to(base, (draws, n_l, n_g, n_m)) * (1 + 0.1 * np.arange(n_g)[None, None, :, None])
        correct = np.broadcast_to(np.arange(40) % 2, (draws, n_g, n_m, 40)).astype(np.uint8).copy()
        surface = rng.integers(0, 256, (n_l, n_g, n_m, 4, 5)).astype(np.uint8)
        arrays = {
            "perplexity": writer.add(ppl, ("draw", "gamma", "lambda")),
            "accuracy": writer.add(correct.mean(-1), ("draw", "gamma", "lambda")),
            "correct": writer.add(correct, ("draw", "gamma", "lambda", "item")),
            "recon": writer.add(0.5 * held, ("draw", "layer", "gamma", "lambda")),
            "held_out": writer.add(held, ("draw", "layer", "gamma", "lambda")),
            "sar": writer.add(0.8 * held, ("draw", "layer", "gamma", "lambda")),
            "drift": writer.add(np.sqrt(held), ("draw", "layer", "gamma", "lambda")),
            "surface": writer.add(surface, ("layer", "gamma", "lambda", "row", "column")),
            "surface_scale": writer.add(np.linspace(0.5, 2.0, n_l), ("layer",)),
            "deciles": writer.add(
                np.abs(rng.normal(0.05, 0.01, (n_l, n_g, n_m, 10))), ("layer", "gamma", "lambda", "decile")
            ),
        }
        lines.append(
            Line(
                method=name,
                title=f"Title of {name}",
                baseline=baseline,
                bits=2,
                grid="asymmetric",
                group_size=128,
                lams=lams,
                gammas=gammas,
                draws=tuple(range(draws)),
                arrays=arrays,
            )
        )
    study = Study(
        id=folder.name,
        title="A made-up study",
        created="2026-01-02T03:04:05Z",
        prefix=prefix,
        model=ModelFacts(name="toy", parameters=1000, share_quantized=0.9, perplexity=60.0, accuracy=0.6),
        protocol={"test": {"corpus": "toy/test", "window": 64, "limited": False}, "versions": {"torch": "2.13.0"}},
        layers=infos,
        lines=tuple(lines),
    )
    return writer.finish(study)
