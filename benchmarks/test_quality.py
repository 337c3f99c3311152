"""What can be wrong with the comparison of engines: dequantizers, kept results, paired numbers, rows."""

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.numpy import load_file
from scipy.stats import ttest_rel

from benchmarks.quality.__main__ import missing
from benchmarks.quality.contenders import ENGINES, Engine
from benchmarks.quality.dequantize import (
    FORMATS,
    from_compressed_tensors,
    from_gptq,
    from_gptq_v2,
    levels,
    unpacked,
)
from benchmarks.quality.engines import engine_job, run_sarqc
from benchmarks.quality.evaluate import Evaluator
from benchmarks.quality.jobs import Job, _environment, run_job
from benchmarks.quality.results import Cell, Result, read_all, take_over
from benchmarks.quality.same_codes import agreement, of_llmcompressor, of_sarqc
from benchmarks.quality.table import difference, page, summarised, table_of
from sarqc.calibration.corpora import Sequences
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.families import LayerInfo
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.grid import Grid
from tests.checkpoints.foreign import in_words, less_one
from tests.oracles import round_to_nearest

ROOT = Path(__file__).resolve().parents[1]
PROTOCOL = {"calibration": "text", "samples": 8}


def packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    return in_words(numbers, bits).numpy()


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_numbers_that_lie_across_two_words_are_unpacked(bits, random):
    numbers = random.integers(0, 1 << bits, (5, 37))
    assert np.array_equal(unpacked(packed(numbers, bits), bits, 37), numbers)


