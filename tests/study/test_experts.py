"""Experts: counts, masks and figures against a made-up mixture whose every number is known, and against plain loops."""

import json

import numpy as np
import pytest

from sarqc.figures import lab_view
from sarqc.models.families import LayerInfo
from sarqc.study.document import Study
from sarqc.study.experts import counts_of_run, experts_of, mask_unreached, token_counts, words
from sarqc.study.facts import line_facts
from tests.figures.test_figures import at
from tests.synthetic_study import write_mixture, write_study

# Tokens of each draw, blocks × experts, of the made-up mixture of 2 blocks; its linears have 8 and 16 input channels.
TOKENS = np.array([[[40, 0, 9, 64], [30, 20, 3, 12]], [[44, 2, 11, 64], [30, 24, 5, 14]]])


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return write_mixture(tmp_path_factory.mktemp("mixture") / "moe", tokens=TOKENS)


def errors_of(study: Study, layer: int, g: int, m: int, name: str = "held_out") -> list[float]:
    """Return the stored values of a layer at a point, draw by draw, without what stands for 0/0."""
    stored = study.array(study.line("sarqc-gbs", 2), name)[:, layer, g, m]
    return [float(value) for value in stored if not np.isnan(value)]


class TestCounts:
    def test_every_expert_has_its_layers_and_the_tokens_of_its_linears(self, study):
        experts = experts_of(study.layers)
        assert (experts.blocks, experts.numbers, experts.count, experts.channels) == ((0, 1), (0, 1, 2, 3), 8, 16)
        for (row, column), members in experts.members.items():
            names = [study.layers[index].name for index in members]
            assert names == [f"model.layers.{row}.mlp.experts.{column}.{part}_proj" for part in ("up", "down")]
        counts = token_counts(experts, study.read(study.lines[0], "tokens"))
        assert counts.values.tolist() == TOKENS.tolist()
        assert counts.text == 64

    def test_none_is_none_in_any_draw_and_few_is_fewer_than_channels_on_average(self, study):
        counts = token_counts(experts_of(study.layers), study.read(study.lines[0], "tokens"))
        for row in range(2):
            for column in range(4):
                draws = [int(TOKENS[draw, row, column]) for draw in range(2)]
                assert counts.none[row, column] == (0 in draws)
                assert counts.few[row, column] == (0 not in draws and sum(draws) / 2 < 16)

    def test_words_are_the_counts(self, study):
        counts = token_counts(experts_of(study.layers), study.read(study.lines[0], "tokens"))
        assert words(counts) == (
            "Of 8 experts, 1 saw none of 64 calibration tokens in at least one of 2 draws and 3 saw on average fewer "
            "than the 16 channels they read."
        )

    @pytest.mark.parametrize(
        ("tokens", "said"),
        [
            ((20, 30), "Each of 2 experts saw at least as many of 30 calibration tokens as the 4 channels it reads."),
            ((3, 30), "Of 2 experts, 1 saw fewer of 30 calibration tokens than the 4 channels it reads."),
            ((0, 30), "Of 2 experts, 1 saw none of 30 calibration tokens."),
        ],
    )
    def test_words_of_a_run(self, tokens, said):
        layers = [LayerInfo(name=f"e{i}", block=0, module="experts.up_proj", shape=(4, 4), expert=i) for i in range(2)]
        assert words(counts_of_run(layers, {"e0": tokens[0], "e1": tokens[1]})) == said

    def test_dense_models_have_none(self, tmp_path):
        study = write_study(tmp_path / "toy", gs=False)
        assert experts_of(study.layers) is None
        assert counts_of_run(study.layers, {}) is None
        assert lab_view(study)["figures"]["map_experts"] is None


