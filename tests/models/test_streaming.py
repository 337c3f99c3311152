"""A streamed model is the model: the same bits everywhere, and memory that does not grow with the number of blocks."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from sarqc import Recipe, execute, method
from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.checkpoints.plain import save_plain, stored_tensors
from sarqc.engine import costs
from sarqc.engine import costs as host
from sarqc.engine.keys import describe, layer_keys, model_fingerprint
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import Finished, LayerDone, Saved, Warned
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.models.weight_files import write_weights
from tests.calibration.test_pipeline import a_plan, fresh
from tests.models.cases import make_checkpoint

CASES = ["qwen3_moe, one block dense", "qwen2, windows"]
IDS = torch.arange(60).reshape(2, 30) * 37 % 4096


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> dict[str, Path]:
    return {name: make_checkpoint(name, tmp_path_factory.mktemp("streamed"), tiny_llama) for name in CASES}


def streamed(folder: Path, scratch: Path) -> LoadedModel:
    return load(read_checkpoint(folder), torch.device("cpu"), scratch=scratch)


def held(loaded: LoadedModel) -> int:
    """Blocks whose weights are in memory."""
    return sum(not any(part.is_meta for part in block.parameters()) for block in loaded.blocks())


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
def test_filled_from_files_as_transformers_loads_them(folders, tmp_path, name):
    reference = AutoModelForCausalLM.from_pretrained(folders[name], dtype=torch.float32, attn_implementation="sdpa")
    whole, parts = fresh(folders[name]), streamed(folders[name], tmp_path)
    assert whole.model.state_dict().keys() == reference.state_dict().keys()
    for path, tensor in reference.state_dict().items():
        assert torch.equal(whole.model.state_dict()[path], tensor), path
    buffers = dict(whole.model.named_buffers())
    assert all(torch.equal(buffers[path], buffer) for path, buffer in reference.named_buffers())
    with torch.no_grad():
        expected = reference(IDS).logits
        assert torch.equal(whole.model(IDS).logits, expected)
        assert held(parts) == 0
        assert torch.equal(parts.model(IDS).logits, expected)
        assert held(parts) == 0
        for model in (reference, parts.model):
            model.generation_config.pad_token_id = 0
        generated = [
            model.generate(IDS[:1, :5], max_new_tokens=4, do_sample=False) for model in (reference, parts.model)
        ]
    assert torch.equal(*generated)
    assert model_fingerprint(parts) == model_fingerprint(whole)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "method_name", "choices"),
    [
        ("qwen3_moe, one block dense", "sarqc-gptaq", {}),
        ("qwen2, windows", "awq", {"mode": "foldable"}),
        ("qwen3_moe, one block dense", "awq", {"mode": "foldable"}),
        ("qwen2, windows", "omniquant", {"epochs": 1}),
    ],
)
def test_calibrated_to_the_same_bits(folders, tmp_path, name, method_name, choices):
    whole, parts = fresh(folders[name]), streamed(folders[name], tmp_path / "scratch")
    float_weights = {path: tensor.clone() for path, tensor in stored_tensors(whole)}
    state = parts.weights()
    reports = []
    for loaded in (whole, parts):
        chosen = replace(a_plan(loaded), method=method(method_name, **choices))
        keys = layer_keys(describe(loaded), chosen)
        solved = [step for step in calibrate(loaded, chosen, None, keys) if isinstance(step, SolvedLayer)]
        reports.append([(layer.info.name, layer.quantized.report, keys[layer.info.name]) for layer in solved])
    assert reports[0] == reports[1]
    ids = np.arange(400) * 31 % 4096
    one, other = (measure_perplexity(loaded, ids, "numbers", 40) for loaded in (whole, parts))
    assert other.value == pytest.approx(one.value, rel=1e-5)
    assert other.protocol == one.protocol
    save_plain(whole, tmp_path / "whole")
    save_plain(parts, tmp_path / "parts")
    files = [load_file(tmp_path / which / "model.safetensors") for which in ("whole", "parts")]
    assert files[0].keys() == files[1].keys() == float_weights.keys()
    assert all(torch.equal(files[0][path], files[1][path]) for path in files[0])
    assert any(not torch.equal(files[0][path], float_weights[path]) for path in files[0])
    assert len(list((tmp_path / "scratch").rglob("*.safetensors"))) == 3  # one for each block that was changed
    parts.restore(state)
    assert all(torch.equal(tensor, float_weights[path]) for path, tensor in stored_tensors(parts))
    assert held(parts) == 0


def test_what_processes_leave_behind_is_removed(folders, tmp_path):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    abandoned, others = (tmp_path / f"blocks-{pid}-x" for pid in (int(dead.stdout), os.getppid()))
    abandoned.mkdir()
    others.mkdir()
    loaded = streamed(folders["qwen2, windows"], tmp_path)
    assert not abandoned.exists()
    assert others.exists()
    assert len(list(tmp_path.iterdir())) == 2
    del loaded
    assert list(tmp_path.iterdir()) == [others]


def test_a_large_checkpoint_is_several_files(folders, tmp_path, tiny_llama):
    loaded = fresh(folders["qwen2, windows"])
    save_plain(loaded, tmp_path / "one")
    (tmp_path / "one" / "model.safetensors").unlink()
    write_weights(tmp_path / "one", stored_tensors(loaded), shard_bytes=40_000)
    files = sorted(path.name for path in (tmp_path / "one").glob("*.safetensors"))
    assert len(files) > 3
    assert files[-1] == f"model-{len(files):05}-of-{len(files):05}.safetensors"
    index = json.loads((tmp_path / "one" / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == loaded.checkpoint.size_bytes
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "one", dtype=torch.float32)
    with torch.no_grad():
        assert torch.equal(again(IDS).logits, loaded.model(IDS).logits)
    assert fresh(tmp_path / "one").checkpoint.shapes == loaded.checkpoint.shapes


@pytest.fixture
def recipe(random_llama: Path, text_file: Path) -> Callable[..., Recipe]:
    base = {
        "model": str(random_llama), "bits": 3, "grid": "symmetric", "group_size": 16, "method": "gptq",
        "calibration": str(text_file), "samples": 4, "length": 32, "test": str(text_file), "window": 32,
        "test_tokens": 320, "baseline": False,
    }  # fmt: skip
    return lambda **changes: Recipe.parse(base | changes)


@pytest.mark.thorough
def test_a_run_that_has_no_room_streams_and_says_so(recipe, fresh_settings, tmp_path):
    asked = recipe()
    forced = fresh_settings.model_copy(update={"weights": "streamed"})
    whole, parts = plan(asked, fresh_settings), plan(asked, forced)
    assert (whole.streamed, parts.streamed) == (False, True)
    assert parts.memory_bytes < whole.memory_bytes
    between = (parts.memory_bytes + whole.memory_bytes) / 2 / 2**30
    narrow = fresh_settings.model_copy(update={"memory_gib": between})
    assert plan(asked, narrow).streamed
    events = list(execute(asked, narrow, checkpoint_dir=tmp_path / "model", checkpoint_format="packed"))
    assert any("block by block" in event.what for event in events if isinstance(event, Warned))
    assert any(event.what == "checkpoint" for event in events if isinstance(event, Saved))
    again = list(execute(asked, fresh_settings.model_copy(update={"state_dir": tmp_path / "other"})))
    summaries = [done.summary for done in (events[-1], again[-1]) if isinstance(done, Finished)]
    reports = [[event.report for event in all_of if isinstance(event, LayerDone)] for all_of in (events, again)]
    assert reports[0] == reports[1] != []
    assert summaries[0]["perplexity"] == pytest.approx(summaries[1]["perplexity"], rel=1e-5)
    assert list(narrow.scratch_dir().iterdir()) == []  # gone with the run


def test_refused_with_numbers(recipe, fresh_settings):
    small = fresh_settings.model_copy(update={"memory_gib": 0.01})
    with pytest.raises(Refused, match=r"needs [\d.]+ GiB even block by block, and 0\.01 GiB are free"):
        plan(recipe(), small)
    needed = plan(recipe(), fresh_settings).memory_bytes / 2**30
    resident = fresh_settings.model_copy(update={"memory_gib": needed - 0.001, "weights": "resident"})
    with pytest.raises(Refused, match="GiB are free") as caught:
        plan(recipe(), resident)
    assert "SARQC_WEIGHTS" in caught.value.remedy
    assert not fresh_settings.resolved_state_dir().exists()
    assert 2**28 < host.free_bytes(fresh_settings) < 2**50


# Anonymous memory only: pages of mapped files are the kernel's to keep or to drop. Each run has a process of its own,
# forked when everything is imported, and an allocator that gives back what is freed.
PEAK = """
import json, os, sys, threading, time
from pathlib import Path
import torch
torch.set_num_threads(1)
from sarqc.settings import Settings
from sarqc.recipe import Recipe
from sarqc.engine.execute import execute, warm_up
warm_up()

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

