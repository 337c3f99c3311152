"""HumanEval: lm-eval's own prompts, stop words and assembly of programs, with our own judge.

lm-eval's metric fetches a script from the Hub and runs the model's programs as the user of this process, with its
network and files. Here each program is judged behind ``sandbox``'s fence, and only if the host's operator allows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sarqc.errors import Refused
from sarqc.evaluation.sandbox import Limits, Program, ProgramResult, require_isolation, run_programs
from sarqc.settings import Settings

if TYPE_CHECKING:
    from sarqc.models.loading import LoadedModel

TASK = "humaneval"
BATCH = 8  # prompts: each holds its keys and values for up to 1024 further tokens
_MOST_TOKENS = 1024  # lm-eval's own bound for an answer


def require_permission(settings: Settings) -> None:
    """Check that programs of a model may be run on this host and can be isolated.

    Raises:
        Refused: Otherwise.
    """
    if not settings.allow_code_execution:
        raise Refused(
            "the task runs programs that the model writes, and this host does not allow it",
            f"task {TASK}",
            "Leave it out; or let the host's operator set SARQC_ALLOW_CODE_EXECUTION=true: such programs then run "
            "here, isolated and bounded.",
        )
    require_isolation()


@contextmanager
def definition() -> Iterator[None]:
    """Let lm-eval read the task's definition within this context.

    Otherwise lm-eval fetches a metric from the Hub and tries it.
    """
    import evaluate

    fetch = evaluate.load
    evaluate.load = lambda *_, **__: SimpleNamespace(compute=lambda **_: None)  # judges nothing
    try:
        yield
    finally:
        evaluate.load = fetch


def arguments(max_positions: int) -> dict[str, Any]:
    """Return the arguments of ``simple_evaluate``: answer greedily, within the model's positions, and judge nothing."""
    tokens = min(_MOST_TOKENS, max_positions // 2)
    return {"predict_only": True, "confirm_run_unsafe_code": True, "gen_kwargs": {"max_gen_toks": tokens}}


def judge(samples: list[dict[str, Any]], limits: Limits | None = None) -> list[ProgramResult]:
    """Run the program of each of lm-eval's samples, prompt and answer as its filter joined them, against its tests.

    Tests see the prompt too: some call a function that it defines.
    """
    programs = []
    for sample in samples:
        written, row = sample["filtered_resps"][0][0], sample["doc"]
        tests = row["test"]
        programs.append(Program(f"{written}\n{tests}", f"{row['prompt']}\n{tests}", row["entry_point"]))
    return run_programs(programs, limits)


def score(samples: list[dict[str, Any]], loaded: LoadedModel) -> dict[str, Any]:
    """Judge the samples and write 0 or 1 into each as its ``acc``.

    Returns:
        The protocol's entries on the decoding of the answers, the bounds of the programs, and their results.
    """
    outcomes = judge(samples)
    for sample, outcome in zip(samples, outcomes, strict=True):
        sample["acc"] = int(outcome.result == "passed")
    limits, positions = Limits(), loaded.checkpoint.max_positions
    tokens = arguments(positions)["gen_kwargs"]["max_gen_toks"]
    prompts = [loaded.tokenizer(sample["arguments"][0][0])["input_ids"] for sample in samples]
    cut = sum(len(prompt) > positions - tokens for prompt in prompts)
    return {
        "metric": "pass@1",
        "decoding": "greedy, one answer",
        "max_new_tokens": tokens,
        "program_limits": f"{limits.cpu_seconds} s of CPU, {limits.wall_seconds:g} s in all, "
        f"{limits.memory_bytes >> 20} MiB, no network",
        "outcomes": dict(Counter(outcome.result for outcome in outcomes)),
    } | ({"prompts_without_their_beginning": cut} if cut else {})
