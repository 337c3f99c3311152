"""The whole model against a plain loop over forward passes, and resuming to the same bits."""

import errno
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.calibration import pipeline
from sarqc.calibration.corpora import Text, draw_sequences
from sarqc.calibration.job import CalibrationJob, Curves, SolvedLayer
from sarqc.calibration.kept_layers import KeptLayers
from sarqc.calibration.multi_device import MultiDevice
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from sarqc.errors import NumericalError, Refused
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.models.walk import BlockWalk
from sarqc.quantization.methods import METHODS


def fresh(folder: Path) -> LoadedModel:
    return load(read_checkpoint(folder), torch.device("cpu"))


def a_plan(
    loaded: LoadedModel, name: str = "sarqc-gbs", inputs_from: str = "quantized", **changes: object
) -> CalibrationJob:
    ids = np.random.default_rng(3).integers(0, 4096, 2000)
    how = {"samples": 6, "length": 32, "held_out_samples": 2, "sampling": "sequential", "seed": 0}
    sequences = draw_sequences(Text("noise", ids), **how)
    grids = {layer.name: Grid(3, 16, "asymmetric") for layer in loaded.checkpoint.layers}
    return CalibrationJob(grids, method(name), inputs_from, sequences, **changes)


def solved_by(
    loaded: LoadedModel, plan: CalibrationJob, store: Path | None = None, spread: MultiDevice | None = None
) -> list[SolvedLayer]:
    """Return the layers of a calibration, kept in a folder where there is one."""
    kept = None if store is None else ArtefactStore(store)
    steps = calibrate(loaded, plan, kept, layer_keys(describe(loaded), plan), spread=spread)
    return [step for step in steps if isinstance(step, SolvedLayer)]


def run(folder: Path, store: Path, **changes: object) -> tuple[LoadedModel, list[SolvedLayer]]:
    loaded = fresh(folder)
    return loaded, solved_by(loaded, a_plan(loaded, **changes), store)


@pytest.mark.thorough
@pytest.mark.parametrize("inputs_from", ["float", "quantized"])
def test_a_blocks_outputs_are_made_once(random_llama, tmp_path, monkeypatch, inputs_from):
    """Beside its statistics if the next block reads the float outputs, after it was quantized otherwise."""
    collect, outputs_of = pipeline.collect, BlockWalk.outputs
    made = {"collect": 0, "outputs": 0}

    def collected(*given: object, **named: object) -> tuple[object, list[torch.Tensor]]:
        statistics, outputs = collect(*given, **named)
        made["collect"] += len(outputs)
        return statistics, outputs

    def outputs(walk: BlockWalk, block: torch.nn.Module) -> list[torch.Tensor]:
        states = outputs_of(walk, block)
        made["outputs"] += len(states)
        return states

    monkeypatch.setattr(pipeline, "collect", collected)
    monkeypatch.setattr(BlockWalk, "outputs", outputs)
    run(random_llama, tmp_path, inputs_from=inputs_from)
    assert (made["collect"] > 0, made["outputs"] > 0) == ((True, False) if inputs_from == "float" else (False, True))


@pytest.mark.parametrize(
    ("name", "depends"), [("omniquant", True), ("signround", True), ("sarqc-gbs", False), ("awq", False)]
)
def test_the_number_of_threads_is_in_the_key_of_what_is_learned(random_llama, name, depends):
    loaded, before = fresh(random_llama), torch.get_num_threads()
    plan = a_plan(loaded, name)
    keys = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            keys.append(layer_keys(describe(loaded), plan))
    finally:
        torch.set_num_threads(before)
    assert (keys[0] != keys[1]) == depends


def weights(loaded: LoadedModel) -> dict[str, torch.Tensor]:
    return {layer.name: loaded.model.get_submodule(layer.name).weight.clone() for layer in loaded.checkpoint.layers}


