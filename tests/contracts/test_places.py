"""The contract of ``Folder``, and what is built on it, for a folder and for real object storage."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sarqc.errors import Refused, Unreachable
from sarqc.extras.storage.object_storage import ObjectStorage
from sarqc.files import claims as claims_module
from sarqc.files.artefacts import ArtefactStore, chain_key
from sarqc.files.claims import Claims
from sarqc.files.places import Folder, place_at

KEYS = {name: chain_key(name) for name in "abcde"}


@pytest.fixture(params=["folder", "object_storage"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return tmp_path / "place" if request.param == "folder" else request.getfixturevalue("object_storage")


@pytest.fixture
def place(root: Path | str) -> Folder:
    return place_at(root)


def names(place: Folder) -> set[str]:
    return {entry.name for entry in place.entries()}


@pytest.mark.thorough
def test_a_file_is_what_was_written_last(place):
    assert place.read("ab/one") is None
    assert not place.touch("ab/one")
    assert place.changed("ab/one") is None
    place.remove("ab/one")
    place.write("ab/one", b"first")
    place.write("ab/one", b"sec", b"ond")
    place.write("cd/two", b"")
    assert (place.read("ab/one"), place.read("cd/two")) == (b"second", b"")
    assert place.touch("ab/one")
    assert place.changed("ab/one") is not None
    assert {(entry.name, entry.size) for entry in place.entries()} == {("ab/one", 6), ("cd/two", 0)}
    place.remove("ab/one")
    assert place.read("ab/one") is None
    assert names(place) == {"cd/two"}


def test_of_many_that_make_a_file_one_has_made_it(place):
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda number: place.make("ab/one", str(number).encode()), range(8)))
    assert sum(made) == 1
    assert place.read("ab/one") == str(made.index(True)).encode()


def test_a_place_is_known_again_by_its_mark(root, tmp_path):
    assert place_at(root).mark() == place_at(root).mark() != Folder(tmp_path / "another").mark()


def test_artefacts_are_shared_and_damage_is_seen(root, place):
    one, other = ArtefactStore(root), ArtefactStore(root)
    one.write(KEYS["a"], ".layer", b"payload")
    assert other.read(KEYS["a"], ".layer") == b"payload"
    assert other.touch(KEYS["a"], ".layer")
    (name,) = names(place)
    whole = place.read(name)
    assert whole is not None
    place.write(name, whole[:-1])
    assert not other.has(KEYS["a"], ".layer")
    assert not names(place)


def test_what_is_more_than_the_quota_goes(root, place):
    store = ArtefactStore(root)
    for key in KEYS.values():
        store.write(key, ".layer", bytes(84))
    assert store.trim(250) == 300  # each has a hash of 16 bytes
    assert len(names(place)) == 2
    assert store.trim(250) == 0
    assert store.remove_partial(0.0) == 0


def test_each_piece_of_work_goes_to_one(place, monkeypatch):
    one, other = Claims(place, 2), Claims(place, 2)
    with one.share(KEYS) as first:
        with other.share(KEYS) as second:
            assert (len(first), len(second)) == (3, 1)
            assert not {*first} & {*second}
        for claim in names(place):
            place.renew(claim)
        with other.share({name: KEYS[name] for name in first}) as second:
            assert second == []
        monkeypatch.setattr(claims_module, "STALE_SECONDS", -2.0)  # as if a minute had passed without a sign of life
        with other.share({first[0]: KEYS[first[0]]}) as second:
            assert second == [first[0]]
    assert not names(place)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("s3://somebody:secret@bucket", "//…@bucket"),
        ("file:///tmp/here", "address"),
        ("simplecache::s3://bucket", "address"),
        ("s4://bucket/prefix", "s4"),
        ("gs://bucket/prefix", "not installed"),
    ],
)
def test_what_is_no_address_is_refused_in_words(address, words):
    with pytest.raises(Refused) as caught:
        ObjectStorage(address)
    assert words in caught.value.what
    assert "secret" not in caught.value.what
    assert caught.value.where == "SARQC_STORAGE"
    assert "s3://bucket" in caught.value.remedy or "sarqc[storage]" in caught.value.remedy


@pytest.mark.parametrize("lack", ["bucket", "credentials", "server"])
def test_storage_that_cant_be_used_is_refused_before_any_work(bucket, lack, tmp_path, monkeypatch):
    from s3fs import S3FileSystem

    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    address = bucket
    match lack:
        case "bucket":
            address = "s3://no-such-bucket/sarqc"
        case "credentials":
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                monkeypatch.delenv(name)
            monkeypatch.setenv("HOME", str(tmp_path))
        case "server":
            monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    S3FileSystem.clear_instance_cache()  # a connection knows its server
    try:
        with pytest.raises(Unreachable) as caught:
            place_at(address).mark()
    finally:
        S3FileSystem.clear_instance_cache()
    assert {"bucket": "bucket does not exist", "credentials": "credentials", "server": "127.0.0.1:1"}[
        lack
    ] in caught.value.what
    assert address in caught.value.what
    assert "AWS_ENDPOINT_URL" in caught.value.remedy


@pytest.mark.parametrize(
    "name",
    [
        "..", ".", "a/../b", "%2e%2e", "a/%2E%2e/b", "a/.%2e", "a\x00b", "a%00b", "a\nb", "a\u202eb", "a//b", "/a",
        "a\\..\\b", "a%2fb", "é" * 400, "a" * 5000,
    ],
)  # fmt: skip
def test_odd_names_are_refused_before_anything_is_asked(name, monkeypatch):
    monkeypatch.setattr("fsspec.url_to_fs", None)
    with pytest.raises(Refused, match="is not an address of object storage") as refused:
        ObjectStorage(f"s3://bucket/{name}")
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("name", ["é", "日本", "a b", "a%20b", "a+b", "...", "a..b"])
def test_other_names_are_names(name, object_storage):
    if " " in name:  # no address
        with pytest.raises(Refused):
            ObjectStorage(f"{object_storage}/{name}")
        return
    place, beside = ObjectStorage(f"{object_storage}/{name}"), ObjectStorage(f"{object_storage}/beside")
    place.write("ab/one", b"1")
    assert place.read("ab/one") == b"1"
    assert [entry.name for entry in place.entries()] == ["ab/one"]
    assert not [*beside.entries()]
    place.remove("ab/one")
