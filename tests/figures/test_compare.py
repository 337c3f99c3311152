"""Several studies side by side: numbers, by layer and by text; what can't be compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sarqc.documents import Tuned
from sarqc.errors import Refused
from sarqc.figures.compare import BITS_IN_FULL, LETTERS, Ending, compare_view
from sarqc.figures.drawing import Figure
from sarqc.study.document import Study, StudyWriter, copied
from sarqc.study.evidence import Evidence
from tests.synthetic_study import write_study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return write_study(tmp_path / "toy")


def test_bits_are_compared_in_full_and_the_grid_is_named(study):
    def on(grid: str, group_size: int) -> Study:
        lines = tuple(line.model_copy(update={"grid": grid, "group_size": group_size}) for line in study.lines)
        return study.model_copy(update={"lines": lines})

    view = compare_view([on("asymmetric", 4), on("affine", 8), on("symmetric", 4)])
    (row,) = (row for row in view["numbers"] if row["title"] == BITS_IN_FULL)
    # 2-bit codes, and for each group a scale with a zero point of 2 bits, with a bias of 16, or alone
    assert row["values"] == [2 + 18 / 4, 2 + 32 / 8, 2 + 16 / 4]
    differences = {one["field"]: one["values"] for one in view["differences"]}
    assert differences["grid"] == ["asymmetric", "affine", "symmetric"]
    assert differences["group_size"] == [4, 8, 4]
    found = on("affine", 8).model_copy(update={"protocol": study.protocol | {"opened": {"name": "q", "words": "w"}}})
    rows = compare_view([found, found])["numbers"]
    assert BITS_IN_FULL not in [row["title"] for row in rows]  # its linears may have grids of their own


def test_layers_are_those_of_the_chosen_point(study):
    line = next(one for one in study.lines if one.name == "sarqc-gbs")
    view = compare_view([study.model_copy(update={"lines": (line.model_copy(update={"chosen": (1, 3)}),)})] * 2)
    assert view["layers_on"] == "unseen text"
    assert [row["title"] for row in view["layers"]] == [layer.name for layer in study.layers]
    expected = study.read(line, "held_out")[:, :, 1, 3].mean(axis=0)
    assert np.allclose([row["values"][0] for row in view["layers"]], expected, rtol=1e-6)


def test_layers_without_unseen_text_are_compared_on_the_calibration_text(study, tmp_path):
    writer = StudyWriter(tmp_path / "seen")
    line = copied(study, study.line("sarqc-gbs", 2), writer)
    shape = study.array(line, "held_out").shape
    arrays = line.arrays | {"held_out": writer.add(np.full(shape, np.nan), ("draw", "layer", "gamma", "lambda"))}
    seen = writer.finish(study.model_copy(update={"lines": (line.model_copy(update={"arrays": arrays}),)}))
    view = compare_view([seen, study])
    assert view["layers_on"] == "calibration text"
    assert all(value is not None for row in view["layers"] for value in row["values"])


def test_texts_are_those_that_all_have(study):
    def with_texts(prompts: dict[str, float]) -> Study:
        texts = [{"prompt": prompt, "greedy": {"kl": [kl, 3 * kl], "divergence": 1}} for prompt, kl in prompts.items()]
        lines = tuple(line.model_copy(update={"texts": tuple(texts)}) for line in study.lines)
        return study.model_copy(update={"lines": lines})

    view = compare_view([with_texts({"a": 1.0, "b": 2.0}), with_texts({"b": 0.5})])
    assert view["texts"] == [{"prompt": "b", "kl": [4.0, 1.0], "divergence": [1, 1]}]
    assert compare_view([study, study])["texts"] == []
    json.dumps(view, allow_nan=False)


def test_as_many_as_there_are_letters(study):
    view = compare_view([study] * len(LETTERS))
    assert [one["name"][0] for one in view["studies"]] == list(LETTERS)
    styles = {
        (t["line"]["color"], t["line"]["dash"]) for t in view["figure"]["data"] if t.get("mode") == "lines+markers"
    }
    assert len(styles) == len(LETTERS)


def test_auto_is_a_line_without_marks_that_says_so(tmp_path):
    study = write_study(tmp_path / "auto", auto=True)

    def of(name: str) -> Study:
        line = study.line(name, 2)
        return study.model_copy(update={"lines": (line.model_copy(update={"chosen": (0, 0)}),)})

    view = compare_view([of("sarqc-gbs"), of("sarqc-gbs-auto")])
    curve, auto = (trace for trace in view["figure"]["data"] if trace["yaxis"] == "y" and "lines" in trace["mode"])
    assert (curve["name"], curve["mode"]) == ("A", "lines+markers")
    assert (auto["name"], auto["mode"]) == ("B, auto", "lines")
    assert len(set(np.ravel(figure_at(view["figure"], "data.1.y")).tolist())) == 1
    said = {row["field"]: row["values"] for row in view["differences"]}
    assert said["lambda"][1] == said["gamma"][1] == "auto"
    only = compare_view([of("sarqc-gbs-auto"), of("sarqc-gbs-auto")])["figure"]["data"][0]
    assert (only["mode"], only["marker"]["symbol"]) == ("markers", "line-ew-open")  # a line over one place is none


def figure_at(figure: Figure, path: str) -> list[Any]:
    """Return the value bound at a path at the one point of a comparison."""
    return next(bound["values"][0] for bound in figure["bindings"] if bound["path"] == path)


def test_other_models_and_test_texts_are_refused_in_words(study):
    moe = study.model_copy(update={"model": study.model.model_copy(update={"name": "tiny-moe"})})
    with pytest.raises(Refused, match=f"models differ: {study.model.name}; tiny-moe") as refused:
        compare_view([study, study, moe])
    assert "one model" in refused.value.remedy
    test = study.protocol["test"]
    for changed in ({"corpus": "another"}, {"window": 4096}):
        other = study.model_copy(update={"protocol": study.protocol | {"test": test | changed}})
        with pytest.raises(Refused, match="test texts differ"):
            compare_view([study, other])
    untested = study.model_copy(update={"protocol": study.protocol | {"test": None}})
    assert compare_view([study, untested])["layers"]


def test_a_tuning_run_is_compared_by_what_it_came_to(study):
    """At the λ that it says, and at none where it compared too little: never at that of the method."""
    line = study.line("sarqc-gbs", 2)
    lams = list(line.lams)
    tuned: Tuned = {
        "lam": lams[2], "gamma": None, "words": f"{lams[2]:g} found", "band": "0 to 0.1", "best": lams[2],
        "perplexity": 40.25, "log_ratio": 0.5,
    }  # fmt: skip
    nothing: Tuned = {
        **tuned, "lam": None, "words": "not compared", "band": "", "best": None, "perplexity": None,
    }  # fmt: skip
    gain = Evidence("perplexity", -0.03, -0.05, -0.012, "draws", 4).to_json()
    one = study.model_copy(update={"lines": (line,)})
    view = compare_view([one] * 3, [Ending(tuned, gain), Ending(nothing), Ending()])
    said = {row["field"]: row["values"] for row in view["differences"]}
    assert said["lambda"][:2] == [f"{lams[2]:g} found; as good as the best: 0 to 0.1", "not compared"]
    numbers = {row["title"]: row for row in view["numbers"]}
    assert numbers["Perplexity, unseen text"]["values"][:2] == [40.25, None]
    against = numbers["Perplexity against GPTQ 1 %"]
    assert (against["values"], against["evidence"]) == ([-0.03, None, None], [gain, None, None])
    drift = np.nanmean(study.read(line, "drift")[:, :, 0, 2])
    assert numbers["Weight drift"]["values"][0] == pytest.approx(float(drift), rel=1e-5)
    assert numbers["Weight drift"]["values"][1] is None
