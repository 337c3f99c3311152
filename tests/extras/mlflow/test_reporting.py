"""What a tracker is told, what becomes of a run whose tracker fails, what is refused. Real trackers: beside this."""

import json
import threading
from contextlib import nullcontext

import pytest

from sarqc import extras
from sarqc.errors import Refused
from sarqc.events import Event, Finished, LayerDone, PointDone, Saved, Warned
from sarqc.extras.mlflow import reporting
from sarqc.extras.mlflow.numbers import numbers_of
from sarqc.extras.mlflow.reporting import Report
from tests.test_command_line import sarqc


class Notebook:
    """A tracker that writes down what it is told; ``hinder`` is called first, each time."""

    def __init__(self, hinder=lambda what: None):
        self.hinder, self.name = hinder, "a run"
        self.said: list[str] = []
        self.metrics: dict[str, dict[int, float]] = {}
        self.kept: dict[str, list[str]] = {}
        self.told_tags: dict[str, str] = {}

    def _note(self, what):
        self.hinder(what)
        self.said.append(what)

    def begin(self):
        self._note("begin")

    def tags(self, tags):
        self._note("tags")
        self.told_tags |= tags

    def numbers(self, values, step):
        self._note("numbers")
        for name, value in values.items():
            self.metrics.setdefault(name, {})[step] = value

    def keep(self, paths, name):
        self._note("keep")
        self.kept[name] = [path.name for path in paths]

    def end(self, state):
        self._note(state)

    def where(self):
        return "a notebook"


def tell(tracker: Notebook, run) -> list[Event]:
    """Tells a tracker of a run; what is said to people on the way."""
    said = []
    with Report(tracker, said.append) as pass_on:
        for event in run[1]:
            pass_on(event)
    return said


@pytest.mark.thorough
def test_a_run_is_told_from_its_recipe_to_its_end(run):
    tracker = Notebook()
    assert tell(tracker, run) == [Saved("report", "a notebook")]
    events = run[1]
    assert (tracker.said[0], tracker.said[-1]) == ("begin", "finished")
    layers = [event for event in events if isinstance(event, LayerDone)]
    assert tracker.metrics["layer/lambda"] == {one.index: one.report["chosen"]["lam"] for one in layers}
    assert tracker.metrics["layer/relative_recon"] == {one.index: one.report["relative_recon"] for one in layers}
    summary = next(event for event in events if isinstance(event, Finished)).summary
    for name in ("perplexity", "perplexity_float", "kl", "kl_standard_error", "log_ratio", "bits_per_weight"):
        assert tracker.metrics[name] == {0: summary[name]}, name
    assert tracker.metrics["baseline/difference"] == {0: summary["baseline"]["difference"]}
    assert tracker.kept == {"study": ["study.json", "study.safetensors"], "checkpoint": ["README.md"]}
    assert tracker.told_tags == {"device": summary["device"]}


@pytest.mark.parametrize(
    ("error", "state"), [(Refused("a", "b", "c"), "failed"), (KeyboardInterrupt(), "killed"), (None, "finished")]
)
def test_the_state_is_that_of_the_run(run, error, state):
    tracker = Notebook()
    expected = nullcontext() if error is None else pytest.raises(type(error))
    with expected, Report(tracker, print):
        if error is not None:
            raise error
    assert tracker.said[-1] == state
    assert tracker.told_tags == ({"error": str(error)} if state == "failed" else {})


@pytest.mark.parametrize("refused", ["begin", "numbers", "keep", "finished"])
def test_a_tracker_that_fails_is_one_warning_and_nothing_more_is_told(run, refused):
    def hinder(what):
        if what == refused:
            raise ConnectionError("https://ann:secret@tracker.example is away")

    tracker = Notebook(hinder)
    (warned,) = tell(tracker, run)
    assert isinstance(warned, Warned)
    assert (warned.where, refused in tracker.said) == ("--report mlflow", False)
    assert "ConnectionError" in warned.what
    assert "secret" not in warned.what


def test_a_tracker_that_does_not_answer_is_waited_for_so_long_and_no_longer(run, monkeypatch):
    monkeypatch.setattr(reporting, "PATIENCE", 0.2)
    answers = threading.Event()
    tracker = Notebook(lambda what: None if what == "begin" else answers.wait() and None)
    (warned,) = tell(tracker, run)
    assert isinstance(warned, Warned)
    assert "no answer for 0.2 seconds" in warned.what
    assert tracker.said == ["begin"]
    answers.set()


def test_lambda_is_a_metric_beside_those_of_its_point():
    ((values, step),) = numbers_of(PointDone("a", 3, 9, 0.25, 0.1, None, 0.2, float("nan")))
    assert step == 3
    assert {name: values[name] for name in ("curve/lambda", "curve/relative_recon", "curve/relative_sar")} == {
        "curve/lambda": 0.25,
        "curve/relative_recon": 0.1,
        "curve/relative_sar": 0.2,
    }
    assert "curve/relative_drift" not in values


def test_what_can_not_be_told_is_refused_before_any_work(random_llama, text_file, tmp_path, monkeypatch):
    state = tmp_path / "state"
    flags = ["--model", str(random_llama), "--calibration", str(text_file), "--method", "rtn", "--json"]
    unknown = sarqc("quantize", *flags, "--report", "wandb", SARQC_STATE_DIR=str(state))
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    absent = sarqc("quantize", *flags, "--report", "mlflow", SARQC_STATE_DIR=str(state))
    assert [unknown.returncode, absent.returncode] == [2, 2]
    assert "mlflow" in json.loads(unknown.stdout)["error"]["remedy"]
    error = json.loads(absent.stdout)["error"]
    assert (error["where"], error["remedy"]) == ("--report mlflow", "pip install 'sarqc[mlflow]'")
    assert not state.exists()
