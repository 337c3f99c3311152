"""Kept statistics of the float model: the same as those of a walk, read instead of collected, made again if damaged."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sarqc import LayerStatistics
from sarqc.calibration import float_statistics as module
from sarqc.calibration.capture import Statistics, collect
from sarqc.calibration.float_statistics import SUFFIX, float_statistics, packed, unpacked
from sarqc.engine.keys import describe, statistics_keys
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.models.walk import BlockWalk

SEQUENCES = np.arange(6 * 16).reshape(6, 16) % 4096


@pytest.fixture(scope="module", params=["random_llama", "tiny_moe"])
def loaded(request: pytest.FixtureRequest, settings: object) -> LoadedModel:
    if request.param == "tiny_moe":
        folder: Path = request.getfixturevalue("tiny_llama").parent / "tiny-moe"
    else:
        folder = request.getfixturevalue("random_llama")
    return load(read_checkpoint(folder), torch.device("cpu"))


def walked(loaded: LoadedModel) -> dict[int, Statistics]:
    """Return the statistics that a walk collects, without this module."""
    walk, found = BlockWalk(loaded, torch.from_numpy(SEQUENCES.copy())), {}
    for index, block in enumerate(loaded.blocks()):
        found[index], outputs = collect(walk, block)
        walk.advance(outputs)
    return found


def same(one: LayerStatistics, other: LayerStatistics) -> bool:
    names = ("gram", "abs_sum", "max_norm")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    return one.n_tokens == other.n_tokens and all(
        torch.equal(a, b) for a, b in pairs if a is not None and b is not None
    )


@pytest.mark.thorough
def test_statistics_are_those_of_a_walk(loaded, tmp_path):
    store, keys = ArtefactStore(tmp_path), statistics_keys(describe(loaded), SEQUENCES)
    last = len(loaded.blocks()) - 1
    found = dict(float_statistics(loaded, SEQUENCES, [1, last], keys, store))
    expected = walked(loaded)
    assert [*found] == [1, last]
    for block, of_block in found.items():
        assert of_block.keys() == expected[block].keys()
        for path, one in of_block.items():
            plain = expected[block][path]
            assert one.n_tokens == plain.n_tokens
            assert torch.equal(one.abs_sum, plain.abs_sum)
            assert torch.equal(one.gram.triu(), plain.gram.triu())
            assert torch.equal(one.gram, one.gram.mT)
    groups = {id(one) for one in found[1].values()}
    assert len(groups) == len({id(one) for one in expected[1].values()}), "linears that read one tensor share a Gram"


def test_what_is_kept_costs_no_pass(loaded, tmp_path, monkeypatch):
    store, keys = ArtefactStore(tmp_path), statistics_keys(describe(loaded), SEQUENCES)
    first = dict(float_statistics(loaded, SEQUENCES, [0, 1], keys, store))
    with monkeypatch.context() as without:
        without.setattr(module, "BlockWalk", None)
        again = dict(float_statistics(loaded, SEQUENCES, [1], keys, store))
    assert all(same(again[1][path], one) for path, one in first[1].items())
    damaged = tmp_path / keys[1][:2] / f"{keys[1]}{SUFFIX}"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    mended = dict(float_statistics(loaded, SEQUENCES, [0, 1], keys, store))
    assert all(same(mended[1][path], one) for path, one in first[1].items())


def test_keys_tell_sequences_and_weights_apart(loaded):
    model = describe(loaded)
    keys = statistics_keys(model, SEQUENCES)
    assert len({*keys}) == len(loaded.blocks())
    assert not {*keys} & {*statistics_keys(model, SEQUENCES[::-1])}
    state = loaded.weights()
    name = loaded.checkpoint.layers[-1].name  # of the last block: only its own key depends on it
    loaded.weight(name).data[0, 0] += 1
    changed = statistics_keys(describe(loaded), SEQUENCES)
    loaded.restore(state)
    assert changed[:-1] == keys[:-1]
    assert changed[-1] != keys[-1]


def test_packing_keeps_every_bit():
    torch.manual_seed(0)
    one, none = LayerStatistics.from_inputs(torch.randn(50, 7)), LayerStatistics.from_inputs(torch.empty(0, 5))
    read = unpacked(packed({"a": one, "b": one, "c": none}), torch.device("cpu"))
    assert read["a"] is read["b"]
    symmetric = one.gram.triu() + one.gram.triu(1).mT
    assert torch.equal(read["a"].gram, symmetric)
    assert same(read["c"], none)
