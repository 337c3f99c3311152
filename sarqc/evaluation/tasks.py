"""Zero-shot accuracy through lm-eval: its own tasks by name, and the multiple-choice tasks of embedded models.

On a host with a mirror of the Hub the usual tasks take their rows from there; prompts, choices and metrics stay those
of lm-eval's own definitions. lm-eval is imported on use: it is heavy, and an extra.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.evaluation import task_batch
from sarqc.evaluation.task_names import published_tasks
from sarqc.files.once import once
from sarqc.models.catalogue import embedded_models
from sarqc.settings import Settings

if TYPE_CHECKING:  # a plan asks for tasks without loading torch
    from sarqc.models.loading import LoadedModel


@dataclass(frozen=True)
class _Rows:
    """Place of a task's items on the Hub, and so in a mirror: the split that lm-eval evaluates."""

    dataset: str
    config: str | None
    split: str
    folder: str  # of lm-eval's definition, below its own tasks

    def file(self, mirror: Path) -> Path:
        return mirror / self.dataset / (self.config or "") / f"{self.split}.jsonl"


_MMLU_SUBJECTS = (
    "abstract_algebra",
    "anatomy",
    "astronomy",
    "business_ethics",
    "clinical_knowledge",
    "college_biology",
    "college_chemistry",
    "college_computer_science",
    "college_mathematics",
    "college_medicine",
    "college_physics",
    "computer_security",
    "conceptual_physics",
    "econometrics",
    "electrical_engineering",
    "elementary_mathematics",
    "formal_logic",
    "global_facts",
    "high_school_biology",
    "high_school_chemistry",
    "high_school_computer_science",
    "high_school_european_history",
    "high_school_geography",
    "high_school_government_and_politics",
    "high_school_macroeconomics",
    "high_school_mathematics",
    "high_school_microeconomics",
    "high_school_physics",
    "high_school_psychology",
    "high_school_statistics",
    "high_school_us_history",
    "high_school_world_history",
    "human_aging",
    "human_sexuality",
    "international_law",
    "jurisprudence",
    "logical_fallacies",
    "machine_learning",
    "management",
    "marketing",
    "medical_genetics",
    "miscellaneous",
    "moral_disputes",
    "moral_scenarios",
    "nutrition",
    "philosophy",
    "prehistory",
    "professional_accounting",
    "professional_law",
    "professional_medicine",
    "professional_psychology",
    "public_relations",
    "security_studies",
    "sociology",
    "us_foreign_policy",
    "virology",
    "world_religions",
)
# Entries of an accuracy's protocol about the model, not the measuring: they differ between float and quantized.
MEASURED_BESIDE = ("acc_norm", "acc_norm_standard_error", "subjects", "outcomes")
# The usual tasks, with their rows on the Hub.
_USUAL: dict[str, _Rows] = {
    "piqa": _Rows("baber/piqa", None, "validation", "piqa"),
    "hellaswag": _Rows("Rowan/hellaswag", None, "validation", "hellaswag"),
    "boolq": _Rows("aps/super_glue", "boolq", "validation", "super_glue/boolq"),
    "winogrande": _Rows("allenai/winogrande", "winogrande_xl", "validation", "winogrande"),
    "arc_easy": _Rows("allenai/ai2_arc", "ARC-Easy", "test", "arc"),
    "arc_challenge": _Rows("allenai/ai2_arc", "ARC-Challenge", "test", "arc"),
    **{f"mmlu_{subject}": _Rows("cais/mmlu", subject, "test", "mmlu/default") for subject in _MMLU_SUBJECTS},
}
# A group that counts as one task, its items pooled: lm-eval's own mean over the group, weighted by size.
_POOLED: dict[str, tuple[str, ...]] = {"mmlu": tuple(f"mmlu_{subject}" for subject in _MMLU_SUBJECTS)}


def _members(name: str) -> tuple[str, ...]:
    return _POOLED.get(name, (name,))


@dataclass(frozen=True)
class Accuracy:
    """One task's accuracy with its standard error over items; ``correct`` is 0 or 1 for each item, in order.

    ``normalised`` is lm-eval's ``acc_norm``, log-likelihoods divided by the choices' lengths, if the task has it.
    """

    task: str
    value: float
    standard_error: float
    correct: tuple[int, ...]
    protocol: dict[str, Any]
    normalised: float | None = None
    normalised_standard_error: float | None = None


def embedded_tasks(settings: Settings) -> dict[str, Path]:
    """Return the files of the multiple-choice tasks that ship with embedded models, by task name."""
    return {
        name: folder / task["file"]
        for folder, model in embedded_models(settings).values()
        for name, task in model.tasks.items()
    }


