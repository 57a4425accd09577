"""The store that is changed in place against the one that is a value, and the network in front of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent, RenameIfAbsent, StoreRequest
from memwal.stores.memory import Objects, Returned
from memwal_sim.outcomes import Fate
from memwal_sim.soak.network import Network, prefix_of
from memwal_sim.soak.settings import SoakSettings
from memwal_sim.soak.traffic import Traffic
from memwal_sim.store import Contents, perform

names = st.lists(st.sampled_from(["a", "b", "a0", "a.", "-", "ab"]), min_size=1, max_size=3).map("/".join)
folders = st.just("") | names
data = st.binary(max_size=3)
requests = st.one_of(
    st.builds(Get, names, st.integers(-4, 4), st.none() | st.integers(0, 4)),
    st.builds(Head, names),
    st.builds(List, folders),
    st.builds(ListFolders, folders),
    st.builds(PutIfAbsent, names, data),
    st.builds(Put, names, data),
    st.builds(Delete, names),
    st.builds(Copy, names, names),
    st.builds(RenameIfAbsent, names, names),
)


@given(st.lists(requests, max_size=40))
def test_a_store_that_is_changed_in_place_answers_and_ends_like_the_one_that_is_a_value(
    made: list[StoreRequest[Any]],
) -> None:
    contents, store = Contents(), Objects()
    for request in made:
        contents, expected = perform(contents, request)
        assert store.perform(request) == expected
        assert Contents(store) == contents
        assert store.size_bytes == sum(map(len, contents.objects.values()))
        assert len(store) == len(contents)


def fates_of(count: int = 20_000, **settings: Any) -> Counter[Fate]:
    network = Network(SoakSettings(**settings))
    return Counter(network.fate(Put("t/x", b""), float(at)) for at in range(count))


def test_faults_come_as_often_as_the_settings_say() -> None:
    found = fates_of(lost=0.05, applied=0.1, late=0.02, throttled=0.2)
    shares = {fate: found[fate] / 20_000 for fate in Fate}
    expected = {Fate.LOST: 0.05, Fate.APPLIED: 0.1, Fate.LATE: 0.02, Fate.THROTTLED: 0.2, Fate.NORMAL: 0.63}
    assert all(abs(shares[fate] - share) < 0.01 for fate, share in expected.items()), shares


def test_a_read_is_refused_at_times_and_its_outcome_is_never_unknown() -> None:
    network = Network(SoakSettings(lost=0.1, applied=0.1, late=0.1, throttled=0.1))
    assert {network.fate(Get("t/x"), float(at)) for at in range(1000)} == {Fate.NORMAL, Fate.THROTTLED}


def test_a_prefix_takes_so_many_requests_a_second_and_others_are_not_touched() -> None:
    network = Network(SoakSettings(prefix_writes_per_s=3))
    fates = [network.fate(Put("table/data/x", b""), 100.0) for _ in range(5)]
    assert fates == [Fate.NORMAL] * 3 + [Fate.THROTTLED] * 2
    assert network.fate(Put("table/_versions/x", b""), 100.0) is Fate.NORMAL
    assert network.fate(Get("table/data/x"), 100.0) is Fate.NORMAL
    assert network.fate(Put("table/data/x", b""), 1000.0) is Fate.NORMAL


def test_each_region_is_a_prefix_of_its_own() -> None:
    assert prefix_of("table/_mem_wal/r1/wal/0") == "table/_mem_wal/r1"
    assert prefix_of("table/_mem_wal/r2/manifest/0") == "table/_mem_wal/r2"
    assert prefix_of("table/_versions/1.manifest") == "table/_versions"


def test_latency_has_the_median_of_the_settings_and_grows_with_bytes() -> None:
    network = Network(SoakSettings(latency_ms=40.0, latency_sigma=0.5, bandwidth_bytes_per_ms=1000.0))
    there_and_back = [network.latency_ms(Get("x"), 0) for _ in range(4000)]
    assert abs(float(np.median(there_and_back)) - 20.0) < 1.0
    assert min(network.latency_ms(Get("x"), 100_000) for _ in range(50)) > 100.0


def test_the_digest_of_a_run_knows_the_moment_the_actor_the_request_its_bytes_its_fate_and_the_reply() -> None:
    def digest(
        now_ms: float = 1.0,
        actor: str = "a",
        data: bytes = b"1",
        path: str = "t/x",
        fate: Fate = Fate.NORMAL,
        answer: int | None = None,
    ) -> str:
        traffic = Traffic(5)
        traffic.record(now_ms, actor, "role", Put(path, data), fate, Returned(answer))
        return traffic.digest

    others = [
        digest(now_ms=1.5),
        digest(actor="b"),
        digest(path="t/y"),
        digest(data=b"2"),
        digest(fate=Fate.APPLIED),
        digest(answer=3),
    ]
    assert digest() == digest()
    assert len({digest(), *others}) == 7
