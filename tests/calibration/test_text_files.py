"""Rows and chats of files become the tokens of their texts, and what is no text is refused in one sentence."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from sarqc import Recipe
from sarqc.calibration import text_files
from sarqc.calibration.corpora import Text, declared_files, draw_sequences, read_corpus, text_of
from sarqc.engine.plan import plan, prepare
from sarqc.errors import Refused
from sarqc.models import chats
from sarqc.models.checkpoint import Checkpoint, read_checkpoint

TEXTS = ["Once upon a time", 'there was "a fox",\nwith\ta tail', "é and \u2028 and {braces}", ""]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message.role }}: {{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if strftime_now is defined %}{{ strftime_now('%Y-%m-%d') }}{% endif %}"
)
CHATS = [
    [{"role": "user", "content": "Who is there?"}, {"role": "assistant", "content": "A fox."}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why <s> and {braces}?"}],
]


def lines(path: Path, rows: list[Any]) -> None:
    path.write_text("\ufeff" + "\r\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path, list[Any]], object]] = {
    ".jsonl": lines,
    ".parquet": lambda path, rows: parquet.write_table(pyarrow.Table.from_pylist(rows), path),
}


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and chats are read without another process, which takes seconds for each file."""
    monkeypatch.setattr(chat_template_utils, "datetime", chat_template_utils.datetime)  # as it is afterwards
    for module in (text_files, chats):
        answer = module.answer
        monkeypatch.setattr(module, "answer_of", lambda _, request, answer=answer, **limits: answer(request))


@pytest.fixture
def checkpoint(tiny_llama: Path) -> Checkpoint:
    return read_checkpoint(tiny_llama, "tiny-llama")


@pytest.fixture
def chatting(tiny_llama: Path, tmp_path: Path) -> Checkpoint:
    """Return a model with a chat template, whose tokenizer puts a begin token before every text."""
    folder = shutil.copytree(tiny_llama, tmp_path / "chatting")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    begin = ("<s>", tokenizer.token_to_id("<s>"))
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[begin])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return read_checkpoint(folder, "chatting")


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("name", ["text", "content"])
def test_rows_have_the_tokens_of_their_texts(settings, checkpoint, tmp_path, ending, name):
    path = tmp_path / f"a#b{ending}"
    WRITERS[ending](path, [{"id": number, name: text, "score": 0.5} for number, text in enumerate(TEXTS)])
    expected = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json")).encode("\n\n".join(TEXTS)).ids
    text = text_of(str(path), checkpoint, settings)
    assert text.ids.tolist() == expected
    assert (text.rows, text.corpus) == (4, f'{path}, 4 rows, joined by "\\n\\n"')
    assert text_of(f"{path}#{name}", checkpoint, settings).ids.tolist() == expected


@pytest.mark.usefixtures("in_this_process")
def test_lines_of_texts_alone(settings, tmp_path):
    (tmp_path / "strings.JSONL").write_text("\n".join(map(json.dumps, TEXTS)))
    assert read_corpus(str(tmp_path / "strings.JSONL"), settings) == "\n\n".join(TEXTS)


@pytest.mark.usefixtures("in_this_process")
def test_several_columns_of_text(settings, tmp_path):
    for ending, write in WRITERS.items():
        path = tmp_path / f"rows{ending}"
        write(path, [{"prompt": "a", "answer": "b"}, {"prompt": "c", "answer": "d"}])
        with pytest.raises(Refused, match="2 columns have text: “prompt”, “answer”"):
            read_corpus(str(path), settings)
        assert read_corpus(f"{path}#answer", settings) == "b\n\nd"
        with pytest.raises(Refused, match="row 1 has no text in “words”"):
            read_corpus(f"{path}#words", settings)


