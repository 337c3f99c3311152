"""GGUF files as models: unpacked as transformers reads them, described by their headers, and refused in sentences."""

import json
import os
import shutil
import struct
import tracemalloc
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from sarqc import Recipe, execute
from sarqc.engine.plan import plan
from sarqc.errors import NoRoom, Refused
from sarqc.events import Finished, Stage
from sarqc.models import catalogue, gguf_header, gguf_unpacking
from sarqc.models.checkpoint import promised_checkpoint, read_checkpoint
from sarqc.models.gguf_header import gguf_file, read_header
from sarqc.models.gguf_model import gguf_model
from sarqc.models.hub import NotCached
from sarqc.models.origin import read_origin
from sarqc.settings import SITE, Settings
from sarqc.study.document import Study
from tests.models.cases import make_checkpoint
from tests.models.gguf_files import write_gguf

TINY = SITE / "assets" / "models" / "tiny-llama"
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "layer_types": None}


@pytest.fixture
def own_process() -> None:
    """Headers are read in a process of their own, as in the app."""


@pytest.fixture(autouse=True)
def this_process(request, monkeypatch):
    """Headers are read here, since many are."""
    if "own_process" not in request.fixturenames:
        monkeypatch.setattr(gguf_header, "answer_of", lambda _, request, **__: gguf_header.header(request))


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("llama")
    return make_checkpoint("llama", folder, TINY, **SIZES, num_key_value_heads=2)


@pytest.fixture(scope="module")
def llama_gguf(llama, tmp_path_factory) -> Path:
    return write_gguf(llama, tmp_path_factory.mktemp("gguf") / "llama.gguf", "Q4_1")


def described(path: Path):
    return gguf_model(path, path.name)


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        ("llama", "Q4_1"),
        ("llama", "Q4_0"),
        ("qwen2", "Q8_0"),
        ("qwen3", "F16"),
        ("qwen3_moe", "Q5_0"),
        ("qwen2", "F32"),
    ],
)
def test_a_file_is_unpacked_to_the_numbers_that_transformers_reads(case, kind, tmp_path):
    source = make_checkpoint(case, tmp_path / "source", TINY, **SIZES)
    path = write_gguf(source, tmp_path / "model.gguf", kind)
    gguf_unpacking.unpack(described(path), tmp_path / "unpacked")
    checkpoint = read_checkpoint(tmp_path / "unpacked")
    assert checkpoint.layers == read_checkpoint(source).layers
    ours = AutoModelForCausalLM.from_pretrained(tmp_path / "unpacked", dtype=torch.float32)
    # transformers' own table leaves out the width of heads and of experts.
    own = {"config": ours.config} if case.startswith("qwen3") else {}
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="model.gguf", dtype=torch.float32, **own)
    ids = torch.arange(40)[None] * 7 % 4096
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, theirs(ids).logits, rtol=0, atol=1e-5)
        if kind == "F32":
            original = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
            torch.testing.assert_close(ours(ids).logits, original(ids).logits, rtol=0, atol=1e-4)
    origin = read_origin(tmp_path / "unpacked", "")
    assert origin is not None
    assert origin.types[0] == kind
    assert bool(origin.words) == (kind not in ("F16", "F32"))


def test_its_header_alone_gives_the_plan_that_its_checkpoint_gives(llama_gguf, tmp_path):
    model = described(llama_gguf)
    promised = model.checkpoint(tmp_path)
    gguf_unpacking.unpack(model, tmp_path / "unpacked")
    unpacked = read_checkpoint(tmp_path / "unpacked")
    assert (promised.shapes, promised.dtypes, promised.tied) == (unpacked.shapes, unpacked.dtypes, unpacked.tied)
    assert promised.parameters == unpacked.parameters
    assert model.unpacked_bytes == unpacked.size_bytes


@pytest.mark.parametrize("kind", ["F16", "F32", "Q8_0"])
def test_its_config_alone_promises_the_bytes_of_its_weights(kind, llama, tmp_path):
    model = described(write_gguf(llama, tmp_path / "model.gguf", kind))
    assert model.config["dtype"] == ("float16" if kind == "F16" else "float32")
    linears = sum(shape[0] * shape[1] for shape in model.shapes.values() if len(shape) == 2)
    promised = promised_checkpoint("model", model.config)
    assert promised.size_bytes == pytest.approx(model.unpacked_bytes, rel=0.02)  # norms are F32 beside F16
    assert promised.size_bytes > linears * (2 if kind == "F16" else 4)