def run(recipe, state, weights):
    settings = Settings(state_dir=Path(state), weights=weights, device="cpu", sweep_gib=0.01)
    peak, before, going = 0, anonymous(), True
    def watch():
        nonlocal peak
        while going:
            peak = max(peak, anonymous())
            time.sleep(0.002)
    watcher = threading.Thread(target=watch)
    watcher.start()
    list(execute(Recipe.parse(recipe), settings))
    going = False
    watcher.join()
    print(peak - before, flush=True)

for job in json.loads(sys.argv[1]):
    process = os.fork()
    if process == 0:
        run(*job)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
"""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_peak_is_that_of_a_block_whatever_the_depth(tiny_llama, text_file, tmp_path):
    """Models of 4 and 44 blocks: streamed, their runs need the same memory; resident, it grows by the blocks.

    A peak is the largest of many samples, of which a busy host takes few; so the limits leave room on both sides.
    """
    block_bytes = 4 * (4 * 192 * 192 + 3 * 192 * 512)
    jobs = []
    for blocks in (4, 44):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=4096, hidden_size=192, intermediate_size=512, num_hidden_layers=blocks, num_attention_heads=4,
            num_key_value_heads=4, max_position_embeddings=128, tie_word_embeddings=True,
        )  # fmt: skip
        folder = tmp_path / f"blocks-{blocks}"
        AutoModelForCausalLM.from_config(config, dtype=torch.float16).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tiny_llama).save_pretrained(folder)
        recipe = {
            "model": str(folder), "bits": 4, "grid": "symmetric", "group_size": 64, "method": "rtn",
            "calibration": str(text_file), "samples": 2, "length": 64, "test": str(text_file), "test_tokens": 128,
            "window": 64, "baseline": False,
        }  # fmt: skip
        jobs += [(recipe, str(tmp_path / f"{weights}-{blocks}"), weights) for weights in ("streamed", "resident")]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PEAK, json.dumps(jobs)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counts = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    peaks = dict(zip([(weights, int(state.rsplit("-")[-1])) for _, state, weights in jobs], counts, strict=True))
    depth = 40 * block_bytes  # what 44 blocks have more than 4
    assert peaks["resident", 44] - peaks["resident", 4] > 0.7 * depth
    assert peaks["streamed", 44] - peaks["streamed", 4] < 0.4 * depth
    checkpoint = read_checkpoint(tmp_path / "blocks-44")
    for weights in ("streamed", "resident"):  # what the plan says is enough, and not wildly more
        work = costs.work_of(Recipe.parse(recipe), checkpoint, test_tokens=128)
        said = costs.memory_bytes(work, 10**7, on_processor=True, streamed=weights == "streamed")
        assert peaks[weights, 44] < said < peaks[weights, 44] + 2**30 + 2**28
