"""HumanEval: who may, what lm-eval's definition makes of rows, and what the judge makes of programs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch

from sarqc import Recipe
from sarqc.engine.plan import plan
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.evaluation import human_eval
from sarqc.evaluation.sandbox import Limits
from sarqc.evaluation.tasks import _USUAL, _load, _manager, items_key, known_task, measure_accuracy
from sarqc.models.loading import LoadedModel
from sarqc.settings import Settings

TASK = human_eval.TASK


def rows() -> list[dict[str, Any]]:
    """Prompts that open a string, which the tests close: whatever a model writes in between, item 0 and 2 pass."""
    return [
        {
            "task_id": f"HumanEval/{number}",
            "prompt": f'def story{number}():\n    r"""The {word} ',
            "entry_point": f"story{number}",
            "canonical_solution": "",
            "test": f'"""\n    return {number}\n\ndef check(found):\n    assert found() == {number - number % 2}\n',
        }
        for number, word in enumerate(("river was", "lamp and", "old stone in the garden of the"))
    ]


@pytest.fixture(scope="module")
def allowing(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Return a host that allows it, with a mirror of three rows."""
    folder = tmp_path_factory.mktemp("mirror")
    path = _USUAL[TASK].file(folder)
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows()), encoding="utf-8")
    return settings.model_copy(update={"data_dir": folder, "allow_code_execution": True})


@pytest.fixture(scope="module")
def writer(loaded: LoadedModel) -> LoadedModel:
    """Return the embedded model with 48 positions, so that it writes 24 tokens at most."""
    return of_positions(loaded, 48)


def of_positions(loaded: LoadedModel, positions: int) -> LoadedModel:
    architecture = loaded.checkpoint.architecture.model_copy(update={"max_position_embeddings": positions})
    return replace(loaded, checkpoint=replace(loaded.checkpoint, architecture=architecture))


def written(loaded: LoadedModel, prompt: str, tokens: int) -> str:
    """Return the greedy answer, one token after another without a cache, up to lm-eval's stop words."""
    ids = loaded.tokenizer(prompt)["input_ids"]
    given = len(ids)
    end = loaded.tokenizer.eos_token_id
    with torch.no_grad():
        while len(ids) < given + tokens and ids[-1] != end:
            ids.append(int(loaded.model(torch.tensor([ids])).logits[0, -1].argmax()))
    answer = loaded.tokenizer.decode([token for token in ids[given:] if token != end])
    for stop in ("\nclass", "\ndef", "\n#", "\nif", "\nprint"):
        answer = answer.split(stop)[0]
    return answer


@pytest.mark.thorough
@pytest.mark.usefixtures("isolating_host")
def test_lm_eval_writes_and_the_fence_judges(allowing, writer, monkeypatch):
    judged = []

    def judge(samples: list[dict[str, Any]]) -> list[Any]:
        judged.extend(samples)
        return real(samples)

    real = human_eval.judge
    monkeypatch.setattr(human_eval, "judge", judge)
    found = measure_accuracy(writer, TASK, allowing)
    for row, sample in zip(rows(), judged, strict=True):
        program = row["prompt"] + written(writer, row["prompt"], 24)
        assert sample["filtered_resps"] == [[program]]
        assert sample["target"] == f"{row['test']}\ncheck({row['entry_point']})"
        assert sample["doc"] == row
    assert found.correct == (1, 0, 1)
    assert found.value == 2 / 3
    assert found.standard_error == pytest.approx((2 / 3 * 1 / 3 / 2) ** 0.5)
    assert found.normalised is None
    assert found.protocol["metric"] == "pass@1"
    assert found.protocol["outcomes"] == {"passed": 2, "failed": 1}
    assert found.protocol["max_new_tokens"] == 24
    assert "prompts_without_their_beginning" not in found.protocol
    json.dumps(found.protocol)


@pytest.mark.thorough
@pytest.mark.usefixtures("isolating_host")
def test_a_prompt_too_long_for_the_model_is_said(allowing, writer):
    lengths = [len(writer.tokenizer(row["prompt"])["input_ids"]) for row in rows()]
    assert 0 < sum(length > 20 for length in lengths) < 3
    protocol = measure_accuracy(of_positions(writer, 40), TASK, allowing).protocol
    assert protocol["prompts_without_their_beginning"] == sum(length > 20 for length in lengths)


def test_a_host_that_does_not_allow_it_refuses(allowing, writer, tiny_llama):
    assert Settings().allow_code_execution is False
    host = allowing.model_copy(update={"allow_code_execution": False})
    recipe = Recipe(model="tiny-llama", calibration="tiny-llama-calibration", tasks=(TASK,))
    for ask in (
        lambda: plan(recipe, host), lambda: known_task(TASK, host), lambda: measure_accuracy(writer, TASK, host)
    ):  # fmt: skip
        with pytest.raises(Refused, match="SARQC_ALLOW_CODE_EXECUTION=true"):
            ask()


@pytest.mark.usefixtures("isolating_host")
def test_rows_that_are_not_there(allowing, writer, tmp_path):
    empty = allowing.model_copy(update={"data_dir": tmp_path})
    for ask in (known_task, items_key, lambda name, at: measure_accuracy(writer, name, at)):
        with pytest.raises(NotFound, match=r"openai_humaneval/test\.jsonl"):
            ask(TASK, empty)
    with pytest.raises(Unreachable, match="SARQC_DATA_DIR"):
        measure_accuracy(writer, TASK, allowing.model_copy(update={"data_dir": None}))


@pytest.mark.parametrize("name", ["mbpp", "humaneval_instruct"])
def test_tasks_that_lm_eval_would_run_itself_are_refused(allowing, name):
    with pytest.raises(Refused, match="without isolating"):
        known_task(name, allowing)


def test_the_definition_is_read_without_its_metric_and_leaves_no_trace(allowing):
    import evaluate

    before = evaluate.load
    (task,), source = _load(_manager(TASK, allowing), TASK, allowing)
    assert evaluate.load is before
    assert source == "mirror"
    assert task.config.generation_kwargs["max_gen_toks"] == human_eval.arguments(4096)["gen_kwargs"]["max_gen_toks"]
    assert human_eval.arguments(512)["gen_kwargs"]["max_gen_toks"] == 256
    assert task.config.unsafe_code is True
    assert len(task.test_docs()) == 3


@pytest.mark.thorough
def test_asking_for_permission_loads_neither_torch_nor_lm_eval(allowing):
    code = (
        "import sys; from sarqc.evaluation.tasks import known_task; from sarqc.settings import Settings\n"
        "from sarqc.errors import Refused\n"
        "try: known_task('humaneval', Settings())\nexcept Refused: pass\n"
        "assert not {'torch', 'lm_eval', 'datasets', 'evaluate'} & set(sys.modules)"
    )
    environment = os.environ | {"SARQC_ALLOW_CODE_EXECUTION": "true", "SARQC_DATA_DIR": str(allowing.data_dir)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.skipif("SARQC_DATA_DIR" not in os.environ, reason="no mirror of the Hub on this host")
@pytest.mark.usefixtures("isolating_host")
def test_real_solutions_pass_and_broken_ones_fail(settings):
    path = _USUAL[TASK].file(settings.data_dir)
    if not path.is_file():
        pytest.skip(f"the mirror has no {path}")
    real = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def judged(answer: str | None) -> set[str]:
        samples = [
            {"filtered_resps": [[row["prompt"] + (answer or row["canonical_solution"])]], "doc": row} for row in real
        ]
        return {outcome.result for outcome in human_eval.judge(samples, Limits())}

    assert len(real) == 164
    assert judged(None) == {"passed"}
    real = real[::8]
    assert judged("    return None\n") == {"failed"}
    assert judged("    raise SystemExit(0)\n") == {"failed"}
