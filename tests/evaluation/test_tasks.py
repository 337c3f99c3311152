"""Accuracy through the real lm-eval against log-likelihoods summed by hand."""

import gzip
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc import Recipe, execute
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.evaluation.task_names import FILE, names_of
from sarqc.evaluation.tasks import (
    _POOLED,
    _USUAL,
    _manager,
    _manager_of,
    embedded_tasks,
    items_key,
    known_task,
    measure_accuracy,
)
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.settings import Settings

TASK = "tiny-llama-continuations"


@pytest.mark.thorough
@pytest.mark.parametrize("begin", [[], [0]], ids=["as the tokenizer has it", "behind bos"])
def test_equals_the_most_likely_choice(settings, tiny_llama, monkeypatch, begin):
    _manager_of.cache_clear()
    limit = 24
    items = [json.loads(line) for line in embedded_tasks(settings)[TASK].read_text(encoding="utf-8").splitlines()]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_llama), AutoTokenizer.from_pretrained(tiny_llama)
    expected = []
    for item in items[:limit]:
        scores = []
        for choice in item["choices"]:
            whole = begin + tokenizer(item["context"] + choice)["input_ids"]
            given = len(begin) + len(tokenizer(item["context"])["input_ids"])
            with torch.no_grad():
                logs = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
            scores.append(sum(float(logs[i - 1, whole[i]]) for i in range(given, len(whole))))
        expected.append(int(scores.index(max(scores)) == item["answer"]))
    told: list[tuple[int, int]] = []
    loaded = load(read_checkpoint(tiny_llama), torch.device("cpu"), begins_with_bos=bool(begin))
    found = measure_accuracy(loaded, TASK, settings, limit=limit, tell=lambda *reached: told.append(reached))
    assert told == [(done, 4 * limit) for done in range(1, 4 * limit + 1)]  # an answer for each of four choices
    assert list(found.correct) == expected
    assert found.value == sum(expected) / limit
    assert found.standard_error == pytest.approx(math.sqrt(found.value * (1 - found.value) / (limit - 1)))
    assert found.protocol["limit"] == limit
    assert not _manager_of._results  # no definition of lm-eval's own was read


def test_an_unknown_task_names_ours(settings):
    settings = settings.model_copy(update={"data_dir": None})
    for name in (TASK, "piqa", "mmlu", "mmlu_anatomy", "openbookqa"):
        known_task(name, settings)
    for name in ("no-such-task", "mmlu_stem"):  # the latter is a group of tasks
        with pytest.raises(Refused, match=TASK):
            known_task(name, settings)
    for name in ("humaneval", "mbpp"):
        with pytest.raises(Refused, match=r"without isolating.*HF_ALLOW_CODE_EVAL=1"):
            known_task(name, settings)


# What follows repeats lm-eval's prompts by hand: each item as (context, continuation) pairs with the place of the right
# one, and the choices whose lengths acc_norm divides by.

Item = tuple[list[tuple[str, str]], int, list[str]]
WORDS = (
    "river", "stone", "lamp", "garden", "winter", "horse", "bread", "letter",
    "copper", "window", "market", "sailor", "forest", "engine", "ribbon", "candle",
)  # fmt: skip


def piqa(row: dict[str, Any]) -> Item:
    choices = [row["sol1"], row["sol2"]]
    return [(f"Question: {row['goal']}\nAnswer:", f" {choice}") for choice in choices], row["label"], choices


def boolq(row: dict[str, Any]) -> Item:
    context = f"{row['passage']}\nQuestion: {row['question']}?\nAnswer:"
    return [(context, " no"), (context, " yes")], row["label"], ["no", "yes"]


def arc(row: dict[str, Any]) -> Item:
    choices = row["choices"]["text"]
    pairs = [(f"Question: {row['question']}\nAnswer:", f" {choice}") for choice in choices]
    return pairs, row["choices"]["label"].index(row["answerKey"]), choices