def inputs_of(loaded: LoadedModel, names: list[str], tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the inputs of the linears in one forward pass of the whole model."""
    inputs: dict[str, torch.Tensor] = {}

    def keep(path: str) -> object:
        return lambda _module, arguments: inputs.update({path: arguments[0]})

    hooks = [loaded.model.get_submodule(path).register_forward_pre_hook(keep(path)) for path in names]
    with torch.no_grad():
        loaded.model(tokens)
    for hook in hooks:
        hook.remove()
    return inputs


PREFIXES = [(name, prefix) for name in ("rtn", "awq", "gptq", "sarqc-gbs") for prefix in ("quantized", "float")]
SHIFTED = [name for name, entry in METHODS.items() if "cross" in entry.make.needs]  # only with a quantized prefix


@pytest.mark.parametrize(("name", "inputs_from"), [*PREFIXES, *((name, "quantized") for name in SHIFTED)])
def test_equals_a_loop_over_whole_forward_passes(random_llama, tmp_path, name, inputs_from):
    loaded, solved = run(random_llama, tmp_path, name=name, inputs_from=inputs_from)
    reference, original = fresh(random_llama), fresh(random_llama)
    plan = a_plan(reference, name, inputs_from)
    tokens = torch.from_numpy(plan.sequences.calibration.copy())
    for block in range(3):
        source = reference if inputs_from == "quantized" else original
        names = [layer.name for layer in source.checkpoint.layers if layer.block == block]
        inputs = inputs_of(source, names, tokens)
        float_inputs = inputs_of(original, names, tokens) if name in SHIFTED else {}
        for path in names:
            statistics = LayerStatistics.from_inputs(inputs[path], float_inputs.get(path))
            linear = reference.model.get_submodule(path)
            linear.weight.data = quantize_layer(linear.weight, statistics, plan.grids[path], plan.method).dequantized
    assert [layer.info.name for layer in solved] == [layer.name for layer in loaded.checkpoint.layers]
    found, expected = weights(loaded), weights(reference)
    for path in found:  # a rounding tie may fall otherwise when sums run in another order, and moves what follows
        same = torch.isclose(found[path], expected[path], rtol=1e-4, atol=1e-5).float().mean()
        assert same > 0.97, path
    with torch.no_grad():
        difference = (loaded.model(tokens).logits - reference.model(tokens).logits).square().mean()
        error = (loaded.model(tokens).logits - original.model(tokens).logits).square().mean()
    assert difference < 0.05 * error


@pytest.mark.parametrize("name", SHIFTED)
def test_a_float_prefix_leaves_nothing_to_shift(random_llama, tmp_path, name):
    with pytest.raises(Refused, match=r"layers\.0\.") as refused:
        run(random_llama, tmp_path, name=name, inputs_from="float")
    assert "quantized" in refused.value.remedy


def test_biases_are_kept(random_llama, tmp_path):
    """Of the affine grid: what is read again makes the model's weight from codes, scales and biases."""
    loaded = fresh(random_llama)
    grids = {layer.name: Grid(3, 16, "affine") for layer in loaded.checkpoint.layers}
    plan = replace(a_plan(loaded, "gptq"), grids=grids)
    keys = layer_keys(describe(loaded), plan)
    solved = solved_by(loaded, plan, tmp_path)
    kept = KeptLayers(ArtefactStore(tmp_path), keys, loaded.checkpoint.layers)
    for layer in solved:
        again, before = kept[layer.info.name], layer.quantized
        assert torch.equal(again.biases, before.biases)
        assert torch.equal(again.stored(), before.dequantized)
        assert torch.equal(again.stored(), loaded.weight(layer.info.name))


def test_a_disk_that_fails_ends_the_run_and_what_was_kept_stays(random_llama, tmp_path, monkeypatch):
    write, written = ArtefactStore.write, []

    def failing(self: ArtefactStore, key: str, suffix: str, payload: bytes) -> None:
        if len(written) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(key)
        write(self, key, suffix, payload)

    with monkeypatch.context() as patch:
        patch.setattr(ArtefactStore, "write", failing)
        with pytest.raises(OSError, match="No space left"):
            run(random_llama, tmp_path)
    assert {path.stem for path in tmp_path.glob("*/*.layer")} == set(written)
    _, solved = run(random_llama, tmp_path)
    assert sum(layer.from_cache for layer in solved) == 5


@pytest.mark.thorough
def test_a_layer_that_is_said_is_kept(random_llama, tmp_path, monkeypatch):
    """Anyone who kills the process at a layer finds that layer kept, also where the disk is slower than the solver."""
    write = ArtefactStore.write

    def slow(self: ArtefactStore, key: str, suffix: str, payload: bytes) -> None:
        time.sleep(0.05)
        write(self, key, suffix, payload)

    monkeypatch.setattr(ArtefactStore, "write", slow)
    loaded, store = fresh(random_llama), ArtefactStore(tmp_path)
    plan = a_plan(loaded)
    keys, names = layer_keys(describe(loaded), plan), []
    for step in calibrate(loaded, plan, store, keys):
        assert store.has(keys[step.info.name], ".layer"), step.info.name
        names.append(step.info.name)
    assert names == [layer.name for layer in loaded.checkpoint.layers]


@pytest.mark.thorough
def test_a_file_holds_no_weights_that_its_codes_make(random_llama, tmp_path):
    for name, is_stored in (("gptq", False), ("rtn", False), ("awq", True)):
        run(random_llama, tmp_path / name, name=name)
        for path in (tmp_path / name).glob("*/*.layer"):
            payload = path.read_bytes()[:-16]
            assert ("dequantized" in safetensors.torch.load(payload)) <= is_stored, (name, path)
        solved = run(random_llama, tmp_path / name, name=name)[1]
        for layer in solved:
            assert layer.from_cache
            assert layer.quantized.dequantized.shape == layer.info.shape


def test_a_bad_weight_names_its_layer(random_llama, tmp_path):
    loaded = fresh(random_llama)
    loaded.model.get_submodule("model.layers.1.mlp.up_proj").weight.data[3, 4] = float("nan")
    plan = a_plan(loaded)
    with pytest.raises(NumericalError, match=r"layers\.1\.mlp\.up_proj"):
        solved_by(loaded, plan, tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(METHODS))
def test_the_curve_has_the_chosen_point(random_llama, tmp_path, name):
    learning = {option: 2 for option in ("epochs", "steps") if option in METHODS[name].options}
    loaded = fresh(random_llama)
    plan = replace(a_plan(loaded, curves=Curves((0.0, 0.3, 1.0))), method=method(name, **learning))
    for layer in solved_by(loaded, plan, tmp_path):
        own = plan.method.lam or 0.0  # 0 where there is no λ
        position = layer.curve.lams.index(own)
        report = layer.quantized.report
        assert layer.curve.recon[position] == np.float32(report.relative_recon)
        assert layer.curve.held_out[position] == np.float32(report.relative_held_out)
        assert layer.curve.drift[position] == np.float32(report.relative_drift)
        assert layer.curve.surface.shape == (len(layer.curve.lams), 40, 40)


@pytest.mark.parametrize(("name", "prefix"), [("gptq", "quantized"), ("gptq", "float"), ("gptaq", "quantized")])
def test_one_layer_alone_is_that_layer_after_a_float_model(random_llama, name, prefix):
    """Only one linear of the last block is quantized: it sees what the float model's blocks give it."""
    only = "model.layers.2.mlp.up_proj"
    loaded, original = fresh(random_llama), fresh(random_llama)
    loaded = replace(loaded, checkpoint=loaded.checkpoint.restricted(only))
    plan = a_plan(loaded, name, prefix, curves=Curves((0.0, 0.5) if name == "gptq" else ()))
    assert list(plan.grids) == [only]
    solved = solved_by(loaded, plan)
    assert [step.info.name for step in solved] == [only]
    inputs = inputs_of(original, [only], torch.from_numpy(plan.sequences.calibration.copy()))[only]
    # With a float prefix the shift of GPTAQ is nought, so that it is the plain solver's result.
    statistics = LayerStatistics.from_inputs(inputs, inputs if name == "gptaq" else None)
    expected = quantize_layer(original.weight(only), statistics, plan.grids[only], plan.method)
    torch.testing.assert_close(solved[0].quantized.dequantized, expected.dequantized, rtol=1e-5, atol=1e-6)
    for path, tensor in original.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[path], tensor) == (path != f"{only}.weight")
    with pytest.raises(Refused, match="no linear"):
        original.checkpoint.restricted("model.layers.9.mlp.up_proj")
