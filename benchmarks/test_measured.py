"""What a benchmark leaves: a document after every number, and tables that say which goals were missed."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import bench, measured
from benchmarks.measured import Figure, told
from benchmarks.random_models import made
from sarqc.models.checkpoint import read_checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))
import results_of_costs


def test_what_was_found_is_kept_when_a_later_section_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(measured, "products_per_second", lambda: 1e11)
    file = tmp_path / "bench.json"

    def broken() -> Iterator[Figure]:
        yield Figure("one", 2.5, "×", 2)
        raise RuntimeError("the host went away")

    with pytest.raises(RuntimeError):
        told({"first": lambda: [Figure("a", 1.0, "s", 1.5)], "second": broken}, file)
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["sections"]["first"] == [{"what": "a", "value": 1.0, "unit": "s", "goal": 1.5}]
    assert document["sections"]["second"][0]["value"] == 2.5
    assert {"devices", "cores", "memory_gib", "versions", "when"} <= document["host"].keys()
    said = capsys.readouterr().out
    assert "at most 2, missed" in said
    assert "1.00 s   at most 1.5\n" in said
    monkeypatch.setattr(results_of_costs, "NUMBERS", file)
    monkeypatch.setattr(results_of_costs, "TITLES", {"first": "One", "second": "Two"})
    _, host, _, met, _, missed = results_of_costs.parts()
    assert "100 GFLOP/s" in host
    assert "| a | 1.00 s | 1.5 |" in met
    assert "| one | 2.50 × | **2** |" in missed


def test_every_section_has_a_name_and_no_other_is_taken(tmp_path, monkeypatch):
    assert results_of_costs.TITLES.keys() <= bench.sections(tmp_path).keys()
    monkeypatch.setattr(sys, "argv", ["bench", "--folder", str(tmp_path), "--only", "everything"])
    with pytest.raises(SystemExit):
        bench.main()


@pytest.mark.thorough
def test_a_random_model_is_a_checkpoint_like_others(tmp_path):
    shape = {
        "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 1,
    }  # fmt: skip
    dense = read_checkpoint(made(tmp_path / "dense", **shape), "dense")
    assert [layer.shape for layer in dense.layers][:2] == [(32, 32), (16, 32)]
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    mixture = read_checkpoint(made(tmp_path / "mixture", **shape, **experts), "mixture")
    assert mixture.experts(0) == 4
    assert made(tmp_path / "dense", **shape) == tmp_path / "dense"  # not made again