def test_a_piece_of_a_model_is_refused(llama, tmp_path):
    path = write_gguf(llama, tmp_path / "model-00001-of-00002.gguf", "F32")
    key = struct.pack("<Q", 11) + b"split.count" + struct.pack("<IH", 2, 2)
    content = path.read_bytes()
    count = struct.unpack_from("<Q", content, 16)[0] + 1
    path.write_bytes(content[:16] + struct.pack("<Q", count) + key + content[24:])
    with pytest.raises(Refused, match=r"is one of 2 pieces.*llama-gguf-split --merge"):
        described(path)


def test_positions_turned_as_in_llama3_are_recognised_by_their_factors(llama, tmp_path):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}  # fmt: skip
    source = make_checkpoint("llama", tmp_path / "source", TINY, **SIZES, head_dim=32, rope_parameters=rope)
    model = AutoModelForCausalLM.from_pretrained(source)
    turned, _ = ROPE_INIT_FUNCTIONS["llama3"](model.config, torch.device("cpu"))
    usual = 1 / 500000.0 ** (torch.arange(0, 32, 2) / 32)
    factors = {"rope_freqs.weight": (usual / turned).numpy()}
    path = write_gguf(source, tmp_path / "model.gguf", "F32", **factors)
    assert described(path).config["rope_parameters"] == rope
    path = write_gguf(source, tmp_path / "ones.gguf", "F32", **{"rope_freqs.weight": np.ones(16, dtype=np.float32)})
    assert described(path).config["rope_parameters"]["rope_type"] == "default"
    wrong = np.linspace(1, 3, 16, dtype=np.float32)
    with pytest.raises(Refused, match="an unsupported rotation of positions"):
        described(write_gguf(source, tmp_path / "wrong.gguf", "F32", **{"rope_freqs.weight": wrong}))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"fields": {"logit_scale": 2.0}}, "logit_scale is 2.0, which is not supported"),
        ({"fields": {"expert_count": 8}}, "expert_count is 8, which is not supported"),
        ({"fields": {"attention.sliding_window": 16}}, "attention.sliding_window is 16, which is not supported"),
        ({"fields": {"rope.scaling.type": "longrope"}}, "positions are scaled as 'longrope'"),
        ({"fields": {"attention.value_length": 16}}, "attention.value_length is 16, and a head has 8 channels"),
        (
            {"blk.0.attn_norm_2.weight": np.ones(64, dtype=np.float32)},
            r"attn_norm_2\.weight has no place in a model of",
        ),
    ],
)
def test_what_would_change_the_model_and_is_not_understood_is_refused(more, words, llama, tmp_path):
    with pytest.raises(Refused, match=words):
        described(write_gguf(llama, tmp_path / "model.gguf", **more))