def winogrande(row: dict[str, Any]) -> Item:
    before, after = row["sentence"].split("_", 1)
    choices = [before + row["option1"], before + row["option2"]]
    return [(choice, f" {after.strip()}") for choice in choices], int(row["answer"]) - 1, choices


def hellaswag(row: dict[str, Any]) -> Item:
    # The rows made here have no brackets or double blanks to clean.
    context = f"{row['activity_label']}: {row['ctx_a']} {row['ctx_b'].capitalize()}"
    return [(context, f" {ending}") for ending in row["endings"]], int(row["label"]), row["endings"]


def mmlu(row: dict[str, Any]) -> Item:
    named = "".join(f"\n{letter}. {choice}" for letter, choice in zip("ABCD", row["choices"], strict=True))
    subject = row["subject"].replace("_", " ")
    context = f"The following are multiple choice questions (with answers) about {subject}.\n\n"
    context += f"{row['question'].strip()}{named}\nAnswer:"
    return [(context, f" {letter}") for letter in "ABCD"], row["answer"], list("ABCD")


BY_HAND: dict[str, Callable[[dict[str, Any]], Item]] = {
    "piqa": piqa, "boolq": boolq, "arc_easy": arc, "arc_challenge": arc, "winogrande": winogrande,
    "hellaswag": hellaswag,
}  # fmt: skip


