"""A version that is named by a moment or by a tag."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import lance
import memwal
import pytest
from memwal import paths
from memwal.codec import table_manifest
from memwal.errors import InvalidArgument, NotFound
from memwal.ids import TableVersion
from memwal.stores.memory import MemoryStore
from memwal.table.time_travel import moment_ms

from ..kit.table_scene import SCHEMA, rows

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_MS = 1_795_435_200_000


@pytest.fixture
def store() -> MemoryStore:
    """Versions 1 to 8 of a table ``t``: one a minute, 3 at noon; 1 has no MemWAL yet."""
    found = MemoryStore()
    table = memwal.create("t", SCHEMA, primary_key=["id"], store=found)
    while table.version < 8:
        table.base.append(rows(table.version))
    for number in range(1, 9):
        stamp(found, number, NOON_MS + 60_000 * (number - 3))
    memwal.base_table("t", store=found).tag("kept", 5)
    return found


def stamp(store: MemoryStore, version: int, made_ms: int | None) -> None:
    """Let a version say that it is of that moment; None: that it does not say."""
    name = f"t/{paths.table_manifest(TableVersion(version))}"
    manifest = table_manifest.decode(store.objects[name], name)
    manifest.message.ClearField("timestamp")
    if made_ms is not None:
        manifest.message.timestamp.FromMilliseconds(made_ms)
    store.objects[name] = table_manifest.encode(manifest)


def opened(store: MemoryStore, timestamp: str | datetime) -> int:
    return memwal.open("t", store=store, timestamp=timestamp).version


@pytest.mark.parametrize(
    ("moment", "version"),
    [
        (NOON, 3),
        (NOON - timedelta(milliseconds=1), 2),
        (NOON + timedelta(milliseconds=59_999), 3),
        (NOON + timedelta(minutes=1), 4),
        (NOON + timedelta(minutes=4), 7),
        (NOON + timedelta(days=365), 8),
        (NOON.replace(tzinfo=None), 3),
        ("2026-11-23T12:00:00Z", 3),
        ("2026-11-23 12:00", 3),
        ("2026-11-23 13:00:59.999+01:00", 3),
        ("2026-11-24", 8),
    ],
    ids=str,
)
@pytest.mark.clause("TXN-003")
def test_a_moment_names_the_newest_version_at_or_before_it(
    store: MemoryStore, moment: str | datetime, version: int
) -> None:
    assert opened(store, moment) == version


def test_a_tag_names_its_version_and_both_are_read_as_they_were(store: MemoryStore) -> None:
    tagged = memwal.open("t", store=store, tag="kept")
    assert tagged.version == 5
    assert tagged.scan().column("id").to_pylist() == memwal.open("t", store=store, version=5).scan()["id"].to_pylist()
    with pytest.raises(InvalidArgument, match="opened at a version is read-only"):
        tagged.base.append(rows(9))


def test_a_moment_before_all_versions_is_an_error_that_says_which_there_are(store: MemoryStore) -> None:
    with pytest.raises(InvalidArgument) as error:
        opened(store, "2026-11-23 11:57:59")
    assert str(error.value) == (
        "there is no version of 2026-11-23T11:57:59+00:00 or before: "
        "the oldest one kept is of 2026-11-23T11:58:00+00:00"
    )


@pytest.mark.parametrize("text", ["noon", "", "2026-13-01", "1795435200000"])
def test_a_text_that_is_no_moment_is_an_error_with_those_that_are(store: MemoryStore, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is not a moment; write it like '2026-11-23', .* \(both UTC\)"):
        opened(store, text)


def test_a_tag_that_is_not_there_is_an_error_that_lists_the_others(store: MemoryStore) -> None:
    with pytest.raises(InvalidArgument, match=r"there is no tag 'kep'; choose one of kept\. Did you mean 'kept'\?"):
        memwal.open("t", store=store, tag="kep")


def test_a_version_is_named_once_only(store: MemoryStore) -> None:
    with pytest.raises(InvalidArgument, match="give only one of version, timestamp and tag"):
        memwal.open("t", store=store, tag="kept", version=5)
    with pytest.raises(InvalidArgument, match="only one of version, timestamp and tag"):
        memwal.open("t", store=store, tag="kept", timestamp=NOON)
    with pytest.raises(NotFound):
        memwal.open("t", store=store, version=9)


def test_versions_that_do_not_say_when_they_were_made_are_nobodys_answer(store: MemoryStore) -> None:
    for number in (3, 8):
        stamp(store, number, None)
    assert [opened(store, NOON + timedelta(minutes=minutes)) for minutes in (0, 1, 9)] == [2, 4, 7]


def test_a_moment_that_pylance_shows_names_the_version_that_pylance_made(tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    memwal.create(place, SCHEMA, primary_key=["id"])
    lance.write_dataset(rows(1), place, mode="append")
    shown = lance.dataset(place).versions()[-1]
    assert memwal.open(place, timestamp=shown["timestamp"].astimezone()).version == shown["version"]


def test_milliseconds_are_counted_from_1970_in_the_zone_that_is_named() -> None:
    assert moment_ms("1970-01-01") == 0
    assert moment_ms(datetime(1969, 12, 31, 23, 59, 59, 999_500)) == -1
    assert moment_ms(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))) == 0