def test_scaled_positions_are_taken_over(llama, tmp_path):
    fields = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
    said = described(write_gguf(llama, tmp_path / "model.gguf", fields=fields)).config["rope_parameters"]
    assert said == {"rope_theta": 10000.0, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


@pytest.mark.parametrize("kind", [None, "linear", "none"])
def test_a_factor_without_a_type_is_linear(kind, llama, tmp_path):
    fields = {"rope.scaling.factor": 4.0} | ({} if kind is None else {"rope.scaling.type": kind})
    said = described(write_gguf(llama, tmp_path / "model.gguf", fields=fields)).config["rope_parameters"]
    scaled = {"rope_type": "default"} if kind == "none" else {"rope_type": "linear", "factor": 4.0}
    assert said == {"rope_theta": 10000.0, **scaled}


def test_a_link_goes_by_its_own_name(llama_gguf, tmp_path):
    """As in the Hub's cache."""
    blob, folder = tmp_path / "models" / "blobs" / "blob", tmp_path / "models" / "snapshot"
    folder.mkdir(parents=True)
    blob.parent.mkdir()
    (folder / "model.gguf").symlink_to(blob)
    shutil.copy(llama_gguf, blob)
    host = Settings(state_dir=tmp_path / "state", model_dirs=f"{tmp_path}/models")
    for name in (str(folder / "model.gguf"), str(folder), "snapshot"):
        file = gguf_file(catalogue.local_folder(name, host))
        assert file.name == "model.gguf"
        assert gguf_model(file, "a").shapes == described(llama_gguf).shapes
    blob.rename(tmp_path / "blob")
    (folder / "model.gguf").unlink()
    (folder / "model.gguf").symlink_to(tmp_path / "blob")
    assert catalogue.declared_models(host) == {}  # it leads elsewhere


def test_adapters_and_vocabularies_are_said_to_be_no_models(tmp_path):
    import gguf

    for name, words in (("adapter", "of type “adapter”, and no model"), ("model", "a vocabulary alone")):
        writer = gguf.GGUFWriter(tmp_path / f"{name}.gguf", "llama")
        writer.add_type(name)
        if name == "adapter":
            writer.add_tensor("blk.0.attn_q.weight.lora_a", np.ones((4, 64), dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with pytest.raises(Refused, match=words) as error:
            described(tmp_path / f"{name}.gguf")
        assert "ownload" not in error.value.remedy


@pytest.mark.thorough
def test_a_declared_file_has_a_name_and_a_plan_that_says_what_it_is(llama_gguf, tmp_path):
    models, state = tmp_path / "models", tmp_path / "state"
    (models / "a-model").mkdir(parents=True)
    shutil.copy(llama_gguf, models / "a-model" / "weights-Q4_1.gguf")
    (models / "note.txt").write_text("no model")
    host = Settings(state_dir=state, model_dirs=str(models))
    entries = {entry.name: entry for entry in catalogue.offered(host)}
    assert entries["a-model"].family == "LLaMA, dense"
    assert entries["a-model"].suggested == {
        "model": "a-model",
        "length": 128,
        "group_size": 32,
    }  # of 64 and 96 channels
    assert set(catalogue.declared_models(host)) == {"a-model"}
    recipe = Recipe(model="a-model", bits=4, group_size=32, calibration="tiny-llama-calibration", samples=2, length=32)
    shown = plan(recipe, host)
    said = " · ".join(shown.warnings)
    assert "quantized before (Q4_1)" in said
    assert "the grid that these weights come from" in said
    assert "its weights are unpacked first" in said
    assert shown.parameters == read_checkpoint(make_checkpoint("llama", tmp_path / "same", TINY, **SIZES)).parameters
    tuned = recipe.model_copy(update={"kind": "tune", "method": "sarqc-gbs", "test": "tiny-llama-held-out"})
    before = plan(tuned, host).comparing
    assert before is not None
    assert any(budget.enough for budget in before.budgets)
    assert not (state / "unpacked").exists()
    with pytest.raises(NotCached):
        catalogue.checkpoint_of("a-model", None, host)
    checkpoint = catalogue.checkpoint_of("a-model", None, host, download=True)
    assert checkpoint.origin is not None
    assert len(list((state / "unpacked").iterdir())) == 1
    again = plan(recipe, host)
    assert "unpacked first" not in " ".join(again.warnings)
    assert "quantized before (Q4_1)" in " ".join(again.warnings)
    os.utime(models / "a-model" / "weights-Q4_1.gguf", ns=(1, 1))  # another file, as far as is known
    assert "unpacked first" in " ".join(plan(recipe, host).warnings)


def test_a_folder_with_several_models_and_a_disk_without_room_are_refused(llama_gguf, tmp_path, monkeypatch):
    for name in ("a.gguf", "b.gguf"):
        shutil.copy(llama_gguf, tmp_path / name)
    with pytest.raises(Refused, match="there are 2 GGUF files"):
        gguf_file(tmp_path)
    monkeypatch.setattr(gguf_unpacking, "free_bytes", lambda _: 1000)
    with pytest.raises(NoRoom, match="once unpacked"):
        gguf_unpacking.unpack(described(llama_gguf), tmp_path / "unpacked")
    assert not (tmp_path / "unpacked").exists()


@pytest.mark.thorough
def test_what_breaks_off_leaves_nothing(llama_gguf, tmp_path, monkeypatch):
    def breaks(*_: object, **__: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr(gguf_unpacking, "write_weights", breaks)
    with pytest.raises(OSError, match="no room"):
        gguf_unpacking.unpack(described(llama_gguf), tmp_path / "unpacked" / "model")
    assert list((tmp_path / "unpacked").iterdir()) == []


@pytest.mark.thorough
def test_what_an_ended_process_left_goes_with_the_next_model(llama_gguf, tmp_path):
    left = tmp_path / f".unpacking-{2**22 + 1}-abc"  # no process has such a number
    left.mkdir()
    at_work = tmp_path / f".unpacking-{os.getpid()}-abc"
    at_work.mkdir()
    gguf_unpacking.unpack(described(llama_gguf), tmp_path / "model")
    assert not left.exists()
    assert at_work.exists()


def test_an_unknown_split_of_texts_is_refused(llama, tmp_path):
    path = write_gguf(llama, tmp_path / "model.gguf")
    path.write_bytes(path.read_bytes().replace(b"\x06\0\0\0\0\0\0\0smollm", b"\x06\0\0\0\0\0\0\0others"))
    with pytest.raises(Refused, match="in the way of 'others'"):
        gguf_unpacking.unpack(described(path), tmp_path / "unpacked")


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(data, llama_gguf, tmp_path):
    content = bytearray(llama_gguf.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, 2000) | st.integers(0, len(content) - 9))
        layout, value = data.draw(st.sampled_from([("<B", 255), ("<I", 2**32 - 1), ("<Q", 2**64 - 1), ("<Q", 2**40),
                                                   ("<I", 9), ("<I", 8), ("<B", 0), ("<Q", 0)]))  # fmt: skip
        struct.pack_into(layout, content, place, value)
    cut = data.draw(st.none() | st.integers(0, len(content)))
    path = tmp_path / "damaged.gguf"
    path.write_bytes(content[:cut])
    with suppress(Refused):
        gguf_model(path, "damaged")


def test_claims_of_a_file_take_no_memory(llama_gguf, tmp_path):
    """Counts as large as the bounds allow and larger, and a terabyte of nothing behind a sound beginning."""
    path = tmp_path / "damaged.gguf"
    tracemalloc.start()
    for kind, count, tensors in product([8, 9, 4, 12], [2**20, 2**20 + 1, 2**24, 2**34], [0, 2**16, 2**17]):
        listed = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, kind, count)
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, tensors, 1) + listed)
        with pytest.raises(Refused):
            gguf_model(path, "damaged")
    with path.open("wb") as file:
        file.write(llama_gguf.read_bytes()[:400])
        file.truncate(1 << 40)
    with pytest.raises(Refused):
        gguf_model(path, "damaged")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 100 << 20


