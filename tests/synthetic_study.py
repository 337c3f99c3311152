"""Small made-up studies whose every number is known, for tests of facts and figures. Not results of anything."""

from pathlib import Path
from typing import Any

import numpy as np

from sarqc.quantization.methods import METHODS
from sarqc.settings import SITE
from sarqc.study.document import LayerInfo, Line, ModelFacts, Study, StudyWriter

LAMS = (0.0, 0.01, 0.1, 0.3, 1.0)
GAMMAS = (0.1, 0.5)
SIZES = (2, 8, 32, 128)
LENGTH = 64  # tokens in each calibration sequence
MODULES = ("q_proj", "down_proj")
# Perplexity of identity by λ: λ=0 is off any scale, 0.3 is the best, 0.1 nearly as good.
CURVE = np.array([140.0, 86.0, 83.2, 83.0, 84.0])
# What “auto” chooses among: for each layer, and for the whole model.
LAYER_LAMS, LAYER_GAMMAS = (0.25, 0.5, 0.75), (0.1, 0.15, 0.35, 0.5)
MODEL_LAMS = tuple(step / 10 for step in range(1, 11))


SHIPPED = ("tiny-llama", "tiny-llama-methods", "tiny-llama-knobs", "tiny-moe", "smollm2", "smollm2-methods")


def shipped(name: str) -> Study:
    return Study.open(SITE / "assets" / "studies" / name)


def layers(blocks: int = 2) -> tuple[LayerInfo, ...]:
    return tuple(
        LayerInfo(name=f"model.layers.{b}.{m}", block=b, module=m, shape=(8, 8)) for b in range(blocks) for m in MODULES
    )


def perplexity(
    draws: int, offset: float = 0.0, gammas: int = 1, base: np.ndarray = CURVE, lams: tuple[float, ...] = LAMS
) -> np.ndarray:
    """(draw, γ, λ): draws differ by whole units, which cancel in pairs, and by an alternating ± 0.2, which does not."""
    level = 3.0 * np.arange(draws)[:, None, None]
    wobble = 0.2 * np.where((np.arange(draws)[:, None] + np.arange(len(lams))[None]) % 2, 1.0, -1.0)[:, None, :]
    curve = np.where(np.array(lams) > 0, base + offset, base)
    return curve + level + wobble + 0.5 * np.arange(gammas)[None, :, None]