@pytest.mark.parametrize("bits", [2, 3, 4])
def test_compressed_tensors_hold_signed_codes_and_zero_points(bits, random):
    half, scales = 1 << (bits - 1), random.random((6, 2)).astype(np.float32)
    codes, zeros = random.integers(-half, half, (6, 64)), random.integers(-half, half, (6, 2))
    tensors = {
        "up.weight_packed": packed(codes + half, bits), "up.weight_scale": scales,
        "up.weight_zero_point": packed((zeros + half).T, bits).T, "up.weight_shape": np.array([6, 64]),
    }  # fmt: skip
    expected = np.stack([(codes[:, i] - zeros[:, i // 32]) * scales[:, i // 32] for i in range(64)], axis=1)
    assert np.allclose(from_compressed_tensors(tensors, "up", bits), expected, rtol=1e-6)


@pytest.mark.parametrize("less", [0, 1])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_gptq_files_hold_zero_points_less_one_or_as_they_are_and_the_group_of_each_channel(bits, less, random):
    most, scales = (1 << bits) - 1, random.random((32, 2)).astype(np.float16)
    codes, zeros = random.integers(0, most + 1, (32, 64)), random.integers(0, most + 1, (32, 2))
    groups = random.permutation(np.repeat([0, 1], 32))
    stored = less_one(zeros.T, bits).numpy() if less else packed(zeros.T, bits)
    tensors = {
        "up.qweight": packed(codes, bits).T, "up.qzeros": stored, "up.scales": scales.T,
        "up.g_idx": groups.astype(np.int32),
    }  # fmt: skip
    wide = scales.astype(np.float32)
    expected = np.stack([(codes[:, i] - zeros[:, g]) * wide[:, g] for i, g in enumerate(groups)], axis=1)
    assert np.array_equal((from_gptq if less else from_gptq_v2)(tensors, "up", bits), expected)


def test_groups_are_equal_parts_of_a_row():
    found = levels(np.array([[0, 1, 2, 3]]), np.array([[1.0, 10.0]]), np.array([[1, 2]]))
    assert found.tolist() == [[-1, 0, 0, 10]]


def result(perplexity: float, seconds: float = 1.0, **changed: object) -> Result:
    given = {"protocol": PROTOCOL, "versions": {"torch": "2"}, "perplexity": perplexity, "kl": 0.1, "same_top": 0.5}
    return Result(**given | {"seconds": seconds, "wall": seconds} | changed)


def cell(draw: int, contender: str) -> Cell:
    return Cell("tiny", 2, draw, contender)


def test_results_are_read_as_they_were_written(tmp_path):
    written = {cell(draw, name): result(70.0 + draw) for draw in range(2) for name in ("gptq", "auto-round-light")}
    for where, one in written.items():
        one.write(where.path(tmp_path))
    (tmp_path / "results" / "tiny" / "w2-draw1-gptq.partial").write_text("{")  # of a run that was stopped
    assert read_all(tmp_path) == written


def rows_of(results: dict[Cell, Result]) -> dict[str, str]:
    """The table's rows without their heading, by the title that each begins with."""
    lines = table_of(summarised(results)["models"]["tiny"]["widths"]["2"]).splitlines()[2:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def test_differences_and_ratios_are_of_the_same_draws():
    perplexities = {"gptq": (80.0, 90.0, 100.0), "auto-round": (79.0, 88.0, 97.0), "gptqmodel": (79.0, 89.1, 99.1)}
    results = {
        cell(draw, name): result(value, seconds=4.0 if name == "auto-round" else 1.0)
        for name, values in perplexities.items()
        for draw, value in enumerate(values)
    }
    results[cell(1, "rqc-everything")] = result(85.0, seconds=2.0)
    rows = rows_of(results)

    def paired(name: str, other: str) -> str:
        """By ratio: t intervals of the paired logarithms, at the other's geometric mean."""
        ours, theirs = (np.log(perplexities[key]) for key in (name, other))
        ends = ttest_rel(ours, theirs).confidence_interval()
        mean, low, high = np.exp(theirs.mean()) * np.expm1([(ours - theirs).mean(), *ends])
        text = f"{'+' if mean > 0 else ''}{mean:.2f} ({low:.2f} to {high:.2f})".replace("-", "−")
        return text + (", better" if high < 0 else ", worse" if low > 0 else "")

    of_gptq = f"| 89.63 (10.00) | – | {paired('gptq', 'auto-round')} | 0.1000 | 1.00 × | 0.25 × |"
    assert of_gptq in rows["sarqc: GPTQ 1 %"]
    assert f"| {paired('auto-round', 'gptq')} | – |" in rows["AutoRound: default, 200 iterations"]
    assert f"| {paired('gptqmodel', 'gptq')} |" in rows["GPTQModel: GPTQ, its default"]
    assert "| 85.00, 1 of 3 draws | −5.00 | −3.00 |" in rows["sarqc: GPTQ + identity penalty, everything on"]
    assert rows["sarqc: GPTQ + identity penalty, everything on"].endswith("| 2.00 × | 0.50 × |")


def test_a_difference_of_divergences_is_paired_as_well():
    ours, theirs = ({"kl": values} for values in ([0.11, 0.12, None], [0.1, 0.1, 0.3]))
    assert difference(ours, theirs, "kl", 4) == "+0.0150 (−0.0485 to 0.0785)"
    assert difference(theirs, ours, "kl", 4) == "−0.0150 (−0.0785 to 0.0485)"


def test_an_engine_that_gives_nothing_has_a_row_that_says_why():
    results = {cell(0, "gptq"): result(80.0), cell(0, "gptqmodel"): Result(PROTOCOL, {}, failed="widths of 172 | 64")}
    rows = rows_of(results)
    assert "gave no weights: widths of 172 \\| 64" in rows["GPTQModel: GPTQ, its default"]
    assert "| 80.00 | – | – |" in rows["sarqc: GPTQ 1 %"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"protocol": {"calibration": "other"}}, "different protocols"), ({"versions": {"torch": "3"}}, "others with")],
)
def test_results_of_other_tokens_or_versions_are_not_mixed(changed, words):
    with pytest.raises(ValueError, match=words):
        summarised({cell(0, "gptq"): result(80.0), cell(1, "gptq"): result(81.0, **changed)})


def test_every_width_of_a_model_has_its_table():
    text = page(summarised({Cell("tiny", bits, 0, "gptq"): result(80.0) for bits in (2, 3)}))
    assert text.count("sarqc: GPTQ 1 %") == 2
    assert "### tiny, 3 bits" in text


@pytest.fixture(scope="module")
def loaded(random_llama: Path) -> LoadedModel:
    return load(read_checkpoint(random_llama, "random-llama"), torch.device("cpu"))


IDS = np.random.default_rng(1).integers(0, 4096, 200)


@pytest.mark.thorough
def test_the_float_weights_lose_nothing_and_other_weights_leave_no_trace(loaded):
    evaluator = Evaluator(loaded, IDS, 32)
    weights = {layer.name: loaded.weight(layer.name).numpy().copy() for layer in loaded.checkpoint.layers}
    worse = evaluator.measure(lambda name: 0.5 * weights[name])
    same = evaluator.measure(weights.__getitem__)
    expected = measure_perplexity(loaded, IDS, "text", 32).value
    assert evaluator.predicted_tokens == 6 * 31
    assert same.perplexity == pytest.approx(expected, rel=1e-6)
    assert evaluator.float_perplexity() == pytest.approx(expected, rel=1e-6)
    assert (same.kl, same.same_top) == (pytest.approx(0, abs=1e-7), 1.0)
    assert worse.kl > 0.1
    assert worse.perplexity != pytest.approx(expected, rel=1e-3)


def test_the_divergence_is_that_of_pytorch_over_all_predicted_tokens(loaded):
    weights = {layer.name: loaded.weight(layer.name).numpy().copy() for layer in loaded.checkpoint.layers}
    found = Evaluator(loaded, IDS, 32).measure(lambda name: 0.5 * weights[name])
    windows = torch.from_numpy(IDS[:192]).reshape(6, 32)
    of_float = loaded.model(windows).logits[:, :-1]
    for name in weights:
        loaded.weight(name).mul_(0.5)
    of_changed = loaded.model(windows).logits[:, :-1]
    for name, weight in weights.items():
        loaded.weight(name).copy_(torch.from_numpy(weight))
    parts = [part.double().log_softmax(-1).flatten(0, 1) for part in (of_changed, of_float)]
    expected = torch.nn.functional.kl_div(*parts, reduction="batchmean", log_target=True)
    assert found.kl == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.thorough
def test_our_own_script_leaves_what_its_method_gives(random_llama, loaded, tmp_path):
    job = {"model": str(random_llama), "bits": 3, "group_size": 16, "settings": {"method": "rtn"}, "device": "cpu"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    np.save(tmp_path / "tokens.npy", IDS[:64].reshape(2, 32))
    run_sarqc.main(tmp_path)
    said = json.loads((tmp_path / "done.json").read_text())
    tensors = load_file(tmp_path / said["weights"])
    name = "model.layers.1.mlp.down_proj"
    expected = round_to_nearest(loaded.weight(name).numpy(), 3, 16, "asymmetric")
    assert np.allclose(FORMATS[said["format"]](tensors, name, 3), expected.dequantized, rtol=1e-5)
    assert said["costs"]["processor"] > 0


@pytest.mark.parametrize("grid", ["asymmetric", "affine"])
def test_our_own_script_distils_scales(random_llama, loaded, tmp_path, grid):
    """Codes are those without distillation; weights are the script's numbers, by its format's definition."""
    name, found = "model.layers.1.mlp.down_proj", {}
    for epochs in (0, 2):
        folder = tmp_path / str(epochs)
        folder.mkdir()
        settings = {"method": "sarqc-gbs", "grid": grid, "distill": epochs}
        job = {"model": str(random_llama), "bits": 2, "group_size": 16, "settings": settings, "device": "cpu"}
        (folder / "job.json").write_text(json.dumps(job))
        np.save(folder / "tokens.npy", IDS[:128].reshape(4, 32))
        np.save(folder / "held_out.npy", IDS[128:192].reshape(2, 32))
        run_sarqc.main(folder)
        said = json.loads((folder / "done.json").read_text())
        found[epochs] = load_file(folder / said["weights"])
    assert np.array_equal(found[0][f"{name}.codes"], found[2][f"{name}.codes"])
    weight = FORMATS["parts"](found[2], name, 2)
    error = np.linalg.norm(weight - loaded.weight(name).numpy()) / np.linalg.norm(loaded.weight(name).numpy())
    assert error < 0.7, "it approximates the weight"


@pytest.mark.thorough
def test_what_scripts_share_is_there_without_this_repository():
    """As an engine's interpreter finds it: beside the script."""
    probe = "import sys; sys.path.insert(0, sys.argv[1]); import engine_job; print(*sys.modules)"
    command = [sys.executable, "-I", "-c", probe, str(Path(engine_job.__file__).parent)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "engine_job" in loaded
    assert not {"sarqc", "tests", "torch"} & {*loaded}


def test_weights_are_one_file_wherever_an_engine_puts_it(tmp_path):
    (tmp_path / "checkpoint" / "inner").mkdir(parents=True)
    (tmp_path / "checkpoint" / "inner" / "model.safetensors").touch()
    (tmp_path / "scratch.safetensors").touch()  # of the engine itself
    with engine_job.measured() as costs:
        assert costs == {}
    engine_job.write_done(tmp_path, "gptq", costs, engine_job.versions_of(["numpy"]))
    said = json.loads((tmp_path / "done.json").read_text())
    assert said["weights"] == "checkpoint/inner/model.safetensors"
    assert said["versions"] == {"numpy": np.__version__}
    assert set(said["costs"]) == {"wall", "processor", "peak_bytes"}
    assert psutil.Process().memory_info().rss / 2 < costs["peak_bytes"] < psutil.virtual_memory().total
    (tmp_path / "checkpoint" / "more.safetensors").touch()
    with pytest.raises(ValueError, match="too many"):
        engine_job.write_done(tmp_path, "gptq", costs, {})


def test_only_what_is_not_kept_is_run(tmp_path):
    given = Namespace(
        folder=tmp_path, model="tiny", bits=[2, 3], draws=2, first_draw=0, contenders=["gptq", "auto-round"]
    )  # fmt: skip
    cells = list(missing(given))
    assert len(cells) == 8
    assert [cell.contender for cell in cells[:4]] == ["gptq", "auto-round"] * 2  # engines alternate within a draw
    result(80.0).write(cells[1].path(tmp_path))
    Result(PROTOCOL, {}, failed="no").write(cells[5].path(tmp_path))
    assert list(missing(given)) == [cells[number] for number in (0, 2, 3, 4, 6, 7)]


def test_processes_of_one_folder_have_draws_of_their_own(tmp_path):
    given = {"folder": tmp_path, "model": "tiny", "bits": [2, 3], "contenders": ["gptq", "auto-round"]}
    whole, *parts = (
        list(missing(Namespace(**given, draws=draws, first_draw=first))) for draws, first in ((5, 0), (2, 0), (3, 2))
    )  # fmt: skip
    assert sorted(map(str, whole)) == sorted(str(cell) for part in parts for cell in part)


def test_a_job_for_the_processor_sees_no_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    of_device = {device: _environment(Job("auto-round", ROOT, 2, 128, {}, device), 3) for device in ("cpu", "cuda")}
    assert {device: found["CUDA_VISIBLE_DEVICES"] for device, found in of_device.items()} == {"cpu": "", "cuda": "0"}
    assert {found["OMP_NUM_THREADS"] for found in of_device.values()} == {"3"}


@pytest.mark.parametrize(("device", "seconds"), [("cpu", 2.0), ("cuda", 3.0)])
def test_seconds_are_of_the_processor_or_of_a_gpu_on_the_wall(device, seconds, tmp_path, monkeypatch):
    """With an engine that this interpreter runs, in an environment that is not made."""
    script = tmp_path / "engine.py"
    script.write_text(
        "import sys, pathlib, numpy, safetensors.numpy\n"
        f"sys.path.insert(0, {str(Path(engine_job.__file__).parent)!r})\n"
        "from engine_job import read_job, write_done\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "job, tokens = read_job(folder)\n"
        "(folder / 'checkpoint').mkdir()\n"
        "safetensors.numpy.save_file({job['device']: tokens}, folder / 'checkpoint' / 'weights.safetensors')\n"
        "costs = {'processor': 2.0, 'wall': 3.0, 'peak_bytes': 5}\n"
        "write_done(folder, 'parts', costs, {})\n"
    )
    monkeypatch.setitem(ENGINES, "auto-round", Engine(str(script), ("not-a-package==0",)))
    tokens = Sequences(IDS[:64].reshape(2, 32), IDS[64:96].reshape(1, 32), protocol={})
    left = run_job(Job("auto-round", tmp_path, 2, 128, {}, device), tokens, tmp_path, 1, here=True)
    assert (left.seconds, left.wall, left.peak_bytes) == (seconds, 3.0, 5)
    assert np.array_equal(left.tensors[device], tokens.calibration)
    assert not (tmp_path / "env-auto-round").exists()


def test_a_comparison_goes_on_from_its_document(tmp_path):
    """What a document says again, once its results are under a folder; results that are there stay."""
    document = json.loads((ROOT / "docs" / "engines.json").read_text(encoding="utf-8"))
    kept = Cell("tiny-llama", 2, 0, "gptq").path(tmp_path)
    own = Result(document["models"]["tiny-llama"]["protocol"], document["versions"]["sarqc"], perplexity=1.0)
    own.write(kept)
    take_over(document, tmp_path)
    assert Result.read(kept) == own
    kept.unlink()
    take_over(document, tmp_path)
    again = summarised(read_all(tmp_path))
    assert again["models"] == {name: found for name, found in document["models"].items() if "host" not in found}
    assert again["versions"] == document["versions"]


def test_codes_of_both_are_unsigned_and_compared_by_layer_row_and_block(random):
    layers = [LayerInfo(name=name, block=block, module="up", shape=(4, 32)) for block, name in enumerate(("a", "b"))]
    grid, codes = Grid(2, 16, "full_range"), {name: random.integers(-2, 2, (4, 32)) for name in "ab"}
    other = {name: part.copy() for name, part in codes.items()}
    other["b"][1, 3:5] = -codes["b"][1, 3:5] - 1  # another code of the four
    theirs = {f"{name}.weight_packed": packed(part + 2, 2) for name, part in other.items()}
    theirs |= {f"{name}.weight_shape": np.array([4, 32]) for name in other}
    found = agreement(
        of_sarqc({f"{name}.codes": part for name, part in codes.items()}, ["a", "b"], grid),
        of_llmcompressor(theirs, ["a", "b"], 2), layers,
    )  # fmt: skip
    assert found == {
        "share": 254 / 256, "worst_layer": "b", "share_of_worst": 126 / 128, "blocks": [1.0, 0.9844],
        "layers": 2, "whole_layers": 1, "rows": 8, "rows_apart": 1,
    }  # fmt: skip
