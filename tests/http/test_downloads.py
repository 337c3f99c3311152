"""Downloads of studies: nothing of them lies on a disk while they are sent, whatever is asked for."""

import io
import tempfile
import zipfile

import pytest

from sarqc.files.stored_archive import archive_parts, archive_size
from tests.http.conftest import write_study

RANGES = ("x=1", "bytes=5-1", "bytes=a-b", "bytes=", "bytes=99999999999999999999-", "bytes=0-9")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """An empty folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("wanted", RANGES)
def test_no_range_leaves_a_file(client, settings, temporary, wanted):
    study = write_study(settings.studies_dir(), "mine")
    with client.stream("GET", "/api/studies/mine/download", headers={"Range": wanted}) as answer:
        assert [*temporary.iterdir()] == []
        content = answer.read()
    assert [*temporary.iterdir()] == []
    assert answer.status_code == 200
    assert answer.headers["content-length"] == str(len(content))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        for name in ("study.json", "study.safetensors"):
            assert archive.read(f"mine/{name}") == (study.folder / name).read_bytes()


def test_the_length_is_known_before(tmp_path):
    files = {}
    for name, content in {"a": b"", "folder/b": b"b" * 700_001, "Größe": b"c"}.items():
        path = tmp_path / f"{len(files)}"
        path.write_bytes(content)
        files[name] = path
    content = b"".join(archive_parts(files))
    assert len(content) == archive_size(files)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in archive.namelist()} == {
            name: path.read_bytes() for name, path in files.items()
        }
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(5 << 30)
    assert archive_size({"large": large}) is None