@pytest.mark.usefixtures("own_process")
def test_gigabytes_of_texts_take_no_memory(llama_gguf, tmp_path):
    """A refusal is remembered until the file changes."""
    content, path = llama_gguf.read_bytes(), tmp_path / "model.gguf"
    text = struct.pack("<IQ", 8, 1 << 20) + bytes(1 << 20)
    texts = b"".join(struct.pack("<Q", 5) + b"k%04d" % number + text for number in range(200))
    count = struct.unpack_from("<Q", content, 16)[0] + 200
    path.write_bytes(content[:16] + struct.pack("<Q", count) + texts + content[24:])
    tracemalloc.start()
    for _ in range(2):
        with pytest.raises(Refused, match="its header has more than 128 MiB"):
            gguf_model(path, "hostile")
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()


def test_experts_by_the_million_are_refused():
    config = {
        "model_type": "mixtral", "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 4, "vocab_size": 64, "num_hidden_layers": 1024, "num_local_experts": 1024,
    }  # fmt: skip
    with pytest.raises(Refused, match="1,048,576 experts in all its blocks"):
        promised_checkpoint("somebody/model", config)


def test_pickles_and_others_in_disguise_are_no_models(tmp_path):
    path, key = tmp_path / "model.gguf", struct.pack("<Q", 1) + b"a"
    for content, words in (
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1 is not read"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, 9, 4), "a list of lists"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60), "claims"),
        (b"\x80\x04\x95", "does not begin as GGUF files do"),
    ):
        path.write_bytes(content)
        with pytest.raises(Refused, match=words):
            read_header(path, "damaged")
    assert gguf_file(path) is None


def test_the_origin_of_a_damaged_note_is_refused(llama, tmp_path):
    folder = shutil.copytree(llama, tmp_path / "model")
    (folder / "sarqc-origin.json").write_text(json.dumps({"files": 3}))
    with pytest.raises(Refused, match=r"sarqc-origin.json: 'types' is missing|sarqc-origin.json: files is 3"):
        read_checkpoint(folder)


@pytest.mark.thorough
def test_a_run_unpacks_it_first_and_its_study_and_its_card_say_what_it_is(llama_gguf, tmp_path):
    host = Settings(state_dir=tmp_path / "state", device="cpu")
    recipe = Recipe(
        model=str(llama_gguf), bits=3, group_size=32, method="rtn", blocks=(0,), calibration="tiny-llama-calibration",
        samples=2, length=32, test="tiny-llama-held-out", test_tokens=200, window=64, baseline=False,
    )  # fmt: skip
    events = list(
        execute(recipe, host, study_dir=tmp_path / "studies", study_id="one", checkpoint_dir=tmp_path / "model")
    )
    stages = [event.name for event in events if isinstance(event, Stage)]
    assert stages[0] == "unpacking"
    (finished,) = (event for event in events if isinstance(event, Finished))
    words = "the weights come from a GGUF file that was quantized before (Q4_1)"
    assert finished.summary["protocol"]["weights"].startswith(words)
    assert Study.open(tmp_path / "studies" / "one").protocol["weights"].startswith(words)
    assert words[1:] in (tmp_path / "model" / "README.md").read_text()
    again = list(execute(recipe, host, study_dir=tmp_path / "studies", study_id="two"))
    assert "unpacking" not in [event.name for event in again if isinstance(event, Stage)]
