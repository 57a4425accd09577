"""Who has replaced whom, as the runner counts claims: an adapter that claims anew for a flush replaces nobody."""

from memwal_conformance.running.claims import Claims

REGION = "6ba7b814-9dad-41d1-80b4-00c04fd430c8"


def claimed(claims: Claims, writer: str, **told: str) -> None:
    claims.sent()
    claims.answered(writer, {"writer": writer, "region_id": REGION, **told})


def test_a_claim_that_another_answer_follows_is_replaced() -> None:
    claims = Claims()
    claimed(claims, "one w", epoch="1")
    claimed(claims, "two w", epoch="2")
    assert [claims.followed(writer) for writer in ("one w", "two w", "nobody")] == [True, False, False]


def test_a_claim_without_an_answer_counts_where_a_higher_epoch_is_stored() -> None:
    claims = Claims()
    claimed(claims, "one w", epoch="1")
    assert not claims.overtaken("one w", lambda _: 2)
    claims.sent()
    assert [claims.overtaken("one w", lambda _, stored=stored: stored) for stored in (1, 2)] == [False, True]


def test_a_writer_whose_own_flush_has_claimed_anew_is_not_overtaken_by_itself() -> None:
    claims = Claims()
    claimed(claims, "one w", epoch="1")
    claims.flushed("one w", lambda _: 2)
    claims.sent()
    assert [claims.overtaken("one w", lambda _, stored=stored: stored) for stored in (2, 3)] == [False, True]


def test_a_flush_of_a_writer_that_was_replaced_has_raised_nothing() -> None:
    claims = Claims()
    claimed(claims, "one w", epoch="1")
    claimed(claims, "two w", epoch="2")
    claims.flushed("one w", lambda _: 2)
    assert claims.of("one w") == (REGION, 1)


def test_a_process_that_is_started_anew_may_use_the_name_of_a_writer_again() -> None:
    claims = Claims()
    claimed(claims, "one w", epoch="1")
    claimed(claims, "two w", epoch="2")
    claimed(claims, "one w", epoch="3")
    assert [claims.followed(writer) for writer in ("one w", "two w")] == [False, True]
    assert claims.of("one w") == (REGION, 3)


def test_a_writer_that_did_not_tell_its_epoch_is_replaced_by_an_answer_alone() -> None:
    claims = Claims()
    claimed(claims, "one w")
    claims.flushed("one w", lambda _: 2)
    claims.sent()
    assert not claims.overtaken("one w", lambda _: 9)
    assert claims.of("one w") is None