class TestNoTokens:
    def test_zero_over_zero_is_unknown_and_a_perfect_layer_is_not(self):
        errors = np.array([[[[0.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.1]]]])  # D L G M
        tokens = np.array([[10.0, 0.0, 3.0]])
        seen = mask_unreached(errors, tokens)
        assert seen[0, 0].tolist() == [[0.0, 0.0]]  # all tokens came: solved without error
        assert np.isnan(seen[0, 1]).all()
        assert seen[0, 2].tolist() == [[0.0, 0.1]]

    def test_such_layers_are_left_out_of_all_layers(self, study):
        for name in ("recon", "held_out"):
            found = getattr(line_facts(study, method="sarqc-gbs", bits=2, layer=None), name)
            for g, m in np.ndindex(*found.shape):
                stored = study.array(study.line("sarqc-gbs", 2), name)[:, :, g, m]
                by_draw = [[float(v) for v in draw if not np.isnan(v)] for draw in stored]
                means = [sum(draw) / len(draw) for draw in by_draw]
                assert found[g, m] == pytest.approx(sum(means) / len(means))

    def test_the_layer_itself_says_nothing_for_that_text(self, study):
        """Expert 1 of block 0 saw no token in the first draw, and some in the second."""
        layer = experts_of(study.layers).members[0, 1][0]
        facts = line_facts(study, method="sarqc-gbs", bits=2, layer=layer)
        assert facts.recon[0, 2] == pytest.approx(errors_of(study, layer, 0, 2, "recon")[0])
        assert len(errors_of(study, layer, 0, 2, "recon")) == 1


class TestMaps:
    def test_a_shared_cell_has_the_mean_and_leads_to_the_worst(self, study):
        made = at(lab_view(study, method="sarqc-gbs", bits=2)["figures"]["map"], 1, 2)
        trace = made["data"][0]
        assert made["layout"]["xaxis"]["ticktext"] == ["q", "up", "down<br>experts"]
        members = experts_of(study.layers).members
        for row in range(2):
            layers = [members[row, column][0] for column in range(4)]
            errors = [sum(found) / len(found) for found in (errors_of(study, one, 1, 2) for one in layers)]
            assert 10 ** trace["z"][row][1] == pytest.approx(sum(errors) / 4, rel=2e-4)
            assert trace["customdata"][row][1][0] == layers[errors.index(max(errors))]

    def test_every_expert_has_the_mean_of_its_linears_and_its_tokens(self, study):
        chosen = experts_of(study.layers).members[1, 2][1]
        figure = lab_view(study, method="sarqc-gbs", bits=2, layer=chosen)["figures"]["map_experts"]
        trace = at(figure, 0, 3)["data"][0]
        for (row, column), members in experts_of(study.layers).members.items():
            errors = [sum(found) / len(found) for found in (errors_of(study, layer, 0, 3) for layer in members)]
            assert 10 ** trace["z"][row][column] == pytest.approx(sum(errors) / 2, rel=2e-4)
            layer, words = trace["customdata"][row][column]
            assert layer in members
            assert words == f", {TOKENS[:, row, column].mean():.0f} tokens"
        assert [(shape["x0"], shape["y0"]) for shape in figure["layout"]["shapes"]] == [(1.5, 0.5)]

    def test_of_tokens_it_counts_the_experts_without_any(self, study):
        view = lab_view(study, method="sarqc-gbs", bits=2, quantity="tokens")
        figure = view["figures"]["map_experts"]
        for row, column in np.ndindex(2, 4):
            mean = TOKENS[:, row, column].mean()
            assert 10 ** figure["data"][0]["z"][row][column] == pytest.approx(mean, rel=1e-3)
        assert figure["finding"]["values"] == "1 of 8 experts saw no token in some draw"


@pytest.mark.thorough
def test_the_view_of_a_large_mixture_stays_small(tmp_path):
    tokens = np.random.default_rng(0).integers(0, 3000, (1, 48, 128))
    study = write_mixture(tmp_path / "large", tokens=tokens)
    view = lab_view(study, method="sarqc-gbs", bits=2, layer=5)
    text = json.dumps(view, allow_nan=False)
    assert len(text) < 1.5e6
    assert view["layers"][5]["label"] == "block 0 · expert 2 · up_proj"
    assert len(view["layers"]) == 1 + 2 * 128
    assert view["blocks"][1] == (1, 257)