@pytest.mark.parametrize("ending", WRITERS)
def test_chats_have_the_tokens_of_the_chat_template(settings, chatting, tmp_path, request, ending):
    if ending != ".jsonl":
        request.getfixturevalue("in_this_process")
    path = tmp_path / f"chats{ending}"
    WRITERS[ending](path, [{"prompt": "unread", "messages": chat} for chat in CHATS])
    own = PreTrainedTokenizerFast(
        tokenizer_file=str(chatting.folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>",
        chat_template=TEMPLATE.replace("{{ strftime_now('%Y-%m-%d') }}", "2024-07-26"),
    )  # fmt: skip
    each = [own.apply_chat_template(chat, tokenize=True, return_dict=False) for chat in CHATS]
    assert all(ids[0] == own.bos_token_id for ids in each)
    text = text_of(str(path), chatting, settings)
    assert text.ids.tolist() == [token for ids in each for token in ids]
    assert (text.rows, text.corpus) == (2, f"{path}, 2 chats, written by the chat template")
    begun = text_of(str(path), chatting, settings, begin="auto")
    assert begun.begin.ids == (own.bos_token_id,)
    assert begun.ids.tolist() == [token for ids in each for token in ids[1:]]  # each sequence begins with it instead


@pytest.mark.usefixtures("in_this_process")
def test_contents_in_parts_and_tools(settings, tmp_path):
    parts = [{"type": "text", "text": "Who is "}, {"type": "text", "text": "there?"}]
    calls = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "look"}}]}
    path = tmp_path / "chats.jsonl"
    lines(path, [{"messages": [{"role": "user", "content": parts, "name": None}, calls], "tools": [{"name": "look"}]}])
    (chat,) = map(json.loads, read_corpus(str(path), settings).split("\n"))
    assert chat == {
        "messages": [
            {"role": "user", "content": "Who is there?"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "look"}}]},
        ],
        "tools": [{"name": "look"}],
    }


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (None, "no chat template"),
        ("{{ raise_exception('Roles must alternate') }}", "chat 1: Roles must alternate"),
        ("{{ ''.__class__.__mro__ }}", "can't write chat 1"),
    ],
)
@pytest.mark.usefixtures("in_this_process")
def test_a_template_that_can_not_write(settings, chatting, tmp_path, template, words):
    path = chatting.folder / "chat_template.jinja"
    path.unlink() if template is None else path.write_text(template)
    lines(tmp_path / "chats.jsonl", [{"messages": CHATS[0]}])
    with pytest.raises(Refused, match=words):
        text_of(str(tmp_path / "chats.jsonl"), chatting, settings)


@pytest.mark.thorough
def test_a_template_without_an_end(chatting, monkeypatch):
    monkeypatch.setattr(chats, "_CPU_SECONDS", 12)
    loops = "{% for a in range(99999) %}" * 2 + "{% endfor %}" * 2
    (chatting.folder / "chat_template.jinja").write_text(loops)
    with pytest.raises(Refused, match="the chat template takes more than 12 s"):
        chats.chat_ids(json.dumps({"messages": CHATS[0]}), chatting.folder, "chatting", 4096)


BAD_ROWS = {
    "nan.jsonl": b'{"text": "a", "n": NaN}',
    "deep.jsonl": b'{"text": ' + b"[" * 100_000,
    "number.jsonl": b'{"text": ' + b"9" * 10_000 + b"}",
    "cut.jsonl": b'{"text": "a"}\n{"text": "b',
    "surrogate.jsonl": b'{"text": "\\ud800"}',
    "latin.jsonl": '{"text": "é"}'.encode("latin-1"),
    "utf16.jsonl": '{"text": "a"}'.encode("utf-16"),
    "nul.jsonl": b'{"text": "a\\u0000b"}',
    "numbers.jsonl": b"1\n2",
    "lists.jsonl": b'["a"]',
    "array.json": b'["a"]',
    "lines.NDJSON": b'{"text": "a"}\n{"text": "b"}',
    "mixed.jsonl": b'{"text": "a"}\n{"text": ["b"]}',
    "missing.jsonl": b'{"text": "a"}\n{"words": "b"}',
    "none.jsonl": b'{"a": 1}',
    "empty.jsonl": b"\n",
    "role.jsonl": b'{"conversations": [{"from": "human", "value": "a"}]}',
    "picture.jsonl": b'{"messages": [{"role": "user", "content": [{"type": "image"}]}]}',
    "no messages.jsonl": b'{"messages": []}',
    "two.jsonl": b'{"messages": [{"role": "user", "content": "a"}], "text": "b"}',
    "table.csv": b"text\na\n",
    "table.TSV": b"text\na\n",
    "plain.parquet": b"once upon a time",
    "rows.txt": b'{"text": "a"}\n{"text": "b"}',
    "array.txt": b'\xef\xbb\xbf[\n{"text": "a"}]',
    "nul.txt": b"a\0b",
    "text.txt.gz": b"\x1f\x8b\x08\x00",
}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(settings, checkpoint, tmp_path, name):
    (tmp_path / name).write_bytes(BAD_ROWS[name])
    with pytest.raises(Refused, match=name) as refused:
        text_of(str(tmp_path / name), checkpoint, settings)
    assert refused.value.remedy
    assert len(str(refused.value)) < 700
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("in_this_process")
def test_long_fields_are_read_and_bombs_are_not(settings, tmp_path):
    long = "a b " * (5 << 18)
    for ending, write in WRITERS.items():
        write(tmp_path / f"long{ending}", [{"text": long}])
        assert read_corpus(str(tmp_path / f"long{ending}"), settings) == long
    bomb, small = tmp_path / "bomb.parquet", settings.model_copy(update={"text_mib": 1})
    parquet.write_table(pyarrow.table({"text": ["a" * 1000] * 20_000}), bomb)
    assert bomb.stat().st_size < 2**20
    with pytest.raises(Refused, match="SARQC_TEXT_MIB"):
        read_corpus(str(bomb), small)


