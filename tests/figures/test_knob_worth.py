"""Which of λ and the value beside it is worth most: against plain loops over logarithms, on planes that are known."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy.stats import t

from sarqc.figures.gamma_grid import gamma_grid
from sarqc.figures.knob_worth import knobs_finding, knobs_text
from sarqc.figures.sentence import plain
from sarqc.figures.titles import LONGEST
from sarqc.figures.view import lab_view
from sarqc.quantization.methods import METHODS
from sarqc.study.document import Line, Second, Study, StudyWriter, one_draw
from sarqc.study.facts import LineFacts, line_facts
from sarqc.study.frames import frame
from sarqc.study.knob_worth import read_knobs
from tests.synthetic_study import layers, study_document

LAMS, ALPHAS = (0.0, 0.1, 1.0), (0.0, 0.5, 1.0)
WOBBLE = np.array([0.0, 0.1, -0.1, 0.05])[:, None, None]  # of four draws
LEVEL = np.array([1.0, 1.05, 0.98, 1.02])[:, None, None]  # which a paired comparison does not see
# Saved over zero, by α and λ.
LAM_MOST = np.array([[0.0, 3.0, 2.0], [0.4, 3.2, 2.0], [-1.0, 2.0, 1.0]])
ALPHA_MOST = LAM_MOST.T
NOTHING = np.zeros((3, 3))
EQUAL = np.array([[0.0, 3.0, 2.0], [3.1, 4.0, 2.0], [1.0, 2.0, 1.0]])


def plane(saved: np.ndarray) -> np.ndarray:
    """Perplexity (4, α, λ); every point but zero wobbles over the draws in a way of its own."""
    own = np.arange(9).reshape(1, 3, 3) % 4
    wobble = np.take_along_axis(np.broadcast_to(WOBBLE, (4, 3, 3)), (np.arange(4)[:, None, None] + own) % 4, axis=0)
    return np.asarray(LEVEL * (80 - saved[None] + np.where(np.arange(9).reshape(3, 3) > 0, wobble, 0.0)))


def study_of(folder: Path, perplexity: np.ndarray, second: Second = "shift_strength") -> Study:
    writer = StudyWriter(folder)
    rng, shape = np.random.default_rng(4), (len(perplexity), len(layers()), *perplexity.shape[1:])
    arrays = {
        name: writer.add(rng.uniform(0.1, 0.2, shape), ("draw", "layer", "gamma", "lambda"))
        for name in ("recon", "held_out", "drift")
    }
    arrays["perplexity"] = writer.add(perplexity, ("draw", "gamma", "lambda"))
    method = {"shift_strength": "sarqc-gptaq", "first_order": "rqc-gbs", "gamma": "sarqc-gbs"}[second]
    line = Line(
        method=method, title=METHODS[method].title, baseline="gptaq", bits=2, grid="asymmetric", group_size=128,
        lams=LAMS, gammas=ALPHAS, second=second, draws=tuple(range(len(perplexity))), arrays=arrays,
    )  # fmt: skip
    return writer.finish(study_document(folder, "quantized", [line]))


def facts_of(study: Study) -> LineFacts:
    (line,) = study.lines
    return line_facts(study, method=line.name, bits=2, layer=None)


def by_hand(values: np.ndarray, zero: np.ndarray, among: int) -> tuple[float, float, float]:
    """Saved over zero with its interval, draw by draw; the reference is the geometric mean at zero."""
    logs = [math.log(value / other) for value, other in zip(values, zero, strict=True)]
    scale = math.exp(fmean(math.log(other) for other in zero))
    half = float(t.ppf(1 - 0.025 / among, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
    saved = [scale * (1 - math.exp(fmean(logs) + end)) for end in (0.0, half, -half)]
    return saved[0], saved[1], saved[2]


@pytest.mark.parametrize("saved", [LAM_MOST, ALPHA_MOST, EQUAL, NOTHING])
def test_each_worth_is_that_of_its_best_value(saved: np.ndarray, tmp_path: Path) -> None:
    values = np.float64(np.float32(plane(saved)))
    knobs = read_knobs(facts_of(study_of(tmp_path / "a", values)).line, values)
    assert knobs is not None
    means = np.log(values).mean(axis=0)
    places = {
        "lam": [(0, m) for m in (1, 2)],
        "second": [(g, 0) for g in (1, 2)],
        "both": [(g, m) for g in range(3) for m in range(3) if (g, m) != (0, 0)],
    }
    for name, among in places.items():
        worth = getattr(knobs, name)
        assert worth.at == min(among, key=lambda at: means[at])
        expected = by_hand(values[:, worth.at[0], worth.at[1]], values[:, 0, 0], len(among))
        said = (worth.saved.mean, worth.saved.low, worth.saved.high)
        np.testing.assert_allclose(said, expected, rtol=1e-9, atol=1e-9)
    assert knobs.zero == pytest.approx(math.exp(fmean(np.log(values[:, 0, 0]))))


def test_one_is_worth_most_where_its_best_beats_every_value_of_the_other(tmp_path: Path) -> None:
    for saved, most in ((LAM_MOST, "lam"), (ALPHA_MOST, "second"), (EQUAL, None), (NOTHING, None)):
        values = plane(saved)
        knobs = read_knobs(facts_of(study_of(tmp_path / str(most), values)).line, values)
        assert knobs is not None
        assert knobs.most == most
        if most is None:
            continue
        best, others = ((knobs.lam.at, [(1, 0), (2, 0)]), (knobs.second.at, [(0, 1), (0, 2)]))[most == "second"]
        for g, m in others:
            _, low, _ = by_hand(values[:, best[0], best[1]], values[:, g, m], 2)
            assert low > 0


def test_words_of_the_plane(tmp_path: Path) -> None:
    facts = facts_of(study_of(tmp_path / "lam", plane(LAM_MOST)))
    text = knobs_text(facts).replace("\u00a0", " ")
    knobs = read_knobs(facts.line, plane(LAM_MOST))
    assert knobs is not None
    parts = (knobs.lam.saved, knobs.second.saved, knobs.both.saved)
    sizes = [f"{part.mean:.1f} ({part.low:.1f} to {part.high:.1f})" for part in parts]
    assert text.startswith(f"λ is worth {sizes[0]}, α {sizes[1]}, both together {sizes[2]} in perplexity against ")
    assert text.endswith("(95 % over four draws, each the best of 2, 2 and 8 points): λ is worth most here.")
    assert " in perplexity against λ = α = 0 " in text
    assert knobs_finding(facts).startswith("λ is worth most: ")
    swapped = facts_of(study_of(tmp_path / "alpha", plane(ALPHA_MOST), "first_order"))
    assert knobs_text(swapped).endswith("β is worth most here.")
    assert knobs_finding(swapped).startswith("β is worth most: ")
    for name, saved, ending, finding in (
        ("equal", EQUAL, "there is no significant difference between λ and α.", "clearly worth more than the other"),
        ("nothing", NOTHING, "neither λ nor α is clearly worth anything here.", "clearly worth anything here"),
    ):
        other = facts_of(study_of(tmp_path / name, plane(saved)))
        assert knobs_text(other).endswith(ending)
        assert knobs_finding(other) == f"Neither λ nor α is {finding}"
    single = facts_of(one_draw(study_of(tmp_path / "one", plane(LAM_MOST)), 0))
    assert knobs_text(single).endswith("on one draw, which can’t say how sure that is.")
    assert knobs_finding(single).endswith("on one draw")
    for one in (facts, swapped, single):
        assert 0 < len(knobs_finding(one)) <= LONGEST


def test_without_both_zeros_or_over_gamma_nothing_is_said(tmp_path: Path) -> None:
    values = plane(LAM_MOST)
    over_gamma = facts_of(study_of(tmp_path / "gamma", values, "gamma"))
    assert (knobs_text(over_gamma), knobs_finding(over_gamma)) == ("", "")
    line = facts_of(study_of(tmp_path / "a", values)).line
    assert read_knobs(line, None) is None
    assert read_knobs(line.model_copy(update={"lams": (0.01, 0.1, 1.0)}), values) is None
    unknown = values.copy()
    unknown[:, 0, 0] = math.nan
    assert read_knobs(line, unknown) is None
    # The best is taken among the points that were measured in most draws.
    partly = values.copy()
    partly[1:, 0, 1] = math.nan
    knobs = read_knobs(line, partly)
    assert knobs is not None
    assert knobs.lam.at == (0, 2)


@pytest.mark.parametrize(("second", "sign"), [("shift_strength", "α"), ("first_order", "β")])
def test_the_lab_names_the_second_axis(second: Second, sign: str, tmp_path: Path) -> None:
    study = study_of(tmp_path / "a", plane(LAM_MOST), second)
    facts = facts_of(study)
    figure = gamma_grid(facts)
    assert figure is not None
    assert figure["title"] == f"λ × {sign}: perplexity on unseen text"
    assert figure["layout"]["yaxis"]["title"]["text"] == sign
    assert figure["finding"]["values"] == knobs_finding(facts)
    assert figure["aria"].endswith(knobs_text(facts))
    view = lab_view(study, bits=2)
    json.dumps(view, allow_nan=False)
    assert view["second"] == {"name": second, "sign": sign}
    assert view["line"]["title"] == f"{facts.line.title}, over {sign}"
    assert f"{sign}\u00a0=\u00a00.5" in plain(view["told"]["perplexity"]["sentences"][1][1])
    assert knobs_text(facts) in view["told"]["perplexity"]["small_print"][0][0]
    assert [column["title"] for column in view["table"]["columns"]][:2] == ["λ", sign]
    assert (view["as_recipe"]["second"], view["as_recipe"]["gammas"]) == (second, list(ALPHAS))
    rows = frame(study)
    assert rows[second].tolist()[::3] == [0.0, 0.5, 1.0] * 4
    assert rows["gamma"].isna().all()
    assert Study.open(tmp_path / "a").lines == study.lines
    written = [
        json.loads((study_of(tmp_path / name, plane(LAM_MOST), one).folder / "study.json").read_text())["lines"][0]
        for name, one in (("b", second), ("c", "gamma"))
    ]
    assert [one.get("second") for one in written] == [second, None]
