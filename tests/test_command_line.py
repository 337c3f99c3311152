"""The command line as a person meets it: exit codes, one JSON object on stdout, words on stderr."""

import contextlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from sarqc import __main__ as command_line
from sarqc import __version__
from sarqc.events import (
    BlockRounded,
    CandidateDone,
    DryRun,
    EpochDone,
    LayerDone,
    PointDone,
    RoundingChecked,
    Saved,
    Stage,
    Started,
    Warned,
)
from sarqc.extras.host.users import read_users, user_of
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from sarqc.terminal import ProgressBar, print_summary, words

ROOT = Path(__file__).resolve().parent.parent


def in_a_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own does; its imports cost more than most runs here."""
    return subprocess.run(
        [sys.executable, "-m", "sarqc", *arguments], cwd=ROOT, env=os.environ | environment, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip


def sarqc(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command does, in this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["sarqc", *arguments])
        for name, value in environment.items():
            patch.setenv(name, value)
        on_sigterm = signal.getsignal(signal.SIGTERM)
        try:
            command_line.main()
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.signal(signal.SIGTERM, on_sigterm)  # which a run makes a polite end
    return subprocess.CompletedProcess([*arguments], code, out.getvalue(), err.getvalue())


def answer(*arguments: str, **environment: str):
    """What a command that succeeds says in JSON."""
    done = sarqc(*arguments, "--json", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused(*arguments: str, **environment: str) -> dict[str, str]:
    """The error of a command: its line for people, and with --json one object."""
    done = sarqc(*arguments, **environment)
    assert done.returncode == 2, done
    assert done.stderr.startswith("sarqc: ")
    assert len(done.stderr.splitlines()) == 1
    return {"line": done.stderr} | (json.loads(done.stdout)["error"] if "--json" in arguments else {})


@pytest.fixture
def flags(random_llama, text_file):
    return [
        "--model", str(random_llama), "--bits", "3", "--grid", "asymmetric", "--group-size", "32", "--indivisible",
        "per_channel", "--method", "sarqc-gbs", "--lambda", "1", "--gamma", "0.5", "--calibration", str(text_file),
        "--samples", "4", "--length", "32", "--sampling", "sequential", "--test", str(text_file), "--inputs-from",
        "quantized", "--seed", "0",
    ]  # fmt: skip


@pytest.mark.thorough
def test_flags_and_a_file_are_the_same_run(flags, tmp_path):
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    first = in_a_process("quantize", *flags, "--output", str(tmp_path / "out"), "--json", **state)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert {"perplexity", "perplexity_float", "share_quantized", "layers", "bytes_after"} <= set(summary)
    assert summary["log_ratio"] == pytest.approx(math.log(summary["perplexity"] / summary["perplexity_float"]))
    assert 0 < summary["kl"] < summary["kl_99"]
    assert "GPTQ 1 % at the same grid" in summary["baseline"]["words"]
    assert summary["layers"][0]["report"]["n_tokens"] == 128
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()
    study = Study.open(tmp_path / "out" / "study")
    assert Study.open(tmp_path / "state" / "studies" / study.id) == study  # where the page looks for it
    assert "\r" not in first.stderr
    assert f"{len(study.layers)} of {len(study.layers)} layers\n" in first.stderr
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(summary["recipe"]))
    same = answer("run", str(recipe), **state)
    assert summary["written"]["parts_at"] is None
    assert {**same, "seconds": 0, "written": None} == {**summary, "seconds": 0, "written": None}

    names = dict(zip(flags[::2], flags[1::2], strict=True))
    given = [part for flag in ("--model", "--calibration") for part in (flag, names[flag])]
    for folder, more in (("study", []), ("model", given)):
        verified = sarqc(
            "verify", str(tmp_path / "out" / folder), *more, "--layers", "1", "--seed", "2", "--json", **state
        )
        assert verified.returncode == 0, verified.stdout
        said = json.loads(verified.stdout)
        assert (said["outcome"], said["stamp"], said["seed"]) == ("equal", summary["stamp"], 2)
    elsewhere = sarqc("verify", str(tmp_path / "out" / "model"), **state)  # the stamp has no folders
    assert elsewhere.returncode == 2
    assert "unchecked  float model" in elsewhere.stdout
    weights = tmp_path / "out" / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    changed = sarqc("verify", str(tmp_path / "out" / "model"), *given, **state)
    assert changed.returncode == 1
    assert "It is not what its stamp says." in changed.stdout


@pytest.mark.thorough
def test_storage_that_cant_be_used_ends_with_2(flags, bucket, tmp_path):
    environment = {"SARQC_STORAGE": "s3://no-such-bucket/here", "SARQC_STATE_DIR": str(tmp_path / "state")}
    error = refused("quantize", *flags, "--json", **environment)
    assert (error["where"], error["kind"]) == ("SARQC_STORAGE", "unreachable")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--format", "gguf"], "gguf"),
        (["--format", "packed", "--grid", "symmetric"], "folder"),
        (["--lambda", "nan"], "lambda"),
        (["--lambda", "abc"], "lambda"),
        (["--indivisible", "refuse"], "group"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--calibration", "no-such-file.txt"], "no-such-file.txt"),
        (["--group-size", "many"], "group_size"),
    ],
)
def test_a_wrong_recipe_ends_with_2(flags, change, words):
    error = refused("quantize", *flags, *change, "--json")
    assert words in error["what"] + error["where"]
    assert error["remedy"]
    assert words in error["line"]


def test_an_empty_text_is_refused(flags, tmp_path):
    (tmp_path / "empty.txt").touch()
    assert "empty" in refused("quantize", *flags, "--test", str(tmp_path / "empty.txt"))["line"]


@pytest.mark.thorough
def test_a_hub_that_is_away_is_one_sentence(flags):
    for offline in ("0", "1"):
        result = in_a_process("quantize", *flags, "--model", "meta-llama/Llama-2-7b-hf", HF_HUB_OFFLINE=offline)
        assert result.returncode == 2
        assert "Hub" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.thorough
def test_interrupted_politely_it_keeps_its_layers(tmp_path):
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    arguments = [
        "quantize", "--model", "tiny-llama", "--method", "rtn", "--bits", "2", "--calibration",
        "tiny-llama-calibration", "--samples", "32", "--length", "256", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "sarqc", *arguments], cwd=ROOT, env=os.environ | state, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not list(tmp_path.glob("state/artefacts/*/*.layer")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert process.returncode == 130
    kept = len(list(tmp_path.glob("state/artefacts/*/*.layer")))
    assert kept > 0
    partial = list(tmp_path.glob("state/artefacts/*/.partial-*"))
    assert partial == []


def test_help_names_every_field():
    text = sarqc("quantize", "--help", COLUMNS="200").stdout
    for flag in ("--lambda", "--gamma", "--group-size", "--indivisible", "--inputs-from", "--held-out-samples"):
        assert flag in text
    assert text.count("A path is taken too") == 4
    assert not any("path is taken" in str(info.description) for info in Recipe.model_fields.values())  # the form's help


def test_auto_is_a_value_of_lambda_and_gamma(flags):
    assert sarqc("plan", *flags, "--lambda", "auto", "--gamma", "auto", "--json").returncode == 0


def test_names_that_are_numbers_are_names(monkeypatch):
    names = {"model": "2024", "revision": "1.0", "calibration": "12e4567", "test": "007", "only": "3", "tasks": "5"}
    seen = []
    monkeypatch.setattr(command_line.Recipe, "parse", lambda document: seen.append(document) or Recipe(**document))
    flags = [part for name, text in names.items() for part in (f"--{name}", text)]
    done = sarqc("plan", *flags, "--lambda", "1e-2")
    assert (done.returncode, "“2024”" in done.stderr) == (2, True)
    assert seen == [names | {"lambda": 0.01}]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
WRONG_FILES = {
    "an alias bomb": (BOMB, "aliases"),
    "3,000 levels": ("a: " + "[" * 3000 + "]" * 3000, "levels"),
    "levels of names": ("".join(" " * level + "a:\n" for level in range(100)), "levels"),
    "a tag for Python": ("a: !!python/object:os.system {}", "constructor"),
    "bytes": ("a: !!binary aGVsbG8=", "not JSON serializable"),
    "a set of dates": ("a: [[!!timestamp 2020-01-01]]", "not JSON serializable"),
    "a number without end": ("a: " + "1" * 5000, "integer string conversion"),
    "half of a character": ('a: "\\ud800"', "surrogates"),
    "no text": (b"\xff\xfe\x00", "can't"),
    "not a list of names": ("- a", "names and values"),
    "two MiB": ("#" * (2 << 20), "1 MiB"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRONG_FILES)
def test_a_wrong_file_is_one_sentence(name, tmp_path):
    content, what = WRONG_FILES[name]
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert what in refused("run", str(path), "--json")["what"]
    if name != "not a list of names":
        assert what in refused("survey", str(path), "--output", str(tmp_path / "study"))["line"]
    assert not (tmp_path / "study").exists()


def test_a_date_in_a_list_is_a_text(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("model: [2020-01-01, 2020-01-02]\ncalibration: x\n")
    assert "2020-01-01" in refused("run", str(path), "--json")["what"]
    path.write_text("bits: [[2020-01-01]]\nmodel: x\ncalibration: x\n")
    assert refused("run", str(path), "--json")["what"].startswith("bits is")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "value"),
    [("PORT", "abc"), ("PORT", "70000"), ("WEIGHTS", "some"), ("CACHE_GIB", "-1"), ("CACHE_GIB", "much"),
     ("DEVICE", "foo"), ("DEVICE", "cuda:x")],
)  # fmt: skip
def test_a_wrong_setting_is_one_sentence_before_any_work(name, value, flags, monkeypatch):
    monkeypatch.setenv(f"SARQC_{name}", value)
    for command in (["plan", *flags, "--json"], ["quantize", *flags, "--json"]):
        error = refused(*command)
        assert error["where"] == f"SARQC_{name}"
        assert value in error["what"]
        assert error["remedy"]
    assert f"SARQC_{name}" in refused("doctor")["line"]


@pytest.mark.parametrize("output", ["/proc/x/y", "/dev/full/x", "{file}", "{file}/x"])
def test_an_output_that_can_not_be_made_is_refused_before_any_work(output, flags, tmp_path, monkeypatch):
    monkeypatch.setenv("SARQC_STATE_DIR", str(tmp_path / "state"))
    (tmp_path / "file").write_text("mine")
    output = output.format(file=tmp_path / "file")
    assert output in refused("quantize", *flags, "--output", output, "--json")["where"]
    survey = ROOT / "assets" / "studies" / "tiny-llama.yaml"
    assert output in refused("survey", str(survey), "--output", output)["line"]
    assert (tmp_path / "file").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


def test_a_survey_does_not_replace_what_is_no_study(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    survey = ROOT / "assets" / "studies" / "tiny-llama.yaml"
    assert "not a study" in refused("survey", str(survey), "--output", str(tmp_path))["line"]
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_state_folder_that_can_not_be_written(flags, monkeypatch):
    monkeypatch.setenv("SARQC_STATE_DIR", "/proc/nothing/here")
    assert "/proc/nothing/here" in refused("quantize", *flags, "--json")["where"]


@pytest.mark.thorough
def test_no_traceback_from_a_process_either(tmp_path):
    app = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=os.environ | {"SARQC_PORT": "abc"}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    for done in (app, in_a_process("serve", SARQC_PORT="abc"), in_a_process("run", str(tmp_path), "--json")):
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_words_of_the_progress_bar():
    fits = DryRun("model.layers.0", "model.layers.0.mlp.down_proj", 3 << 30, 80 << 30, 1.5)
    assert words(fits) == "the largest layer fits: 3 GiB of 80 GiB at the peak"
    assert words(EpochDone(3, 12, 40, 0.8712, 1.0, 2.0)) == "block 3, epoch 12 of 40, objective 0.871"
    checked = RoundingChecked(3, 20, 200, 0.5, 0.01234, 0.4)
    assert words(checked) == "block 3, step 20 of at most 200, held-out error 0.0123"
    checks = [
        {"step": step, "steps": 200, "error": 1.0, "held_out_error": 0.5 - step / 100, "drift": 0.4} for step in (0, 10)
    ]
    assert words(BlockRounded(3, 10, checks)) == (
        "block 3 keeps the state after 10 of at most 200 steps, held-out error 0.5 → 0.4"
    )
    assert words(CandidateDone(0.3, 2, 10, 41.23)) == "λ = 0.3: perplexity 41.23 on the sequences kept for judging"
    assert words(PointDone("a", 6, 15, 0.1, 0.2, None, 0.3, 0.4)) == "7 of 15 λ solved"
    assert words(Stage("choosing λ", "10 values")) == "choosing λ: 10 values"
    assert words(Warned("too short", "a")) == "note: too short (a)"
    assert words(Saved("study", "here")) == "saved study: here"


class Screen(io.StringIO):
    """A terminal, as far as asking goes."""

    def isatty(self):
        return True


def told(file: io.StringIO) -> str:
    with ProgressBar(file) as progress:
        progress.tell(Stage("quantizing", "rtn, 3 bits"))
        progress.tell(Started("m", "cpu", [{"name": "a"}, {"name": "b"}], 0.5))
        progress.tell(LayerDone("a", 0, 2, {}, 0.1))
        progress.tell(Warned("too short", "a"))
        progress.tell(LayerDone("b", 1, 2, {}, 0.1, from_cache=True))
        progress.tell(Stage("saving", "study"))
    return file.getvalue()


def test_progress_is_lines_in_a_file_and_a_bar_on_a_terminal():
    lines = ["quantizing: rtn, 3 bits", "note: too short (a)", "2 of 2 layers, 1 of them from disk", "saving: study"]
    assert told(io.StringIO()).splitlines() == lines
    screen = told(Screen())
    assert "1/2" in screen  # the bar
    assert "layer/s" in screen or "s/layer" in screen
    assert all(line in screen for line in lines)


def printed(capsys: pytest.CaptureFixture[str], **more) -> str:
    base = {"share_quantized": 0.5, "perplexity": None, "tasks": {}, "layers": [{"report": {"relative_recon": 0.1}}]}
    print_summary(base | more)
    return capsys.readouterr().out


def test_the_summary_says_what_each_layer_chose(capsys):
    candidates = [{"lam": lam, "gamma": gamma} for gamma in (0.1, 0.5) for lam in (0.25, 0.5)]
    chosen = [(0.5, 0.1), (0.25, 0.1), (0.5, 0.1), (0.25, 0.5)]
    layers = [
        {"report": {"relative_recon": 0.1, "chosen": {"lam": lam, "gamma": gamma}, "candidates": candidates}}
        for lam, gamma in chosen
    ]
    text = printed(capsys, layers=layers, selection={"by": "layer"})
    found = [line for line in text.splitlines() if "of 4 layers" in line]
    assert found == [
        "chosen by “auto”      λ = 0.25, γ = 0.1   1 of 4 layers",
        "                      λ = 0.5, γ = 0.1    2 of 4 layers",
        "                      λ = 0.25, γ = 0.5   1 of 4 layers",
    ]


def test_the_summary_says_how_far_and_how_large_the_model_is(capsys):
    far = {"log_ratio": 0.2391, "log_ratio_standard_error": 0.0085, "kl": 0.324, "kl_standard_error": 0.0048,
           "kl_99": 1.757, "same_top": 0.5932, "same_top_standard_error": 0.0046}  # fmt: skip
    test = {"corpus": "text", "window": 64, "predicted_tokens": 630}
    measured = {"perplexity": 113.2, "perplexity_float": 89.1, "protocol": {"test": test}, **far}
    size = {"bytes_after": 3366400, "bits_per_weight": 2.140625}
    text = printed(capsys, **measured, **size, baseline={"words": "Lower than GPTQ."})
    for line in (
        "ln(ppl / float)       0.2391 ± 0.0085",
        "KL from float         0.3240 ± 0.0048 nats a token, 99th percentile 1.76",
        "same top token        59.3% ± 0.5%",
        "beside GPTQ           Lower than GPTQ.",
        "size                  3.21 MiB, 2.14 bits per quantized weight",
    ):
        assert f"{line}\n" in text
    single = {name: None if "error" in name else value for name, value in far.items()}
    assert "ln(ppl / float)       0.2391\n" in printed(capsys, **measured | single)
    assert "KL" not in printed(capsys, **measured | {"log_ratio": None})
    edge = "λ = 1 is the largest of the candidates."
    selection = {"by": "model", "lambda": 1, "candidates": [{"lambda": 1, "perplexity": 2}], "edge": edge}
    assert f"{edge}\n" in printed(capsys, selection=selection)


def test_the_summary_says_which_lambda_won(capsys):
    candidates = [{"lambda": 0.1, "perplexity": 41.7}, {"lambda": 0.3, "perplexity": 41.2}]
    text = printed(capsys, selection={"by": "model", "lambda": 0.3, "candidates": candidates, "protocol": {}})
    assert "λ = 0.1             perplexity 41.7\n" in text
    assert "λ = 0.3             perplexity 41.2, chosen\n" in text
    assert "auto" not in printed(capsys, selection=None)


def test_the_summary_says_where_texts_part_and_what_speed_lacks(capsys):
    texts = [
        {"prompt": "A king", "greedy": {"divergence": 4, "kl": [0.5, 1]}, "sampled": {"divergence": None, "kl": [0]}}
    ]
    speed = {"float": {"prefill": 1234.5, "decode": 56.7}, "quantized": None, "reason": "no kernel for 3 bits"}
    text = printed(capsys, texts=texts, speed=speed)
    assert "text, greedy          apart from token 5, KL 0.75 nats a token, “A king”\n" in text
    assert "text, sampled         the same text, KL 0 nats a token, “A king”\n" in text
    assert "speed, float          prefill 1234, decoding 56.7 tokens/s\n" in text
    assert "speed                 no kernel for 3 bits\n" in text


@pytest.mark.thorough
def test_a_batch_is_its_runs(flags, tmp_path):
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    document = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(flags[::2], flags[1::2], strict=True)
    }
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps(document | {"lambda": [0.1, 1], "bits": 3}))
    runs = answer("run", str(recipe), "--output", str(tmp_path / "out"), **state)["runs"]
    assert list(runs) == ["lambda=0.1", "lambda=1"]
    single = answer("quantize", *flags, **state)
    assert runs["lambda=1"]["perplexity"] == single["perplexity"] != runs["lambda=0.1"]["perplexity"]
    for name in runs:
        assert (tmp_path / "out" / name / "study" / "study.json").is_file()

    recipe.write_text(json.dumps(document | {"group_size": [32, 7], "indivisible": "refuse", "bits": 3}))
    error = refused("run", str(recipe), "--output", str(tmp_path / "other"), "--json", **state)
    assert "group_size=32" in error["where"]  # 48 channels: the first is refused already
    assert not (tmp_path / "other").exists()


def test_a_user_of_the_web_app(tmp_path):
    path = tmp_path / "users"
    said = CliRunner().invoke(
        command_line.app, ["user", "ann", "--role", "operator", "--file", str(path)], input="a good password\n" * 2
    )
    assert said.exit_code == 0, said.output
    assert "a good password" not in said.output
    users = read_users(path)
    assert users["ann"].role == "operator"
    assert user_of(users, "ann", "a good password") is not None
    assert user_of(users, "ann", "a bad password") is None


@pytest.mark.parametrize(
    ("arguments", "password"),
    [
        (["ann", "--role", "king"], "a good password"),
        (["guest-1"], "a good password"),
        (["ann"], "short"),
        (["a b"], "long enough"),
    ],
)
def test_users_that_are_refused(arguments, password, tmp_path):
    path = tmp_path / "users"
    said = CliRunner().invoke(command_line.app, ["user", *arguments, "--file", str(path)], input=f"{password}\n" * 2)
    assert (said.exit_code, said.output.splitlines()[-1][:7]) == (2, "sarqc: ")
    assert not path.exists()


def test_a_file_is_written_in_another_form(tmp_path):
    file = tmp_path / "batch.yaml"
    file.write_text("model: toy\ncalibration: a.txt\nbits: 3\nlambda: [0, 0.1]\n")
    assert sarqc("recipe", str(file)).stdout == "model: toy\ncalibration: a.txt\nlambda: [0, 0.1]\n"
    assert "http://127.0.0.1:7999/api/runs" in sarqc("recipe", str(file), "--as", "rest", SARQC_PORT="7999").stdout
    assert "https://toy/api/runs" in sarqc("recipe", str(file), "--as", "rest", "--address", "https://toy").stdout
    assert "yaml, cli, rest, python" in refused("recipe", str(file), "--as", "tex")["line"]


@pytest.mark.thorough
def test_a_checkpoint_of_others_is_inspected_and_repaired(random_llama, text_file, tmp_path):
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    texts = ["--calibration", str(text_file), "--samples", "8", "--length", "32", "--test", str(text_file)]
    texts += ["--window", "32", "--no-baseline"]
    made = ["--bits", "3", "--grid", "full_range", "--group-size", "16", "--method", "rtn", "--format", "packed"]
    rounded = sarqc("quantize", "--model", str(random_llama), *made, *texts, "--output", str(tmp_path / "out"), **state)
    assert rounded.returncode == 0, rounded.stderr
    folder = str(tmp_path / "out" / "model")

    theirs = [folder, "--original", str(random_llama), *texts]
    summary = answer("inspect", *theirs, **state)
    assert (summary["recipe"]["bits"], summary["opened"]["format"]) == (3, "compressed-tensors")
    fingerprint = Recipe.parse(summary["recipe"]).fingerprint()  # of the recipe as a page queues it: one study for both
    assert (tmp_path / "state" / "studies" / fingerprint / "study.json").is_file()

    to_new = ["--output", str(tmp_path / "new")]
    repaired = sarqc("repair", *theirs, "--lambda", "0.05", *to_new, **state)
    assert repaired.returncode == 0, repaired.stderr
    assert "The repair lowers KL from the original by" in repaired.stdout
    assert (tmp_path / "new" / "model" / "config.json").is_file()

    assert "the quantized checkpoint has 3" in refused("inspect", *theirs, "--bits", "4", **state)["line"]


def test_former_names_are_taken_with_a_word_on_the_new_ones(tmp_path):
    given = ["--model", "tiny-llama", "--calibration", "tiny-llama-calibration", "--json"]
    today, former = (sarqc("plan", *given, flag, "0.5") for flag in ("--block-fraction", "--share"))
    assert (today.returncode, today.stderr) == (0, "")
    assert former.stdout == today.stdout
    sentence = "“share” is now “block_fraction”; the former name is accepted until version 1.1"
    assert former.stderr == f"sarqc: {sentence}\n"
    assert "--share" not in sarqc("plan", "--help").stdout
    path = tmp_path / "recipe.yaml"
    path.write_text("model: tiny-llama\ncalibration: tiny-llama-calibration\nshare: 0.5\n")
    said = sarqc("recipe", str(path))
    assert said.stderr == former.stderr
    assert yaml.safe_load(said.stdout)["block_fraction"] == 0.5


def test_the_version():
    assert sarqc("--version").stdout == f"sarqc {__version__}\n"


@pytest.mark.thorough
def test_a_ladder_has_its_own_flags_and_prints_its_steps(tmp_path, random_llama, text_file):
    flags = [
        "--model", str(random_llama), "--bits", "2", "--group-size", "16", "--calibration", str(text_file), "--test",
        str(text_file), "--samples", "2", "--length", "32", "--window", "32", "--test-tokens", "320", "--draws", "2",
        "--blocks", "0", "--lambda", "0.3",
    ]  # fmt: skip
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    told = sarqc("ladder", *flags, **state)
    assert told.returncode == 0, told.stderr
    names = [line.split("  ")[0] for line in told.stdout.splitlines()[1:8]]
    assert names == [
        "Float model", "Round to nearest", "GPTQ 1 %", "+ activation order", "+ searched range", "+ λ = 0.3",
        "+ refined × 3",
    ]  # fmt: skip
    assert "It ended because all draws were made, after 18 models." in told.stdout
    assert "measuring steps: draw 2 of 2" in told.stderr
    summary = answer("ladder", *flags, **state)
    assert (summary["ladder"]["measured"], summary["layers"]) == (18, [])
    file = tmp_path / "ladder.yaml"
    file.write_text(yaml.safe_dump(summary["recipe"]))
    error = refused("run", str(file), "--output", str(tmp_path / "out"), "--json", **state)
    assert error["what"] == "a ladder leaves no study and no model"
    assert sarqc("ladder", *flags, "--method", "gptq", **state).returncode == 2