def test_a_reader_ends_at_its_limits(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_MEMORY", 1 << 28)
    path = tmp_path / "objects.jsonl"
    path.write_text("{}\n" * 10_000_000)
    with pytest.raises(Refused, match=r"can't be read within .* 0\.25 GiB"):
        read_corpus(str(path), settings)


def test_a_byte_order_mark_is_no_token(settings, checkpoint, tmp_path):
    (tmp_path / "plain.txt").write_text("Once upon a time")
    (tmp_path / "marked.txt").write_text("Once upon a time", encoding="utf-8-sig")
    plain, marked = (text_of(str(tmp_path / f"{name}.txt"), checkpoint, settings) for name in ("plain", "marked"))
    assert np.array_equal(plain.ids, marked.ids)


@pytest.mark.parametrize("text", ["{name} said: [1]", "[1] A footnote\n[2] Another", "{\n  a block of code;\n}", "[1]"])
def test_brackets_do_not_make_json(settings, tmp_path, text):
    (tmp_path / "text.txt").write_text(text)
    assert read_corpus(str(tmp_path / "text.txt"), settings) == text


@pytest.mark.usefixtures("in_this_process")
def test_declared_files_of_rows(settings, checkpoint, tmp_path):
    lines(tmp_path / "rows.jsonl", [{"a": "x", "b": "y"}])
    (tmp_path / "other.bin").write_bytes(b"a")
    here = settings.model_copy(update={"text_dirs": str(tmp_path)})
    assert list(declared_files(here)) == ["rows.jsonl"]
    assert read_corpus("rows.jsonl#b", here) == "y"
    assert text_of("rows.jsonl#b", checkpoint, here).corpus == 'rows.jsonl#b, 1 rows, joined by "\\n\\n"'


def test_a_test_text_that_was_calibrated_on(settings, checkpoint, tmp_path):
    """The lines of both in another order, as in rows that were shuffled and parted carelessly."""
    own = (checkpoint.folder / "calibration.txt").read_text(encoding="utf-8").split("\n")[:60]
    other = (checkpoint.folder / "test.txt").read_text(encoding="utf-8").split("\n")[:60]
    names = [str(tmp_path / f"{name}.txt") for name in ("calibration", "test", "unseen")]
    for name, part in zip(names, (own, [*other[:30], *own[:30][::-1]], other), strict=True):
        Path(name).write_text("\n".join(part), encoding="utf-8")
    recipe = {"model": "tiny-llama", "samples": 16, "length": 32, "group_size": 32, "calibration": names[0]}
    prepared = prepare(Recipe.parse(recipe | {"test": names[1]}), settings)
    seqs, test = prepared.sequences.calibration.tolist(), prepared.test.ids.tolist()
    runs = [[tuple(ids[i : i + 16]) for i in range(len(ids) - 15)] for ids in seqs]
    tests = [tuple(test[i : i + 16]) for i in range(len(test) - 15)]
    of_sequences = np.mean([run in {*tests} for each in runs for run in each])
    of_test = np.mean([any(run in each for each in runs) for run in tests])
    assert of_test > 0.05
    words = (
        f"{of_sequences:.1%} of the calibration sequences are in the test text too, and {of_test:.1%} of that in them"
    )
    assert any(words in warning for warning in prepared.shown.warnings)
    unseen = plan(Recipe.parse(recipe | {"test": names[2]}), settings)
    assert not any("in the test text too" in warning for warning in unseen.warnings)


@pytest.mark.usefixtures("in_this_process")
def test_a_plan_counts_rows_and_tokens(settings, checkpoint, tmp_path):
    path = tmp_path / "rows.jsonl"
    lines(path, [{"text": f"Line {number} of the rows of this text."} for number in range(1200)])
    recipe = Recipe.parse({
        "model": "tiny-llama", "calibration": str(path), "samples": 2, "length": 32, "group_size": 32,
    })  # fmt: skip
    tokens = len(text_of(str(path), checkpoint, settings, begin="auto").ids)
    assert plan(recipe, settings).calibration_text == f"{tokens:,} in 1,200 rows"


def test_the_remedy_for_a_short_text_helps():
    wanted = {"held_out_samples": 1, "sampling": "sequential", "seed": 0}
    text = Text("text", np.arange(9))
    with pytest.raises(Refused, match="sequences of at most 3 tokens") as refused:
        draw_sequences(text, samples=2, length=10, **wanted)
    (fix,) = refused.value.fixes
    draw_sequences(text, samples=2, **wanted, **fix.values)
    with pytest.raises(Refused, match=r"Use a longer text: each sequence takes 10 tokens\.") as refused:
        draw_sequences(text, samples=32, length=10, **wanted)
    assert refused.value.fixes == ()