def known_task(name: str, settings: Settings) -> None:
    """Check that a name is that of a single task, whose rows are on the mirror if this host has one.

    Raises:
        Refused: For an unknown task, with the known ones, and for a task that runs the model's programs.
        NotFound: If the mirror lacks a file of the task.
    """
    embedded = embedded_tasks(settings)
    if name in embedded:
        return
    if name in _USUAL or name in _POOLED:
        _mirror_files(name, settings)
        return
    runs_programs = published_tasks().get(name)
    if runs_programs is None:
        usual = [task for task in _USUAL if not task.startswith("mmlu_")]
        remedy = f"Give one of {', '.join([*embedded, *usual, *_POOLED])}, or another task of lm-eval."
        raise Refused(f"no single task “{name}”", "tasks", remedy)
    if runs_programs:  # as the user of this process
        raise Refused(
            "lm-eval would run programs that the model writes without isolating them",
            f"task {name}",
            "Leave it out; export the model and run lm_eval with HF_ALLOW_CODE_EVAL=1 in a container of yours.",
        )


# Items, choices and tokens of a choice with its context, by a part of the name; the first that fits counts.
_SIZES = {
    "piqa": (1838, 2, 35),
    "hellaswag": (10042, 4, 100),
    "boolq": (3270, 2, 150),
    "winogrande": (1267, 2, 30),
    "arc_easy": (2376, 4, 40),
    "arc_challenge": (1172, 4, 45),
    "mmlu_": (250, 4, 110),
    "mmlu": (14042, 4, 110),
    "": (1000, 4, 100),  # of any other task
}
_CHARACTERS = 4  # of a token


def size_of(name: str, settings: Settings, limit: int | None = None) -> int:
    """Return roughly the number of tokens that a model reads for a task: each choice comes with its context.

    It is counted if its items ship with a model, else taken from published numbers.

    Args:
        name: Name of the task.
        settings: Settings of the host.
        limit: Largest number of items; None for all.
    """
    if (file := embedded_tasks(settings).get(name)) is not None:
        items = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[:limit]]
        characters = sum(len(item["context"]) + len(choice) for item in items for choice in item["choices"])
        return round(characters / _CHARACTERS)
    count, choices, tokens = next(size for part, size in _SIZES.items() if name.startswith(part))
    return min(limit or count, count) * choices * tokens


def items_key(name: str, settings: Settings) -> tuple[str, ...]:
    """Return a value that sets the items of one mirror apart from those of another; empty without a mirror.

    Raises:
        NotFound: If the mirror lacks a file of the task.
    """
    files = {} if name in embedded_tasks(settings) else _mirror_files(name, settings)
    digests = b"".join(hashlib.sha256(path.read_bytes()).digest() for path in files.values())
    return (hashlib.sha256(digests).hexdigest()[:16],) if files else ()


def measure_accuracy(
    loaded: LoadedModel,
    name: str,
    settings: Settings,
    *,
    limit: int | None = None,
    tell: Callable[[int, int], object] = lambda done, total: None,
) -> Accuracy:
    """Measure the accuracy of the model in its present state on one task, zero-shot.

    The metrics are lm-eval's ``acc`` and ``acc_norm``. The standard error is the binomial one over items. A limit is
    marked in the protocol.

    Args:
        loaded: The model.
        name: Name of the task.
        settings: Settings of the host.
        limit: Largest number of items, in a group for each subject; None for all.
        tell: Function that is called with the number of answers so far, and of all.

    Raises:
        Refused: If the task has no accuracy for single items.
        NotFound: For rows that the mirror lacks.
        Unreachable: Without a Hub.
    """
    positions = loaded.checkpoint.max_positions
    from lm_eval import __version__, simple_evaluate
    from lm_eval.models.huggingface import HFLM

    class Quiet(HFLM):  # type: ignore[misc]  # lm-eval has no types
        """lm-eval's model without its own progress bar: progress is ours to tell, in events."""

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[Any]:
            self.set_cache_hook(_AnswerCounter(len(requests), tell))
            likelihoods: list[Any] = super().loglikelihood(requests, disable_tqdm=True)
            return likelihoods

    manager = _manager(name, settings)
    tasks, source = _load(manager, name, settings)
    wrapped = Quiet(
        pretrained=loaded.model,
        tokenizer=loaded.tokenizer,
        batch_size=task_batch(loaded.vocabulary, positions),
        max_length=positions,
    )
    results = simple_evaluate(
        model=wrapped,
        tasks=tasks,
        num_fewshot=0,
        limit=limit,
        bootstrap_iters=0,
        log_samples=True,
        task_manager=manager,
    )
    members = {
        member: sorted(results["samples"][member], key=lambda sample: sample["doc_id"]) for member in _members(name)
    }
    samples = [sample for member_samples in members.values() for sample in member_samples]
    if not samples or "acc" not in samples[0]:
        raise Refused(f"the task “{name}” has no accuracy for single items", "tasks", "Use a multiple-choice task.")
    value, error = _mean(samples, "acc")
    protocol = {
        "task": name,
        "items": len(samples),
        "limit": limit,
        "metric": "acc",
        "few_shot": 0,
        "lm_eval": __version__,
        "rows_from": source,
    }
    normalised = normalised_error = None
    if "acc_norm" in samples[0]:
        normalised, normalised_error = _mean(samples, "acc_norm")
        protocol |= {"acc_norm": normalised, "acc_norm_standard_error": normalised_error}
    if name in _POOLED:
        protocol["subjects"] = {
            member.removeprefix(f"{name}_"): _mean(member_samples, "acc")[0]
            for member, member_samples in members.items()
        }
        if limit is not None:
            protocol["limit_for_each"] = "subject"
    return Accuracy(
        task=name,
        value=value,
        standard_error=error,
        correct=tuple(int(sample["acc"]) for sample in samples),
        protocol=protocol,
        normalised=normalised,
        normalised_standard_error=normalised_error,
    )


