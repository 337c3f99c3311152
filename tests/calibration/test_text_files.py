"""Rows and chats of files become the tokens of their texts, and what is no text is refused in one sentence."""

import csv
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
from transformers import PreTrainedTokenizerFast

from sarqc.calibration import text_files
from sarqc.calibration.corpora import Text, declared_files, described, draw_sequences, lines_in, read_corpus, text_of
from sarqc.engine.plan import plan
from sarqc.errors import Refused, TooLarge
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.recipe import Recipe
from sarqc.settings import Settings

TEXTS = ["Once upon a time", 'there was "a fox",\nwith\ta tail', "é and \u2028 and {braces}", ""]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message.role }}: {{ message.content }}{{ eos_token }}{% endfor %}"
    "{% if strftime_now is defined %}{{ strftime_now('%Y-%m-%d') }}{% endif %}"
)
CHATS = [
    [{"role": "user", "content": "Who is there?"}, {"role": "assistant", "content": "A fox."}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why <s> and {braces}?"}],
]
SHARE_GPT = [
    [{"from": {"user": "human", "assistant": "gpt"}.get(m["role"], m["role"]), "value": m["content"]} for m in chat]
    for chat in CHATS
]


def separated(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)


def lines(path: Path, rows: list[Any]) -> None:
    path.write_text("\ufeff" + "\r\n".join(json.dumps(row) for row in rows) + "\n\n", encoding="utf-8")


WRITERS: dict[str, Callable[[Path, list[Any]], object]] = {
    ".jsonl": lines,
    ".ndjson": lines,
    ".json": lambda path, rows: path.write_text(json.dumps(rows, indent=1)),
    ".csv": separated,
    ".tsv": separated,
    ".parquet": lambda path, rows: parquet.write_table(pyarrow.Table.from_pylist(rows), path),
}


@pytest.fixture
def checkpoint(tiny_llama: Path) -> Checkpoint:
    return read_checkpoint(tiny_llama, "tiny-llama")


@pytest.fixture
def chatting(tiny_llama: Path, tmp_path: Path) -> Checkpoint:
    """A model with a chat template."""
    folder = shutil.copytree(tiny_llama, tmp_path / "chatting")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return read_checkpoint(folder, "chatting")


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize("name", ["text", "content"])
def test_rows_have_the_tokens_of_their_texts(
    settings: Settings, checkpoint: Checkpoint, tmp_path: Path, ending: str, name: str
) -> None:
    path = tmp_path / f"a#b{ending}"
    WRITERS[ending](path, [{"id": number, name: text, "score": 0.5} for number, text in enumerate(TEXTS)])
    expected = Tokenizer.from_file(str(checkpoint.folder / "tokenizer.json")).encode("\n\n".join(TEXTS)).ids
    text = text_of(str(path), checkpoint, settings)
    assert text.ids.tolist() == expected
    assert (text.rows, text.corpus) == (4, f'{path}, 4 rows, joined by "\\n\\n"')
    assert text_of(f"{path}#{name}", checkpoint, settings).ids.tolist() == expected


def test_other_shapes_of_the_same_rows(settings: Settings, tmp_path: Path) -> None:
    expected = "\n\n".join(TEXTS)
    for file, content in {
        "strings.jsonl": "\n".join(map(json.dumps, TEXTS)),
        "strings.json": json.dumps(TEXTS),
        "under text.json": json.dumps({"text": TEXTS}),
        "under data.JSON": json.dumps({"data": [{"a": text} for text in TEXTS]}),
    }.items():
        (tmp_path / file).write_text(content)
        assert read_corpus(str(tmp_path / file), settings) == expected, file


def test_several_columns_of_text(settings: Settings, tmp_path: Path) -> None:
    for ending, write in WRITERS.items():
        path = tmp_path / f"rows{ending}"
        write(path, [{"prompt": "a", "answer": "b"}, {"prompt": "c", "answer": "d"}])
        with pytest.raises(Refused, match="2 columns have text: “prompt”, “answer”"):
            read_corpus(str(path), settings)
        assert read_corpus(f"{path}#answer", settings) == "b\n\nd"
        with pytest.raises(Refused, match="row 1 has no text in “words”"):
            read_corpus(f"{path}#words", settings)


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize(("column", "chats"), [("messages", CHATS), ("conversations", SHARE_GPT)])
def test_chats_have_the_tokens_of_the_chat_template(
    settings: Settings, chatting: Checkpoint, tmp_path: Path, ending: str, column: str, chats: list[Any]
) -> None:
    path = tmp_path / f"chats{ending}"
    WRITERS[ending](path, [{"prompt": "unread", column: chat} for chat in chats])
    own = PreTrainedTokenizerFast(
        tokenizer_file=str(chatting.folder / "tokenizer.json"), bos_token="<s>", eos_token="</s>",
        chat_template=TEMPLATE.replace("{{ strftime_now('%Y-%m-%d') }}", "2024-07-26"),
    )  # fmt: skip
    each = [own.apply_chat_template(chat, tokenize=True, return_dict=False) for chat in CHATS]
    assert all(ids[0] == own.bos_token_id for ids in each)
    text = text_of(str(path), chatting, settings)
    assert text.ids.tolist() == sum(each, [])
    assert (text.rows, text.corpus) == (2, f"{path}, 2 chats, written by the chat template")
    begun = text_of(str(path), chatting, settings, begin="auto")
    assert begun.begin.ids == (own.bos_token_id,)
    assert begun.ids.tolist() == sum((ids[1:] for ids in each), [])  # each sequence begins with it instead


def test_contents_in_parts_and_tools(settings: Settings, tmp_path: Path) -> None:
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
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "the chat template"),
    ],
)
def test_a_template_that_can_not_write(
    settings: Settings, chatting: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: str | None,
    words: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("sarqc.models.chats._CPU_SECONDS", 12)
    path = chatting.folder / "chat_template.jinja"
    path.unlink() if template is None else path.write_text(template)
    lines(tmp_path / "chats.jsonl", [{"messages": CHATS[0]}])
    with pytest.raises(Refused, match=words):
        text_of(str(tmp_path / "chats.jsonl"), chatting, settings)


BAD_ROWS = {
    "nan.jsonl": b'{"text": "a", "n": NaN}',
    "deep.jsonl": b'{"text": ' + b"[" * 100_000,
    "deep.json": b"[" * 100_000,
    "number.json": b'[{"text": ' + b"9" * 10_000 + b"}]",
    "cut.jsonl": b'{"text": "a"}\n{"text": "b',
    "surrogate.jsonl": b'{"text": "\\ud800"}',
    "latin.jsonl": '{"text": "é"}'.encode("latin-1"),
    "utf16.jsonl": '{"text": "a"}'.encode("utf-16"),
    "nul.jsonl": b'{"text": "a\\u0000b"}',
    "numbers.jsonl": b"1\n2",
    "lists.json": b'[["a"]]',
    "other.json": b'{"words": ["a"]}',
    "both.json": b'{"text": ["a"], "data": ["b"]}',
    "lines.json": b'{"text": "a"}\n{"text": "b"}',
    "mixed.jsonl": b'{"text": "a"}\n{"text": ["b"]}',
    "missing.jsonl": b'{"text": "a"}\n{"words": "b"}',
    "none.jsonl": b'{"a": 1}',
    "empty.jsonl": b"\n",
    "role.jsonl": b'{"conversations": [{"from": "nobody", "value": "a"}]}',
    "picture.jsonl": b'{"messages": [{"role": "user", "content": [{"type": "image"}]}]}',
    "no messages.jsonl": b'{"messages": []}',
    "two.jsonl": b'{"messages": [{"role": "user", "content": "a"}], "text": "b"}',
    "fields.csv": b"text\na,b\n",
    "twice.csv": b"text,text\na,b\n",
    "quote.csv": b'text\n"a\n',
    "no rows.csv": b"text\n",
    "plain.parquet": b"once upon a time",
    "rows.txt": b'{"text": "a"}\n{"text": "b"}',
    "array.txt": b'\xef\xbb\xbf[\n{"text": "a"}]',
    "nul.txt": b"a\0b",
    "text.txt.gz": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows(settings: Settings, checkpoint: Checkpoint, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BAD_ROWS[name])
    with pytest.raises(Refused, match=name) as refused:
        text_of(str(tmp_path / name), checkpoint, settings)
    assert refused.value.remedy
    assert len(str(refused.value)) < 700
    assert "\n" not in str(refused.value)


def test_long_fields_are_read_and_bombs_are_not(settings: Settings, tmp_path: Path) -> None:
    long = "a b " * (5 << 18)
    for ending, write in WRITERS.items():
        write(tmp_path / f"long{ending}", [{"text": long}])
        assert read_corpus(str(tmp_path / f"long{ending}"), settings) == long
    bomb, small = tmp_path / "bomb.parquet", settings.model_copy(update={"text_mib": 1})
    parquet.write_table(pyarrow.table({"text": ["a" * 1000] * 20_000}), bomb)
    assert bomb.stat().st_size < 2**20
    with pytest.raises(TooLarge, match="SARQC_TEXT_MIB"):
        read_corpus(str(bomb), small)


def test_a_reader_ends_at_its_limits(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "_MEMORY", 1 << 28)
    path = tmp_path / "objects.json"
    path.write_text("[" + "{}," * 10_000_000 + "{}]")
    with pytest.raises(Refused, match=r"can't be read within .* 0\.25 GiB"):
        read_corpus(str(path), settings)


def test_a_byte_order_mark_is_no_token(settings: Settings, checkpoint: Checkpoint, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("Once upon a time")
    (tmp_path / "marked.txt").write_text("Once upon a time", encoding="utf-8-sig")
    plain, marked = (text_of(str(tmp_path / f"{name}.txt"), checkpoint, settings) for name in ("plain", "marked"))
    assert np.array_equal(plain.ids, marked.ids)


@pytest.mark.parametrize("text", ["{name} said: [1]", "[1] A footnote\n[2] Another", "{\n  a block of code;\n}", "[1]"])
def test_brackets_do_not_make_json(settings: Settings, tmp_path: Path, text: str) -> None:
    (tmp_path / "text.txt").write_text(text)
    assert read_corpus(str(tmp_path / "text.txt"), settings) == text


def test_declared_files_of_rows(settings: Settings, tmp_path: Path) -> None:
    lines(tmp_path / "rows.jsonl", [{"a": "x", "b": "y"}])
    (tmp_path / "other.bin").write_bytes(b"a")
    here = settings.model_copy(update={"text_dirs": str(tmp_path)})
    assert list(declared_files(here)) == ["rows.jsonl"]
    assert read_corpus("rows.jsonl#b", here) == "y"
    assert described("rows.jsonl#b", here) == 'rows.jsonl#b, 1 rows, joined by "\\n\\n"'


def test_lines_of_the_test_text_that_calibration_has(settings: Settings, tmp_path: Path) -> None:
    def numbered(numbers: range) -> str:
        return "\n".join(f"This is line number {number} of a text.\n}}" for number in numbers)

    recipe = {"model": "tiny-llama", "samples": 2, "length": 32, "group_size": 32}
    names = [str(tmp_path / f"{name}.txt") for name in ("calibration", "test", "unseen")]
    for name, numbers in zip(names, (range(100), range(150, 49, -1), range(200, 300)), strict=True):
        Path(name).write_text(numbered(numbers))
    shown = plan(Recipe.parse(recipe | {"calibration": names[0], "test": names[1]}), settings)
    assert any("50 of the 101 longer lines of the test text (49.5%)" in words for words in shown.warnings)
    unseen = plan(Recipe.parse(recipe | {"calibration": names[0], "test": names[2]}), settings)
    assert not any("longer lines" in words for words in unseen.warnings)


def test_a_plan_counts_rows_and_tokens(settings: Settings, checkpoint: Checkpoint, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines(path, [{"text": f"Line {number} of the rows of this text."} for number in range(1200)])
    recipe = Recipe.parse({
        "model": "tiny-llama", "calibration": str(path), "samples": 2, "length": 32, "group_size": 32,
    })  # fmt: skip
    tokens = len(text_of(str(path), checkpoint, settings, begin="auto").ids)
    assert plan(recipe, settings).calibration_text == f"{tokens:,} in 1,200 rows"


def test_the_remedy_for_a_short_text_helps() -> None:
    wanted = {"held_out_samples": 1, "sampling": "sequential", "seed": 0}
    text = Text("text", np.arange(9))
    with pytest.raises(Refused, match="sequences of at most 3 tokens") as refused:
        draw_sequences(text, samples=2, length=10, **wanted)
    (fix,) = refused.value.fixes
    draw_sequences(text, samples=2, **wanted, **fix.values)
    with pytest.raises(Refused, match=r"Use a longer text: each sequence takes 10 tokens\.") as refused:
        draw_sequences(text, samples=32, length=10, **wanted)
    assert refused.value.fixes == ()


def test_lines_are_counted_without_short_ones() -> None:
    text, other = Text("a", np.arange(3), lines=np.array([1, 2, 3])), Text("b", np.arange(3), lines=np.array([3, 9]))
    assert lines_in(text, other) == (1, 3)
    assert lines_in(Text("c", np.arange(3)), other) == (0, 0)
