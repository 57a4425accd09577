"""The capacity model: what it counts on the engine, what it makes of that, and whether a soak agrees."""

from __future__ import annotations

from typing import Any

import pytest
from memwal.errors import InvalidArgument
from memwal.revisions import A, B, R
from memwal_sim.soak import costs
from memwal_sim.soak.capacity import Capacity, predict
from memwal_sim.soak.costs import CLAIM, COLLECT, EVENTUAL, FLUSH, MERGE, PUT, SNAPSHOT, STRONG, Cost, Observation, fit
from memwal_sim.soak.loads import Load, load_of
from memwal_sim.soak.prices import Prices, parse_prices
from memwal_sim.soak.run import soak
from memwal_sim.soak.settings import HOUR, MINUTE, SECOND, SoakSettings
from memwal_sim.soak.sizes import index_sizes


def total(cost: Cost) -> dict[str, float]:
    """Requests per factor, of all kinds."""
    found: dict[str, float] = {}
    for own in cost.coefficients.values():
        for name, each in own.items():
            found[name] = found.get(name, 0.0) + each
    return {name: round(each, 6) for name, each in found.items()}


def test_a_fit_finds_what_each_factor_costs_and_leaves_out_what_costs_nothing() -> None:
    seen = [
        Observation(
            operation="op",
            factors={"once": 1, "regions": regions, "noise": noise},
            counted={"table Get": 3 + 2 * regions, "region Put": regions},
        )
        for regions, noise in ((1, 5), (2, 1), (4, 2), (7, 9))
    ]
    (cost,) = fit(seen).values()
    assert {kind: {n: round(x, 6) for n, x in own.items()} for kind, own in cost.coefficients.items()} == {
        "table Get": {"once": 3.0, "regions": 2.0},
        "region Put": {"regions": 1.0},
    }
    assert cost.error < 1e-9
    assert sum(cost.of({"once": 1, "regions": 100}).values()) == pytest.approx(303)


def test_the_engine_costs_what_the_golden_table_of_requests_says() -> None:
    known = costs.measured("B", collection=True, inline=True)
    assert total(known[PUT]) == {"once": 2, "newer manifest": 3}
    assert total(known[FLUSH]) == {"once": 13}
    assert total(known[CLAIM]) == {"once": 13, "tail entries": 1}
    tail_with_a_barrier = {"once": 1, "regions": 1, "generations": 1, "tail entries": 2}
    assert sum(known[STRONG].of(tail_with_a_barrier).values()) == pytest.approx(19)
    assert all(cost.error < 0.08 for operation, cost in known.items() if operation != MERGE)
    assert known[MERGE].error < 0.18  # whose footers are read depends on dead rows, too, which no factor counts


def test_without_collection_a_put_is_one_request() -> None:
    assert total(costs.measured("B", collection=False, inline=True)[PUT])["once"] == 1


def steady() -> SoakSettings:
    return SoakSettings(
        seed=3,
        regions=3,
        keys=90,
        duration_ms=4 * HOUR,
        put_every_ms=40 * SECOND,
        flush_entries=15,
        merge_every_ms=16 * MINUTE,
        strong_read_every_ms=12 * MINUTE,
        eventual_read_every_ms=12 * MINUTE,
        check_every_ms=0,
        sample_every_ms=15 * MINUTE,
    )


def test_the_model_agrees_with_a_soak_within_a_quarter_for_each_role_and_a_tenth_for_all() -> None:
    result = soak(steady())
    assert result.violation is None
    predicted = {line.operation: line.each * line.per_day / 6 for line in predict(load_of(result)).lines}
    by_role = {role: sum(kinds.values()) for role, kinds in result.totals["requests_by_role"].items()}
    pairs = {
        "writer": predicted[PUT] + predicted[FLUSH] + predicted[CLAIM],
        "merger": predicted[MERGE],
        "snapshot builder": predicted[SNAPSHOT],
        "strong reader": predicted[STRONG],
        "eventual reader": predicted[EVENTUAL],
        "collector": predicted[COLLECT],
    }
    ratios = {role: pairs[role] / by_role[role] for role in pairs}
    assert all(0.8 < ratio < 1.25 for ratio in ratios.values()), ratios
    assert sum(pairs.values()) == pytest.approx(sum(by_role[role] for role in pairs), rel=0.1), ratios


def each(capacity: Capacity) -> dict[str, float]:
    return {line.operation: line.each for line in capacity.lines}


def test_more_regions_cost_more_where_everything_is_looked_at_and_not_where_one_region_is() -> None:
    small, large = each(predict(Load(regions=20))), each(predict(Load(regions=100)))
    assert large[FLUSH] == pytest.approx(small[FLUSH])
    assert large[EVENTUAL] == pytest.approx(small[EVENTUAL], rel=0.05)
    for operation in (MERGE, SNAPSHOT, STRONG, COLLECT):
        assert large[operation] > small[operation]


def test_further_pages_of_a_listing_are_further_requests() -> None:
    def listed(regions: int) -> float:
        capacity = predict(Load(regions=regions, inline_regions=10_000))
        line = next(line for line in capacity.lines if line.operation == STRONG)
        return line.requests["table ListFolders"]

    assert listed(2001) - listed(900) == pytest.approx(2)


def test_the_index_grows_with_every_region_and_less_where_the_snapshot_is_a_file() -> None:
    ten, inline = index_sizes(10, B, inline=True), index_sizes(100, B, inline=True)
    outside = index_sizes(100, B, inline=False)
    assert ten[1] == inline[1] == 0
    assert 20 * 90 < outside[0] - index_sizes(10, B, inline=False)[0] < 30 * 90
    assert inline[0] > outside[0] + 0.9 * outside[1]


@pytest.mark.parametrize(("revision", "kind"), [(A, "external"), (B, "external"), (R, "inline")])
def test_a_snapshot_of_many_regions_is_a_file_but_in_revision_r(revision: Any, kind: str) -> None:
    assert Load(regions=101, revision=revision.name).inline == (kind == "inline")
    assert Load(regions=100, revision=revision.name).inline


def test_money_is_requests_and_bytes_times_prices() -> None:
    prices = parse_prices(["write=10", "read=1", "list=0", "gb_month=3"])
    assert prices.of_requests({"Put": 1_000_000, "Get": 2_000_000, "List": 5}) == pytest.approx(12.0)
    assert prices.of_storage(2.0 * 30 * 86_400_000) == pytest.approx(6.0)
    free = predict(Load(), Prices(write=0, list=0, read=0, delete=0, gb_month=0))
    assert sum(free.cost_per_day().values()) == 0


@pytest.mark.parametrize("text", ["write", "write=x", "gold=1", "read=-1"])
def test_prices_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_prices([text])


@pytest.mark.parametrize(
    "values", [{"regions": 0}, {"puts_per_s": -1.0}, {"revision": "Z"}, {"puts_per_s": 10.0, "rows_per_s": 1.0}]
)
def test_loads_that_cannot_be_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Load(**values)