@dataclass
class _AnswerCounter:
    """Replacement of lm-eval's cache, which gets each answer as soon as it exists: counts them."""

    total: int
    tell: Callable[[int, int], object]
    done: int = 0

    def add_partial(self, attribute: str, request: Any, answer: Any) -> None:
        self.done += 1
        self.tell(self.done, self.total)


def _mean(samples: list[dict[str, Any]], metric: str) -> tuple[float, float]:
    """Return the mean of zeros and ones with its binomial standard error."""
    value = sum(sample[metric] for sample in samples) / len(samples)
    return value, math.sqrt(value * (1 - value) / max(len(samples) - 1, 1))


def _mirror_files(name: str, settings: Settings) -> dict[str, Path]:
    """Return the mirror's files of a usual task or of a group's tasks, by task; empty without a mirror."""
    members = [member for member in _members(name) if member in _USUAL]
    if settings.data_dir is None or not members:
        return {}
    files = {member: _USUAL[member].file(settings.data_dir) for member in members}
    missing = [path for path in files.values() if not path.is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise NotFound(
            f"the mirror has no rows for the task “{name}”",
            f"{missing[0]}{more}",
            "Add them to the mirror: one JSON object a line, with the field names of the dataset on the Hub.",
        )
    return files


def _load(manager: Any, name: str, settings: Settings) -> tuple[list[Any], str]:
    """Return lm-eval's tasks for a name, with their rows read, and the source: “embedded”, “mirror” or “hub”."""
    _quieten()
    definition: Any
    if (embedded := embedded_tasks(settings).get(name)) is not None:
        definition, source = _task_config(name, embedded), "embedded"
    elif files := _mirror_files(name, settings):
        # A group made on the spot is how lm-eval lets a definition of its own be changed in part.
        members = [{"task": member, **_from_file(_USUAL[member].split, path)} for member, path in files.items()]
        definition, source = {"group": f"{name} of the mirror", "task": members}, "mirror"
    else:
        definition, source = list(_members(name)), "hub"
    try:
        return list(manager.load(definition)["tasks"].values()), source
    except Exception as error:  # whatever a transport raises means the same here
        if source != "hub":
            raise
        raise Unreachable(
            f"could not download the rows from the Hugging Face Hub ({type(error).__name__})",
            f"task {name}",
            "Check the connection, or set SARQC_DATA_DIR to a mirror.",
        ) from None


def _quieten() -> None:
    """Turn off warnings about intended overrides, progress bars and lm-eval's report, which starts many programs."""
    import datasets
    from lm_eval import evaluator
    from lm_eval.api import task

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    datasets.disable_progress_bars()
    evaluator.add_env_info = lambda _: None
    task.tqdm = lambda items, **_: items  # its one bar that no argument turns off


def _from_file(split: str, file: Path) -> dict[str, Any]:
    """Return the part of a task's definition about its rows: those of a JSON-lines file, and no other split."""

    def dataset(**_: Any) -> dict[str, Any]:
        from datasets import Dataset

        try:
            with file.open(encoding="utf-8") as lines:
                return {split: Dataset.from_list([json.loads(line) for line in lines])}
        except (OSError, ValueError) as error:
            raise Refused(f"the rows can't be read: {error}", str(file), "Give one JSON object a line.") from None

    splits = dict.fromkeys(("training_split", "validation_split", "test_split", "fewshot_split"))
    return {"custom_dataset": dataset, **splits, f"{split}_split": split}


def _manager(name: str, settings: Settings) -> Any:
    """Return lm-eval's manager for a task: of the task's folder if it is known, since all take ten seconds and more."""
    if name in embedded_tasks(settings):  # and defined here
        from lm_eval.tasks import TaskManager

        return TaskManager(include_defaults=False)
    usual = _USUAL.get(_members(name)[0])
    return _manager_of("" if usual is None else usual.folder)


@once(16)
def _manager_of(folder: str) -> Any:
    """Return lm-eval's manager of the tasks below one of its folders, all of whose definitions it reads first."""
    from lm_eval import tasks

    if not folder:
        return tasks.TaskManager()
    return tasks.TaskManager(include_path=Path(tasks.__file__).parent / folder, include_defaults=False)


def _task_config(name: str, file: Path) -> dict[str, Any]:
    """Return lm-eval's configuration of a task whose items are lines {"context", "choices", "answer"} of a file."""
    return {
        "task": name,
        **_from_file("test", file),
        "output_type": "multiple_choice",
        "doc_to_text": "{{context}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
