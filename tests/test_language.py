"""Messages, plurals and numbers in the language spoken, and whole catalogues."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sarqc import language
from sarqc.language import FOLDER, LANGUAGES, speaking, tr, tr_count, tr_parts, written

ROOT = Path(__file__).resolve().parents[1]
_CATALOGUE = """
msgid ""
msgstr ""
"Language: pl\\n"
"Plural-Forms: nplurals=4; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : n!=1 ? 2 : 3);\\n"

#: assets/js/a.js sarqc/b.py
msgid "{size} of {name}"
msgstr "{name}: {size}"

#: sarqc/b.py
msgid "{count} file"
msgid_plural "{count} files"
msgstr[0] "{count} plik"
msgstr[1] "{count} pliki"
msgstr[2] "{count} plików"
msgstr[3] "{count} pliku"
"""


@pytest.fixture
def polish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A language with four forms of a plural."""
    (tmp_path / "pl.po").write_text(_CATALOGUE, encoding="utf-8")
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    language._catalogue.cache_clear()


def test_messages_in_english_are_as_they_stand() -> None:
    assert tr("{size} of {name}", size="3 MiB", name="a") == "3 MiB of a"
    assert [tr_count("{count} file", "{count} files", count) for count in (0, 1, 2)] == ["0 files", "1 file", "2 files"]
    assert written("−1,234.5") == "−1,234.5"


@pytest.mark.usefixtures("polish")
def test_another_language_has_its_own_order_plurals_and_numbers() -> None:
    with speaking("pl"):
        assert tr("{size} of {name}", size="3 MiB", name="a") == "a: 3 MiB"
        assert tr_parts("{size} of {name}", size=3, name="a") == ["a", ": ", 3]
        forms = [tr_count("{count} file", "{count} files", count) for count in (1, 2, 5, 22, 1.5)]
        assert forms == ["1 plik", "2 pliki", "5 plików", "22 pliki", "1.5 pliku"]
        assert tr_count("{count} file", "{count} files", 5, count="pięć") == "pięć plików"
        assert written("−1,234.5") == "−1\N{NO-BREAK SPACE}234,5"
        assert language.messages_of_scripts(["js/a.js", "js/c.js"]) == {
            "messages": {"{size} of {name}": "{name}: {size}"},
            "plurals": {},
            "categories": ("one", "few", "many", "other"),
        }
        assert language.messages_of_scripts(["js/c.js"])["messages"] == {}
    assert language.language() == "en"


@pytest.mark.usefixtures("polish")
def test_a_message_without_a_translation_stays_english() -> None:
    with speaking("pl"):
        assert tr("Nothing of {this}", this="that") == "Nothing of that"
        assert tr_count("{count} dog", "{count} dogs", 2) == "2 dogs"


def test_catalogues_are_whole_and_up_to_date() -> None:
    command = [sys.executable, "docs/make_catalogue.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_language_has_its_catalogue() -> None:
    assert {path.stem for path in FOLDER.glob("*.po")} == {*LANGUAGES} - {"en"}
