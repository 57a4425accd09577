from __future__ import annotations

from kit.toys import IO
from memwal.violations import Violation
from memwal_sim.oracles import Recovery, RecoveryResult, after_crash, inspected
from memwal_sim.process import Ended, Process
from memwal_sim.store import Contents

RUNS: list[str] = []


async def recover() -> str:
    """Read a name, mark the store, and read again."""
    name = (await IO.get("name")).decode()
    RUNS.append(name)
    await IO.put("mark", b"")
    await IO.get("mark")
    return name


def test_recovery_runs_on_a_copy_and_engine_code_once_per_history() -> None:
    RUNS.clear()
    recovery = Recovery(Process("recovery", recover))
    contents = [Contents({"name": b"a", "other": bytes([n])}) for n in range(5)] + [Contents({"name": b"b"})]
    assert [recovery(each) for each in contents] == [RecoveryResult(Ended("a"))] * 5 + [RecoveryResult(Ended("b"))]
    assert RUNS == ["a", "b"]
    assert "mark" not in contents[0]


def test_the_judge_sees_what_recovery_found_and_the_ghosts() -> None:
    def judge(found: str, ghosts: str) -> Violation | None:
        return None if found == ghosts else Violation("TOY", "names agree", f"{found} is not {ghosts}")

    oracle = after_crash(Process("recovery", recover), judge)
    assert oracle(Contents({"name": b"a"}), "a") is None
    assert oracle(Contents({"name": b"a"}), "b") == Violation("TOY", "names agree", "a is not b")


def test_a_recovery_that_fails_is_a_violation() -> None:
    found = after_crash(Process("recovery", recover), lambda _found, _ghosts: None)(Contents(), None)
    assert found is not None
    assert found.clause == "WRITER-013"
    assert found.reason == "recovery failed with NotFound: name was not found"


def test_a_recovery_that_does_not_end_is_a_violation() -> None:
    async def for_ever() -> None:
        while True:
            await IO.list("")

    found = after_crash(Process("recovery", for_ever), lambda _found, _ghosts: None)(Contents(), None)
    assert found is not None
    assert "did not end" in found.reason


def test_each_invariant_of_an_inspection_has_an_oracle_of_its_own() -> None:
    async def inspect() -> list[Violation]:
        names = (await IO.get("broken")).decode().split()
        return [Violation(f"X-{name}", name, f"{name} is broken", path="here") for name in names]

    ends, first, second = inspected(Process("inspector", inspect), ["first", "second"])
    both, other = Contents({"broken": b"second first"}), Contents({"broken": b"other"})
    assert first(both, None) == Violation("X-first", "first", "first is broken", path="here")
    assert second(both, None) == Violation("X-second", "second", "second is broken", path="here")
    assert [oracle(other, None) for oracle in (ends, first, second)] == [None, None, None]
    assert ends(Contents(), None) == Violation(
        "ENGINE", "the store can be inspected", "the inspection failed with NotFound: broken was not found"
    )
    assert first(Contents(), None) is None