def made_rows(task: str, count: int) -> list[dict[str, Any]]:
    """Rows of our own with the field names that the dataset has on the Hub; choices of different lengths."""
    rows = []
    for number in range(count):
        word, other, third, fourth = (WORDS[(number * step + 3) % len(WORDS)] for step in (1, 3, 5, 7))
        four = [f"the {word}", f"a {other} by the {third}", f"{fourth}", f"only the old {third} and the {word}"]
        rows.append(
            {
                "piqa": {"goal": f"Carry a {word} home.", "sol1": f"Use the {other}.", "label": number % 2,
                         "sol2": f"Put it in the {third} and wait for the {fourth} to come."},
                "boolq": {"question": f"is the {word} near the {other}", "idx": number, "label": number % 2,
                          "passage": f"The {word} was made of {third}. It stood near the {other}."},
                "arc": {"id": str(number), "question": f"What is beside the {word}?", "answerKey": "ABCD"[number % 4],
                        "choices": {"text": four, "label": list("ABCD")}},
                "winogrande": {"sentence": f"The {word} did not fit in the {other} because the _ was too small.",
                               "option1": word, "option2": other, "answer": str(number % 2 + 1)},
                "hellaswag": {"ind": number, "activity_label": "Walking", "ctx_a": f"A man sees a {word}.",
                              "ctx_b": "he", "ctx": f"A man sees a {word}. he", "endings": four,
                              "label": str(number % 4)},
                "mmlu": {"question": f" Where is the {word} kept? ", "subject": task.removeprefix("mmlu_"),
                         "choices": four, "answer": number % 4},
            }[task.split("_")[0]]
        )  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def mirror(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return settings with a mirror of every usual task: 8 rows, and 1 to 3 for a subject of MMLU."""
    folder = tmp_path_factory.mktemp("mirror")
    for place, (task, rows) in enumerate(_USUAL.items()):
        path = rows.file(folder)
        path.parent.mkdir(parents=True)
        count = 1 + place % 3 if task.startswith("mmlu_") else 8
        lines = [json.dumps(row, ensure_ascii=False) for row in made_rows(task, count)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return settings.model_copy(update={"data_dir": folder})


def outcome(loaded: LoadedModel, item: Item) -> tuple[int, int]:
    """acc and acc_norm of an item by a plain pass for each choice."""
    pairs, answer, choices = item
    scores = []
    for context, continuation in pairs:
        whole = loaded.tokenizer(context + continuation)["input_ids"]
        predicted = len(whole) - len(loaded.tokenizer(context)["input_ids"])
        whole = whole[-loaded.checkpoint.max_positions - 1 :]
        with torch.no_grad():
            logs = loaded.model(torch.tensor([whole[:-1]])).logits[0].double().log_softmax(-1)
        scores.append(sum(float(logs[i - 1, whole[i]]) for i in range(len(whole) - predicted, len(whole))))
    relative = [score / len(choice) for score, choice in zip(scores, choices, strict=True)]
    return int(scores.index(max(scores)) == answer), int(relative.index(max(relative)) == answer)


def rows_of(task: str, settings: Settings, limit: int | None = None) -> list[dict[str, Any]]:
    lines = _USUAL[task].file(settings.data_dir).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line][:limit]


@pytest.mark.thorough
@pytest.mark.parametrize("task", BY_HAND)
def test_usual_tasks_from_a_mirror_equal_the_hand_count(mirror, loaded, task):
    known_task(task, mirror)
    expected = [outcome(loaded, BY_HAND[task](row)) for row in rows_of(task, mirror)]
    found = measure_accuracy(loaded, task, mirror)
    assert list(found.correct) == [acc for acc, _ in expected]
    assert found.value == sum(found.correct) / 8
    assert found.standard_error == pytest.approx(math.sqrt(found.value * (1 - found.value) / 7))
    assert found.protocol["rows_from"] == "mirror"
    if task in ("boolq", "winogrande"):  # lm-eval has no acc_norm for them
        assert found.normalised is None
        assert "acc_norm" not in found.protocol
    else:
        share = sum(norm for _, norm in expected) / 8
        assert found.normalised == share == found.protocol["acc_norm"]
        assert found.normalised_standard_error == pytest.approx(math.sqrt(share * (1 - share) / 7))


@pytest.mark.thorough
def test_mmlu_pools_the_items_of_its_subjects(mirror, loaded):
    limit = 2  # a third of the subjects has one item, a third two, a third three
    expected = {
        task: [outcome(loaded, mmlu(row))[0] for row in rows_of(task, mirror, limit)] for task in _POOLED["mmlu"]
    }
    pooled = [acc for of_subject in expected.values() for acc in of_subject]
    found = measure_accuracy(loaded, "mmlu", mirror, limit=limit)
    assert list(found.correct) == pooled
    assert found.value == sum(pooled) / len(pooled)
    assert found.standard_error == pytest.approx(math.sqrt(found.value * (1 - found.value) / (len(pooled) - 1)))
    assert found.protocol["subjects"] == {
        task.removeprefix("mmlu_"): sum(of_subject) / len(of_subject) for task, of_subject in expected.items()
    }
    assert (found.protocol["limit"], found.protocol["limit_for_each"]) == (limit, "subject")
    assert found.normalised is None
    json.dumps(found.protocol)


@pytest.mark.thorough
def test_a_run_says_both_accuracies_of_both_models(mirror, loaded, tmp_path):
    recipe = Recipe(
        model="tiny-llama", method="rtn", bits=2, group_size=32, calibration="c4", samples=2, length=64,
        held_out_samples=1, test=None, tasks=("piqa",), task_limit=6,
    )  # fmt: skip
    text = mirror.data_dir / "allenai" / "c4" / "en" / "train.jsonl"
    text.parent.mkdir(parents=True)
    text.write_text("".join(json.dumps({"text": " ".join(WORDS) * 4}) + "\n" for _ in range(8)), encoding="utf-8")
    fresh = mirror.model_copy(update={"state_dir": tmp_path})
    summary = list(execute(recipe, fresh))[-1].summary
    expected = measure_accuracy(loaded, "piqa", mirror, limit=6)
    task = summary["tasks"]["piqa"]
    assert task["float"]["accuracy"] == expected.value
    assert task["float"]["acc_norm"] == expected.normalised
    assert task["float"].keys() == task["quantized"].keys()
    assert "acc_norm" not in task["protocol"]
    assert task["protocol"]["limit"] == 6
    assert summary["protocol"]["calibration"]["corpus"] == 'c4, the first 8 documents, joined by "\\n\\n"'


@pytest.mark.thorough
def test_the_shipped_names_are_those_of_the_installed_lm_eval():
    from lm_eval.tasks import TaskManager

    names = names_of(TaskManager())
    shipped = json.loads(gzip.decompress(FILE.read_bytes()))
    assert shipped == names, "python -m sarqc.evaluation.task_names"
    assert len(names["tasks"]) > 10_000
    assert {"humaneval", "mbpp", "humaneval_instruct"} <= set(names["unsafe"])
    assert len(names["unsafe"]) < 50


def test_the_table_agrees_with_lm_eval(settings):
    """Folders, datasets, configurations and the evaluated split, and the members of the group."""
    from lm_eval.tasks._yaml_loader import load_yaml

    for task, rows in _USUAL.items():
        index = _manager(task, settings).task_index
        config = load_yaml(index[task].yaml_path, resolve_func=False)
        assert (config["dataset_path"], config.get("dataset_name")) == (rows.dataset, rows.config), task
        assert (config.get("test_split") or config["validation_split"]) == rows.split, task
    index = _manager("mmlu", settings).task_index
    groups = load_yaml(index["mmlu"].yaml_path, resolve_func=False)["task"]
    members = {
        task for group in groups for tag in load_yaml(index[group].yaml_path)["task"] for task in index[tag].tags
    }
    assert members == set(_POOLED["mmlu"])


@pytest.mark.parametrize("task", ["piqa", "mmlu"])
def test_rows_that_a_mirror_lacks_are_named(settings, tmp_path, loaded, task):
    empty = settings.model_copy(update={"data_dir": tmp_path})
    for ask in (known_task, items_key, lambda name, at: measure_accuracy(loaded, name, at)):
        with pytest.raises(NotFound, match=r"(validation|test)\.jsonl"):
            ask(task, empty)


def test_rows_without_a_hub_or_mirror(settings, loaded):
    with pytest.raises(Unreachable, match="SARQC_DATA_DIR"):
        measure_accuracy(loaded, "piqa", settings.model_copy(update={"data_dir": None}), limit=1)


def test_measurements_are_kept_for_their_items(mirror, settings, tmp_path):
    assert items_key(TASK, mirror) == ()
    assert items_key("piqa", settings.model_copy(update={"data_dir": None})) == ()
    before = items_key("piqa", mirror)
    path = _USUAL["piqa"].file(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_bytes(_USUAL["piqa"].file(mirror.data_dir).read_bytes())
    other = settings.model_copy(update={"data_dir": tmp_path})
    assert items_key("piqa", other) == before
    path.write_text(path.read_text(encoding="utf-8").replace("Carry", "Take"), encoding="utf-8")
    assert items_key("piqa", other) != before


def test_names_are_checked_without_torch_and_lm_eval():
    code = (
        "import sys; from sarqc.evaluation.tasks import known_task; from sarqc.settings import Settings\n"
        "for name in ('piqa', 'mmlu', 'tiny-llama-continuations', 'openbookqa'):\n"
        "    known_task(name, Settings(data_dir=None))\n"
        "from sarqc.errors import Refused\n"
        "for name in ('no-such-task', 'mbpp'):\n"
        "    try: known_task(name, Settings(data_dir=None))\n"
        "    except Refused: continue\n"
        "    raise AssertionError(name)\n"
        "assert not {'torch', 'lm_eval', 'datasets'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif("SARQC_DATA_DIR" not in os.environ, reason="no mirror of the Hub on this host")
@pytest.mark.parametrize("task", [task for task in BY_HAND if task != "hellaswag"])  # its real rows need cleaning
def test_the_mirror_of_this_host(settings, loaded, task):
    try:
        known_task(task, settings)
    except NotFound as missing:
        pytest.skip(str(missing))
    expected = [outcome(loaded, BY_HAND[task](row)) for row in rows_of(task, settings, 8)]
    found = measure_accuracy(loaded, task, settings, limit=8)
    assert list(found.correct) == [acc for acc, _ in expected]
