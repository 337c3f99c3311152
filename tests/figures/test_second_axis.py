"""A line over α or β: the Lab, its tables and the study's file name the second axis."""

import json
from pathlib import Path

import numpy as np
import pytest

from sarqc.figures.gamma_grid import gamma_grid
from sarqc.figures.sentence import plain
from sarqc.figures.view import lab_view
from sarqc.study.document import Second, Study
from sarqc.study.facts import line_facts
from sarqc.study.frames import frame
from tests.synthetic_study import one_line

LAMS, ALPHAS = (0.0, 0.1, 1.0), (0.0, 0.5, 1.0)
WOBBLE = np.array([0.0, 0.1, -0.1, 0.05])[:, None, None]  # of four draws
SAVED = np.array([[0.0, 3.0, 2.0], [0.4, 4.2, 2.0], [-1.0, 2.0, 1.0]])  # over zero, by α and λ


def study_of(folder: Path, second: Second) -> Study:
    rng, method = np.random.default_rng(4), {"shift_strength": "sarqc-gptaq", "first_order": "rqc-gbs"}
    arrays = {name: rng.uniform(0.1, 0.2, (4, 4, 3, 3)) for name in ("recon", "held_out", "drift")}
    arrays["perplexity"] = 80 - SAVED + WOBBLE
    return one_line(folder, LAMS, ALPHAS, method=method.get(second, "sarqc-gbs"), second=second, **arrays)


@pytest.mark.parametrize(("second", "sign"), [("shift_strength", "α"), ("first_order", "β")])
def test_the_lab_names_the_second_axis(second, sign, tmp_path):
    study = study_of(tmp_path / "a", second)
    (line,) = study.lines
    facts = line_facts(study, method=line.name, bits=2, layer=None)
    figure = gamma_grid(facts)
    assert figure is not None
    assert figure["title"] == f"λ × {sign}: perplexity on unseen text"
    assert figure["layout"]["yaxis"]["title"]["text"] == sign
    finding = figure["finding"]["values"].replace("\u00a0", " ")
    assert finding == f"Perplexity is lowest at λ = 0.1, {sign} = 0.5"
    view = lab_view(study, bits=2)
    json.dumps(view, allow_nan=False)
    assert view["second"] == {"name": second, "sign": sign}
    assert view["line"]["title"] == f"{line.title}, over {sign}"
    assert f"{sign}\u00a0=\u00a00.5" in plain(view["told"]["perplexity"]["sentences"][1][1])
    assert [column["title"] for column in view["table"]["columns"]][:2] == ["λ", sign]
    assert (view["as_recipe"]["second"], view["as_recipe"]["gammas"]) == (second, list(ALPHAS))
    rows = frame(study)
    assert rows[second].tolist()[::3] == [0.0, 0.5, 1.0] * 4
    assert rows["gamma"].isna().all()
    assert Study.open(tmp_path / "a").lines == study.lines
    written = [
        json.loads((study_of(tmp_path / name, one).folder / "study.json").read_text())["lines"][0]
        for name, one in (("b", second), ("c", "gamma"))
    ]
    assert [one.get("second") for one in written] == [second, None]