def candidates(draws: int, n_layers: int, gammas: tuple[float | None, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Errors (draw, layer, γ, λ) on the part solved on and on the part held out; the best pair moves with the layer.

    Solved on, the smallest λ is always the best; held out, each layer has its own best, which every third draw moves.
    """
    draw, layer, gamma, lam = np.ogrid[:draws, :n_layers, : len(gammas), : len(LAYER_LAMS)]
    train = 0.05 * (1 + 0.1 * lam + 0.02 * gamma) * (1 + 0.05 * draw) * (1 + layer)
    best = (layer + (draw % 3 == 2)) % len(LAYER_LAMS)
    held = 0.2 * (1 + 0.06 * (lam - best) ** 2 + 0.03 * (gamma - layer) ** 2) * (1 + 0.05 * draw) * (1 + 0.2 * layer)
    return np.broadcast_to(train, held.shape).copy(), held


def _choices(writer: StudyWriter, selected: str, draws: int, n_layers: int, has_gamma: bool) -> dict[str, object]:
    """The fields and arrays of a line whose λ was chosen by “auto”, as keyword arguments."""
    each = ("draw", "layer")
    if selected == "model":
        axis = np.array(MODEL_LAMS)
        best = 0.3 + 0.1 * (np.arange(draws) % 2)
        values = 50.0 + 20 * (axis[None] - best[:, None]) ** 2 + np.arange(draws)[:, None]
        lam = np.tile(axis[values.argmin(axis=1)][:, None], (1, n_layers))
        arrays = {
            "selected_lambda": writer.add(lam, each),
            "selected_gamma": writer.add(np.full(lam.shape, np.nan), each),
            "candidate_perplexity": writer.add(values, ("draw", "candidate_lambda")),
        }
        return {"candidate_lams": MODEL_LAMS, "candidate_gammas": (None,), "arrays": arrays}
    gammas: tuple[float | None, ...] = LAYER_GAMMAS if has_gamma else (None,)
    train, held = candidates(draws, n_layers, gammas)
    best = held.reshape(draws, n_layers, -1).argmin(axis=-1)
    lam = np.array(LAYER_LAMS)[best % len(LAYER_LAMS)]
    gamma = np.array([np.nan if value is None else value for value in gammas])[best // len(LAYER_LAMS)]
    axes = (*each, "candidate_gamma", "candidate_lambda")
    arrays = {
        "selected_lambda": writer.add(lam, each),
        "selected_gamma": writer.add(gamma, each),
        "candidate_train": writer.add(train, axes),
        "candidate_validation": writer.add(held, axes),
    }
    return {"candidate_lams": LAYER_LAMS, "candidate_gammas": gammas, "arrays": arrays}


def _by_size(writer: StudyWriter, errors: np.ndarray) -> dict[str, object]:
    """From errors (draw, layer, γ, λ): with more text that on calibration text rises to them, that on unseen falls."""
    few = np.array([1.0, 0.6, 0.3, 0.1])[None, None, :, None, None] * np.array(1 / (1 + np.arange(errors.shape[-1])))
    draw = 1 + 0.02 * np.arange(len(errors))[:, None, None, None, None]
    middle = errors[:, :, None] * draw
    axes = ("draw", "layer", "size", "gamma", "lambda")
    return {
        "recon_by_size": writer.add(middle * (1 - 0.5 * few), axes),
        "held_out_by_size": writer.add(middle * (1 + 0.8 * few), axes),
    }


Plan = tuple[str, str, tuple[float, ...], tuple[float | None, ...], np.ndarray, str | None]


def _line(
    writer: StudyWriter, rng: np.random.Generator, plan: Plan, *, sizes: bool = False, drifts: float = 1.0
) -> Line:
    """One line; ``drifts`` stretches its weight drift, and shrinks its error on unseen text by half as much."""
    name, baseline, lams, gammas, ppl, selected = plan
    draws = len(ppl)
    n_l, n_g, n_m = len(layers()), len(gammas), len(lams)
    base = np.linspace(0.4, 0.1, n_m)[None, None, None] * (1 + np.arange(n_l))[None, :, None, None] / n_l
    held = np.broadcast_to(base, (draws, n_l, n_g, n_m)) * (1 + 0.1 * np.arange(n_g)[None, None, :, None])
    correct = np.broadcast_to(np.arange(40) % 2, (draws, n_g, n_m, 40)).astype(np.uint8).copy()
    surface = rng.integers(0, 256, (n_l, n_g, n_m, 4, 5)).astype(np.uint8)
    arrays = {
        "perplexity": writer.add(ppl, ("draw", "gamma", "lambda")),
        "accuracy": writer.add(correct.mean(-1), ("draw", "gamma", "lambda")),
        "correct": writer.add(correct, ("draw", "gamma", "lambda", "item")),
        "recon": writer.add(0.5 * held, ("draw", "layer", "gamma", "lambda")),
        "held_out": writer.add(held * (1.5 - 0.5 * drifts), ("draw", "layer", "gamma", "lambda")),
        "sar": writer.add(0.8 * held, ("draw", "layer", "gamma", "lambda")),
        "drift": writer.add(drifts * np.sqrt(held), ("draw", "layer", "gamma", "lambda")),
        "surface": writer.add(surface, ("layer", "gamma", "lambda", "row", "column")),
        "surface_scale": writer.add(np.linspace(0.5, 2.0, n_l), ("layer",)),
        "deciles": writer.add(
            np.abs(rng.normal(0.05, 0.01, (n_l, n_g, n_m, 10))), ("layer", "gamma", "lambda", "decile")
        ),
    }
    more: dict[str, object] = {"arrays": {}}
    if selected is not None:
        more = _choices(writer, selected, draws, n_l, "gamma" in METHODS[name].tunes) | {"selected": selected}
    if sizes:
        more |= {"sizes": SIZES, "arrays": _by_size(writer, held)}
    arrays |= more.pop("arrays")
    return Line(
        method=name, title=METHODS[name].title, baseline=baseline, bits=2, grid="asymmetric", group_size=128, lams=lams,
        gammas=gammas, draws=tuple(range(draws)), arrays=arrays, **more,
    )  # fmt: skip


def study_document(folder: Path, prefix: str, lines: list[Line]) -> Study:
    return Study(
        id=folder.name,
        title="A made-up study",
        created="2026-01-02T03:04:05Z",
        prefix=prefix,
        model=ModelFacts(name="toy", parameters=1000, share_quantized=0.9, perplexity=60.0, accuracy=0.6),
        protocol={
            "calibration": {"corpus": "toy/calibration", "samples": 8, "length": LENGTH},
            "test": {"corpus": "toy/test", "window": 64, "limited": False},
            "versions": {"torch": "2.13.0"},
        },
        layers=layers(),
        lines=tuple(lines),
    )


def one_line(
    folder: Path, lams: tuple[float, ...], gammas: tuple[float | None, ...] = (None,), *, method: str = "sarqc-gbs",
    sizes: tuple[int, ...] = (), second: str = "gamma", **arrays: Any,
) -> Study:  # fmt: skip
    """A study of one line of four draws; of each array the values that broadcast to its axes."""
    writer, refs = StudyWriter(folder), {}
    lengths = {"draw": 4, "layer": len(layers()), "size": len(sizes), "gamma": len(gammas), "lambda": len(lams)}
    for name, values in arrays.items():
        without = {"layer", "size"} if name == "perplexity" else set() if name.endswith("by_size") else {"size"}
        axes = tuple(axis for axis in lengths if axis not in without)
        shape = [lengths[axis] for axis in axes]
        refs[name] = writer.add(np.broadcast_to(np.asarray(values, dtype=float), shape).copy(), axes)
    line = Line(
        method=method, title=METHODS[method].title, baseline=METHODS[method].baseline, bits=2, grid="asymmetric",
        group_size=128, lams=lams, gammas=gammas, second=second, draws=(0, 1, 2, 3), sizes=sizes, arrays=refs,
    )  # fmt: skip
    return writer.finish(study_document(folder, "float", [line]))


def write_study(
    folder: Path, *, draws: int = 4, prefix: str = "quantized", gs: bool = True, curve: np.ndarray = CURVE,
    auto: bool = False, sizes: bool = False, gammas: tuple[float, ...] = GAMMAS,
) -> Study:  # fmt: skip
    """Writes the study to ``folder`` and returns it: rtn, rqc-gbs, sarqc-gbs, with these ``gammas``, and the scale
    searches at 2 bits.

    With ``auto`` also the column solvers with λ and γ chosen by layer and a scale search with λ chosen for the model;
    with ``sizes`` sarqc-gbs also has its errors by amount of calibration text.
    """
    writer, rng = StudyWriter(folder), np.random.default_rng(0)
    point = ((0.0,), (None,))
    plan: list[Plan] = [
        ("rtn", "rtn", *point, np.full((draws, 1, 1), 300.0), None),
        ("rqc-gbs", "gptq", LAMS, (None,), perplexity(draws, 0.0, 1, curve), None),
        ("sarqc-gbs", "gptq", LAMS, gammas, perplexity(draws, -1.0, len(gammas), curve), None),
    ]
    if gs:
        plan += [
            (name, "awq", LAMS, (None,), perplexity(draws, 20.0, 1, curve), None) for name in ("rqc-gs", "sarqc-gs")
        ]
    if auto:
        plan += [
            (name, baseline, *point, perplexity(draws, base=np.array([level]), lams=(0.0,)), selected)
            for name, baseline, level, selected in (
                ("sarqc-gbs", "gptq", 81.5, "layer"),
                ("rqc-gbs", "gptq", 82.5, "layer"),
                ("sarqc-gs", "awq", 102.5, "model"),
            )
        ]
    lines = []
    for one in plan:
        measured = sizes and one[0] == "sarqc-gbs" and one[5] is None
        lines.append(_line(writer, rng, one, sizes=measured))
    return writer.finish(study_document(folder, prefix, lines))


def write_points_study(folder: Path, *, draws: int = 4) -> Study:
    """Every method once, each as a run would leave it: without curves, λ chosen by “auto” where there is one."""
    writer, rng = StudyWriter(folder), np.random.default_rng(1)
    levels = {"rtn": 300.0, "awq": 104.0, "gptq": 86.0, "gptaq": 85.2, "gptaq-full": 84.4, "omniquant": 92.0}
    levels |= {"rqc-gs": 103.0, "sarqc-gs": 102.0, "rqc-gbs": 83.1, "sarqc-gbs": 82.7, "sarqc-gptaq": 81.9}
    lines = []
    for number, (name, entry) in enumerate(METHODS.items()):
        selected = None if entry.auto is None else entry.auto.by
        noise = rng.normal(0, 0.3, (draws, 1, 1)) + 3.0 * np.arange(draws)[:, None, None]
        values = levels.get(name, 90.5) + noise
        plan = (name, entry.baseline, (0.0,), (None,), values, selected)
        lines.append(_line(writer, rng, plan, drifts=0.7 + 0.05 * (7 * number % len(METHODS))))
    return writer.finish(study_document(folder, "quantized", lines))


def write_mixture(folder: Path, *, tokens: np.ndarray) -> Study:
    """A mixture: in each block one linear of attention and experts with two linears, of 8 and 16 input channels.

    ``tokens`` (draw, block, expert) reached them, and all of the text, the largest count, reached attention. Errors of
    a layer without tokens are NaN, as in a solver's report; experts with fewer tokens gain more from λ.
    """
    draws, blocks, experts = tokens.shape
    made: list[LayerInfo] = []
    reached: list[np.ndarray] = []  # (draw,) of each layer
    for b in range(blocks):
        made.append(LayerInfo(name=f"model.layers.{b}.self_attn.q_proj", block=b, module="q_proj", shape=(8, 8)))
        reached.append(np.full(draws, tokens.max()))
        for e in range(experts):
            for part, width in (("up_proj", 8), ("down_proj", 16)):
                name = f"model.layers.{b}.mlp.experts.{e}.{part}"
                made.append(LayerInfo(name=name, block=b, module=f"experts.{part}", shape=(8, width), expert=e))
                reached.append(tokens[:, b, e])
    counts = np.stack(reached, axis=1).astype(float)  # D L
    shape = (draws, len(made), len(GAMMAS), len(LAMS))
    rng = np.random.default_rng(3)
    size = rng.uniform(0.05, 0.3, (1, len(made), 1, 1)) * (1 + 0.1 * np.arange(draws)[:, None, None, None])
    few = 8 / (8 + counts)[:, :, None, None]
    held = size * (1 + few * np.linspace(3, 0, len(LAMS))) * (1 + 0.1 * np.arange(len(GAMMAS)))[None, None, :, None]
    recon = np.where(counts[:, :, None, None] == 0, np.nan, 0.5 * held)
    writer, axes = StudyWriter(folder), ("draw", "layer", "gamma", "lambda")
    arrays = {
        "perplexity": writer.add(perplexity(draws, gammas=len(GAMMAS)), ("draw", "gamma", "lambda")),
        "tokens": writer.add(counts, ("draw", "layer")),
        "surface": writer.add(rng.integers(0, 256, (*shape[1:], 2, 2)).astype(np.uint8), (*axes[1:], "row", "column")),
        "surface_scale": writer.add(np.ones(len(made)), ("layer",)),
    }
    for name, values in (("recon", recon), ("held_out", held), ("sar", 0.8 * held), ("drift", np.sqrt(held))):
        arrays[name] = writer.add(values, axes)
    line = Line(
        method="sarqc-gbs", title=METHODS["sarqc-gbs"].title, baseline="gptq", bits=2, grid="asymmetric",
        group_size=128, lams=LAMS, gammas=GAMMAS, draws=tuple(range(draws)), arrays=arrays,
    )  # fmt: skip
    study = study_document(folder, "quantized", [line])
    return writer.finish(study.model_copy(update={"layers": tuple(made)}))
