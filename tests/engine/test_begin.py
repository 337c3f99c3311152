"""Sequences and test windows begin with what a model's tokenizer puts before a text, or not, as the recipe says."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc.calibration.corpora import Sequences, Text, draw_sequences
from sarqc.engine.plan import prepare
from sarqc.errors import Refused
from sarqc.events import Warned
from sarqc.extras.engines.program import token_lines
from sarqc.extras.survey.conduct import conduct
from sarqc.extras.survey.schema import Survey
from sarqc.extras.verify.checks import VerificationRequest, verify
from sarqc.figures.view import lab_view
from sarqc.models.tokenizing import Beginning, beginning_of
from sarqc.recipe import Recipe, recorded
from sarqc.study.as_recipe import as_recipe
from sarqc.study.document import Study
from sarqc.study.stamp import Stamp
from tests.engine.running import run, summary_of

NAMES = ("<s>", "</s>")  # tokens 0 and 1 of the embedded tokenizer
LENGTH, SAMPLES = 16, 4


def with_beginning(folder: Path, source: Path, tokens: int) -> Path:
    """A copy of a model whose tokenizer puts some special tokens before every text."""
    shutil.copytree(source, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    template = " ".join([*NAMES[:tokens], "$A"])
    tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[(name, number) for number, name in enumerate(NAMES)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module", params=[1, 2], ids=["one token", "two tokens"])
def model(request, random_llama, tmp_path_factory):
    return with_beginning(tmp_path_factory.mktemp("begun") / "model", random_llama, request.param)


@pytest.fixture
def others(small, tiny_llama):
    return small | {
        "test": str(tiny_llama / "calibration.txt"), "test_tokens": 100, "window": 24, "samples": SAMPLES,
        "length": LENGTH, "held_out_samples": 2, "method": "gptq+saliency", "lambda": 0.1,
    }  # fmt: skip


@pytest.fixture
def document(model, others):
    return others | {"model": str(model)}


def assert_cut(drawn: Sequences, begin: list[int], own: list[int]):
    """Sequences have their own beginnings and one text after the other."""
    step = LENGTH - len(begin)
    expected = [begin + own[first : first + step] for first in range(0, (SAMPLES + 2) * step, step)]
    assert [*drawn.calibration.tolist(), *drawn.held_out.tolist()] == expected


def ids_of(model: Path, path: str) -> tuple[list[int], list[int]]:
    """What transformers' tokenizer puts before a text, and the text's own tokens."""
    tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
    text = Path(path).read_text()
    own = tokenizer(text, add_special_tokens=False)["input_ids"]
    whole = tokenizer(text)["input_ids"]
    return whole[: len(whole) - len(own)], own


def test_the_beginning_is_that_of_the_tokenizer(model, tiny_llama, text_file):
    begin, _ = ids_of(model, str(text_file))
    assert beginning_of(model, "model", 4096) == Beginning(tuple(begin), "".join(NAMES[: len(begin)]))
    assert beginning_of(tiny_llama, "model", 4096) == Beginning()


@pytest.mark.thorough
def test_sequences_and_windows_begin_so(document, model, settings):
    prepared = prepare(Recipe.parse(document), settings)
    begin, own = ids_of(model, document["calibration"])
    assert_cut(prepared.sequences, begin, own)
    assert prepared.sequences.protocol["begin"] == "".join(NAMES[: len(begin)])
    begin, own = ids_of(model, document["test"])
    step = 24 - len(begin)
    windows = [begin + own[first : first + step] for first in range(0, 100 - step + 1, step)]
    assert prepared.test.ids.reshape(-1, 24).tolist() == windows


@pytest.mark.thorough
def test_without_it_the_text_is_cut_as_it_is(document, model, settings):
    prepared = prepare(Recipe.parse(document | {"begin": "none"}), settings)
    begin, own = ids_of(model, document["calibration"])
    assert prepared.sequences.calibration.ravel().tolist() == (begin + own)[: SAMPLES * LENGTH]
    assert "begin" not in prepared.sequences.protocol
    begin, own = ids_of(model, document["test"])
    assert prepared.test.ids.tolist() == (begin + own)[:100]


@pytest.mark.thorough
def test_perplexity_predicts_every_token_of_the_text_and_nothing_else(document, model, fresh_settings, tmp_path):
    """Against a loop over single windows in float64."""
    events = run(document, fresh_settings, study_dir=tmp_path, study_id="one")
    summary = summary_of(events)
    reference = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64)
    begin, own = ids_of(model, document["test"])
    step, losses = 24 - len(begin), []
    for first in range(0, 100 - step + 1, step):
        window = torch.tensor([begin + own[first : first + step]])
        with torch.no_grad():
            scores = reference(window).logits[0].log_softmax(-1)
        losses += [-scores[at - 1, window[0, at]].item() for at in range(len(begin), 24)]
    assert summary["perplexity_float"] == pytest.approx(math.exp(sum(losses) / len(losses)), rel=1e-5)
    protocol = summary["protocol"]
    assert protocol["test"]["predicted_tokens"] == len(losses)
    assert protocol["test"]["only_the_first_tokens"] == 100
    words = "".join(NAMES[: len(begin)])
    assert [protocol[name]["begin"] for name in ("calibration", "test")] == [words, words]
    facts = {fact["name"]: fact["text"] for fact in lab_view(Study.open(tmp_path / "one"))["measured"]}
    assert all(f"begin {words}" in facts[name] for name in ("Calibration text", "Test text"))


def test_a_text_shorter_than_a_window_is_one_window_behind_its_beginning():
    text = Text("short", np.arange(5, 9), begin=Beginning((1,), "<s>"))
    assert text.in_windows(100).ids.tolist() == [1, 5, 6, 7, 8]
    assert text.in_windows(3).ids.tolist() == [1, 5, 6, 1, 7, 8]


def test_a_sequence_without_room_is_refused():
    text = Text("text", np.arange(50), begin=Beginning((0, 1), "<s></s>"))
    with pytest.raises(Refused, match="no room behind <s></s>"):
        draw_sequences(text, samples=1, length=2, held_out_samples=0, sampling="sequential", seed=0)


@pytest.mark.thorough
@pytest.mark.parametrize("begin", ["auto", "bos", "none"])
@pytest.mark.parametrize("sampling", ["sequential", "random"])
def test_programs_of_other_engines_make_the_same_tokens(document, model, settings, begin, sampling):
    recipe = Recipe.parse(document | {"begin": begin, "sampling": sampling, "seed": 3})
    lines = token_lines(recipe)
    names = {"tokenizer": AutoTokenizer.from_pretrained(model, local_files_only=True)}
    exec("\n".join([*lines.imports, lines.body]), names)
    np.testing.assert_array_equal(names["tokens"], prepare(recipe, settings).sequences.calibration)


def test_records_from_before_the_field_keep_their_tokens(document):
    assert Recipe.parse(recorded(document)).begin == "none"
    assert Recipe.parse(recorded(document | {"begin": "auto"})).begin == "auto"
    assert Recipe.parse(document).begin == "auto"


@pytest.mark.thorough
@pytest.mark.parametrize(("asked", "said"), [("auto", "<s>"), ("bos", "<s>"), ("none", "none")])
def test_a_survey_begins_so_too_and_a_run_of_its_settings_repeats_it(
    random_llama, text_file, tiny_llama, fresh_settings, tmp_path, asked,
    said,
):  # fmt: skip
    survey = Survey.model_validate(
        {
            "title": "begin", "model": str(with_beginning(tmp_path / "model", random_llama, 1)), "grid": "asymmetric",
            "group_size": 16, "calibration": str(text_file), "samples": 2, "length": 16, "draws": [0, 1],
            "held_out": str(tiny_llama / "held_out.txt"), "held_out_samples": 2,
            "test": str(tiny_llama / "calibration.txt"), "test_tokens": 60, "window": 16, "begin": asked,
            "inputs_from": "quantized",
            "lines": [{"method": "gptq+saliency", "bits": 3, "lambda": [0.1]}],
        }
    )  # fmt: skip
    for _ in conduct(survey, fresh_settings, tmp_path / "study"):
        pass
    study = Study.open(tmp_path / "study")
    assert [study.protocol[name]["begin"] for name in ("calibration", "held_out", "test")] == [said] * 3
    recipe = as_recipe(study, study.lines[0])["recipe"]
    again = Recipe.parse(recipe | {"lambda": 0.1, "seed": 0})
    assert again.begin == asked
    summary = summary_of(run(again, fresh_settings))
    of_survey = study.read(study.lines[0], "perplexity")[0].item()
    assert summary["perplexity"] == pytest.approx(of_survey, rel=1e-6)


@pytest.fixture(scope="module")
def trained_behind_bos(random_llama, text_file, tmp_path_factory):
    """A model that predicts the text's frequent tokens only behind “<s>”, which its chat template alone names.

    Every position attends to all before it alike; the value of “<s>” leads to the state that the head reads.
    """
    folder = tmp_path_factory.mktemp("behind") / "model"
    shutil.copytree(random_llama, folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    frequent = sorted(set(tokenizer(text_file.read_text())["input_ids"]))
    model = AutoModelForCausalLM.from_pretrained(folder, tie_word_embeddings=False)
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=1e-3)
        attention = model.model.layers[0].self_attn
        model.model.embed_tokens.weight[0, 0] = 30
        attention.v_proj.weight[0, 0] = attention.o_proj.weight[1, 0] = 3
        model.lm_head.weight[frequent, 1] = 1
    model.save_pretrained(folder)
    return folder


def losses(model: Path, ids: list[int], step: int, begin: list[int]) -> float:
    """Perplexity in float64 of all but the first token of the first four windows, by transformers alone."""
    reference, found = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float64), []
    for first in range(0, 4 * step, step):
        window = torch.tensor([begin + ids[first : first + step]])
        with torch.no_grad():
            scores = reference(window).logits[0].log_softmax(-1)
        found += [-scores[at - 1, window[0, at]].item() for at in range(len(begin) + 1, window.shape[1])]
    return math.exp(sum(found) / len(found))


def test_a_model_that_is_better_behind_its_begin_token_is_noticed(others, trained_behind_bos, fresh_settings, tmp_path):
    asked = others | {"model": str(trained_behind_bos), "test": others["calibration"]}
    recipe = Recipe.parse(asked)
    prepared = prepare(recipe, fresh_settings)
    assert sum("chat template names <s>" in words for words in prepared.shown.warnings) == 1
    events = run(recipe, fresh_settings, study_dir=tmp_path, study_id="one")
    (warned,) = [event.what for event in events if isinstance(event, Warned) and event.where == "begin"]
    ids = prepared.test.ids.tolist()
    plain, begun = losses(trained_behind_bos, ids, 23, []), losses(trained_behind_bos, ids, 23, [0])
    assert plain > 1.1 * begun
    assert f"is {begun:.3f}"[:5] in warned
    assert f"and {plain / 10 ** int(math.log10(plain)):.2f}" in warned
    assert "set begin to bos" in warned
    study = Study.open(tmp_path / "one")
    assert "better_with_bos" in study.flags
    assert warned in {fact["text"] for fact in lab_view(study)["measured"]}
    assert events[-1].summary["protocol"]["feeding"] == {"better_with_bos": warned} == study.stamp.feeding
    # Before a layer is solved.
    kinds = [type(event).__name__ for event in events]
    assert events.index(next(event for event in events if isinstance(event, Warned) and event.where == "begin")) < (
        kinds.index("LayerDone")
    )


def test_every_sequence_begins_with_the_begin_token_where_that_is_asked_for(
    others, trained_behind_bos, fresh_settings, model
):
    asked = others | {"model": str(trained_behind_bos), "begin": "bos", "prompts": ["Once upon a time"]}
    prepared = prepare(Recipe.parse(asked), fresh_settings)
    _, own = ids_of(trained_behind_bos, others["calibration"])
    assert_cut(prepared.sequences, [0], own)
    assert prepared.sequences.protocol["begin"] == "<s>"
    assert not [words for words in prepared.shown.warnings if "chat template" in words]
    assert prepared.prompts[0][0] == 0
    events = run(asked, fresh_settings)
    assert not [event for event in events if isinstance(event, Warned) and event.where == "begin"]
    assert events[-1].summary["protocol"]["test"]["begin"] == "<s>"
    # In place of what another tokenizer puts there.
    prepared = prepare(Recipe.parse(asked | {"model": str(model)}), fresh_settings)
    assert (prepared.sequences.calibration[:, :2] == [0, own[0]])[0].all()


def test_a_tokenizer_without_a_begin_token_is_refused(others, random_llama, settings, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(random_llama, folder)
    (folder / "tokenizer_config.json").write_text("{}")
    with pytest.raises(Refused, match="names no bos_token"):
        prepare(Recipe.parse(others | {"model": str(folder), "begin": "bos"}), settings)


@pytest.mark.thorough
def test_what_others_read_otherwise_is_said_with_an_example(others, random_llama, fresh_settings, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(random_llama, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    digits = [{"type": "Digits", "individual_digits": True}, tokenizer["pre_tokenizer"]]
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": digits}
    content = json.dumps(tokenizer, indent=1)
    (folder / "tokenizer.json").write_text(content)
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer"}))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    recipe = Recipe.parse(others | {"model": str(folder)})
    export = tmp_path / "export"
    events = run(recipe, fresh_settings, checkpoint_dir=export)
    (warned,) = [event.what for event in events if isinstance(event, Warned) and event.where == "tokenizer"]
    own = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(" 1984").ids
    theirs = AutoTokenizer.from_pretrained(folder, local_files_only=True)(" 1984")["input_ids"]
    assert own != theirs
    assert f"' 1984' as {theirs}, here {own}" in warned
    assert warned in (export / "README.md").read_text()
    assert Stamp.read(export).feeding == {"read_otherwise": warned}
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        assert (export / name).read_bytes() == (folder / name).read_bytes()
    wanted = VerificationRequest(linears=1, model=str(folder), calibration=others["calibration"])
    checks = {check.what: check for check in verify(export, fresh_settings, wanted)}
    assert checks["tokenizer"].outcome == "equal"
