"""The checks that scenarios name: each gives a finding about answers, or about the store as the judge reads it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from memwal.words import counted
from memwal_sim.histories.history import History

from ..judge import content, entries, snapshots, store, structure, table
from ..judge.choice import Breach
from ..judge.wire import DamagedBytes
from ..protocol import Json
from ..vectors import BadCase, difference, rows_differ
from ..verdicts import Finding
from . import oracle
from .scenarios import Names, NothingNamed, plain_rows


@dataclass(slots=True)
class CheckContext:
    """What a check may look at."""

    root: Path
    revision: str
    names: Names
    key: tuple[str, ...]
    """Columns of the primary key."""
    history: History = History()
    storage: Mapping[str, str] = field(default_factory=dict)
    """Options under which pylance reaches files that tables name by URL."""
    written: set[tuple[str, int, str]] = field(default_factory=set)
    """Of each row that a durable write stored: the region, the epoch of the claim, and the row as `content.shown`."""

    def store(self) -> store.JudgedStore:
        """The table's folder as it is now. Raises `DamagedBytes`."""
        return store.read(self.root, self.revision, self.key, self.storage)

    def stored_epoch(self, region_id: str) -> int:
        """Epoch in the newest manifest of a region; 0 where there is none that can be read."""
        try:
            region = self.store().regions.get(region_id)
        except DamagedBytes:
            return 0
        return region.newest.epoch if region is not None and region.newest is not None else 0


def look(context: CheckContext, step: Json) -> list[Finding]:
    """The findings of one check step. Damage, and an answer without the member that is looked at, break it.

    A note of the step covers the outcome that it names: the step with the note's members in place of its own.
    """
    found = _looked(context, step)
    explained = step.get("ambiguity")
    if explained is None or all(finding.broken is None for finding in found):
        return found
    other = _looked(context, {**step, **explained})
    if any(finding.broken is not None for finding in other):
        return found
    return [replace(each, ambiguity=explained["note"]) if each.broken is not None else each for each in found]


def _looked(context: CheckContext, step: Json) -> list[Finding]:
    if step["check"] == "structure":
        return _structure(context, step)
    clauses = tuple(step.get("clauses", ()))
    try:
        broken = CHECKS[step["check"]](context, step)
    except DamagedBytes as error:
        broken = f"the judge cannot read the store: {error}"
    except NothingNamed as error:
        broken = str(error)
    if isinstance(broken, Breach):
        return [Finding(clauses=broken.clauses, broken=broken.what)]
    return [Finding(clauses=clauses, broken=broken, witness=not clauses)]


def _structure(context: CheckContext, step: Json) -> list[Finding]:
    """All structural checks; with ``of`` the one of that name, under the clauses of the step."""
    try:
        results = structure.run(context.store())
    except DamagedBytes as error:
        return [Finding(clauses=("GEN-019",), broken=f"the judge cannot read the store: {error}")]
    if "of" in step:
        cited = tuple(step["clauses"])
        results = [
            replace(r, clauses=cited, broken=tuple(replace(one, clauses=cited) for one in r.broken))
            for r in results
            if r.check == step["of"]
        ]
        if not results:
            raise BadCase(f"there is no structural check {step['of']!r}")
    if "says" in step:
        results = [replace(r, broken=tuple(one for one in r.broken if step["says"] not in one.what)) for r in results]
    found = [Finding(clauses=r.clauses, broken=None) for r in results if r.looked_at and not r.broken]
    first = {(r.check, one.clauses): f"{r.check}: {one.what}" for r in reversed(results) for one in reversed(r.broken)}
    found += [Finding(clauses=clauses, broken=told) for (_, clauses), told in reversed(first.items())]
    return found + [
        Finding(clauses=r.clauses, broken=f"{r.check}: {choice.what}", ambiguity=choice.ambiguity)
        for r in results
        for choice in r.choices[:1]
    ]


def _history(context: CheckContext, step: Json) -> str | None:
    """With ``count``: what the first so many writes allow, or some more of them, as a reader of the past may see it."""
    seen, every = plain_rows(context.names.resolve(step["of"])), context.history.writes
    least = step.get("count", len(every))
    shorter = [context.history.first(most) for most in range(len(every), least - 1, -1)]
    broken = [oracle.why_not(history, context.key, seen) for history in shorter]
    return None if None in broken else broken[0]


def _durable(context: CheckContext, _: Json) -> str | None:
    return oracle.why_not(context.history, context.key, content.live(content.durable(context.store())))


def _named(context: CheckContext, plain: list[list[Any]]) -> list[Json]:
    names = [column["name"] for column in context.names.scenario.schema]
    return [dict(zip(names, row, strict=True)) for row in plain]


def _same_rows(found: list[Json], expected: list[Json]) -> str | None:
    theirs, ours = ([json.dumps(row, sort_keys=True) for row in rows] for rows in (found, expected))
    return rows_differ(theirs, ours)


def _rows(context: CheckContext, step: Json) -> str | None:
    return _same_rows(plain_rows(context.names.resolve(step["of"])), _named(context, step["is"]))


def _ordered(context: CheckContext, step: Json) -> str | None:
    found, expected = plain_rows(context.names.resolve(step["of"])), _named(context, step["is"])
    return None if found == expected else f"the rows are {found}, expected in this order {expected}"


def _some(context: CheckContext, step: Json) -> str | None:
    found, possible = plain_rows(context.names.resolve(step["of"])), _named(context, step["is"])
    shown = [json.dumps(row, sort_keys=True) for row in found]
    if strange := [row for row in found if row not in possible]:
        return f"the row {strange[0]} is none of those that there are"
    if len(set(shown)) < len(shown):
        return f"a row is there twice: {shown}"
    return (
        None
        if len(found) == step.get("count", len(found))
        else f"{counted(len(found), 'row')}, expected {step['count']}"
    )


def _base(context: CheckContext, step: Json) -> str | None:
    return _same_rows(table.plain(table.rows(context.root, context.storage)), _named(context, step["is"]))


def _increases(context: CheckContext, step: Json) -> str | None:
    told = [name for name in step["of"] if _is_given(context, name) or not _is_answer(context, name)]
    numbers = [int(context.names.look_up(name)) for name in told]
    growing = all(a < b for a, b in pairwise(numbers))
    return None if growing else f"{' '.join(told)} are {numbers}"


def _equal(context: CheckContext, step: Json) -> str | None:
    found, expected = context.names.resolve(step["of"]), context.names.resolve(step["is"])
    return None if found == expected else f"{step['of']} is {found}, expected {expected}"


def _generations(context: CheckContext, step: Json) -> str | None:
    if "claim" in step:
        found = [_listed_under(region, step["claim"]) for region in context.store().regions.values()]
        count = sum(map(len, found))
        under = f"under the epoch of claim {step['claim']}"
        return None if count == step["is"] else f"{counted(count, 'generation')} listed {under}, expected {step['is']}"
    counts = [len(region.newest.generations) for region in context.store().regions.values() if region.newest]
    return None if sum(counts) == step["is"] else f"{counted(sum(counts), 'generation')} listed, expected {step['is']}"


def _listed_under(region: store.JudgedRegion, claim: int) -> list[int]:
    """Numbers of the generations that were listed under the epoch of the so-many-th claim of a region."""
    epochs = sorted({manifest.epoch for manifest in region.manifests.values()})
    return [number for epoch, number in _listings(region) if epoch == epochs[claim - 1]] if epochs[claim - 1 :] else []


def _listings(region: store.JudgedRegion) -> list[tuple[int, int]]:
    """Epoch and number of each generation, in the order in which manifests began to list them."""
    found: dict[int, int] = {}
    for manifest in region.manifests.values():
        found |= {g.number: manifest.epoch for g in manifest.generations if g.number not in found}
    return [(epoch, number) for number, epoch in found.items()]


def _numbered(context: CheckContext, step: Json) -> str | None:
    """An answer that tells no number flushed nothing."""
    answer = context.names.answers.get(step["of"][1:])
    if answer is None:
        return f"there is no answer called {step['of']}"
    told, newest = answer.get("generation"), 0
    for region in context.store().regions.values():
        numbers = [number for _, number in _listings(region)]
        if numbers != list(range(1, len(numbers) + 1)):
            return f"{region.region_id}: the generations were listed with the numbers {numbers}"
        newest = max(newest, len(numbers))
    return None if told in (None, str(newest)) else f"generation {told} was flushed, and {newest} is the newest"


def _hinted(context: CheckContext, _: Json) -> str | None:
    lacking = [name for name, region in context.store().regions.items() if region.manifests and region.hint is None]
    return f"no version hint in {', '.join(lacking)}" if lacking else None


def _flushed(context: CheckContext, step: Json) -> str | None:
    most = max((len(r.newest.generations) for r in context.store().regions.values() if r.newest), default=0)
    return (
        None
        if most >= step["is"]
        else f"{counted(most, 'generation')} of a region listed, expected {step['is']} at least"
    )


def _merged(context: CheckContext, step: Json) -> str | None:
    found = context.store()
    wrong = {region_id: found.merged(region_id) for region_id in found.regions if found.merged(region_id) != step["is"]}
    return f"merge progress is {wrong}, expected {step['is']}" if wrong else None


def _caught_up(context: CheckContext, step: Json) -> str | None:
    seen = _recorded(context.store(), step["of"])
    wrong = {region_id: generation for region_id, generation in seen.items() if generation != step["is"]}
    return f"{step['of']} has caught up with {wrong}, expected {step['is']}" if wrong else None


def _recorded(found: store.JudgedStore, index: str) -> dict[str, int]:
    """The recorded catch-up of an index with each region; one without an entry covers all that is merged."""
    recorded = {name: dict(pairs) for details in found.table.memwal for name, pairs in details.catchup}
    if index not in recorded:
        return {region_id: found.merged(region_id) for region_id in found.regions}
    return {region_id: recorded[index].get(region_id, 0) for region_id in found.regions}


def _credited(context: CheckContext, step: Json) -> str | None:
    """Of an index that is said to cover all that is merged, pylance must say that it covers all rows."""
    found = context.store()
    if any(generation < found.merged(region_id) for region_id, generation in _recorded(found, step["of"]).items()):
        return None
    count = table.unindexed_rows(context.root, step["of"], context.storage)
    return f"{step['of']} is said to cover all that is merged, and lacks {counted(count, 'row')}" if count else None


def _unindexed(context: CheckContext, step: Json) -> str | None:
    count = table.unindexed_rows(context.root, step["of"], context.storage)
    return (
        None
        if count == step["is"]
        else f"{step['of']} lacks {counted(count, 'row')} of the base table, expected {step['is']}"
    )


def _indexed(context: CheckContext, _: Json) -> str | None:
    """Each listed generation has an index under the name of every maintained one, with all its rows."""
    found = context.store()
    maintained = {name for details in found.table.memwal for name in details.maintained_indexes}
    for region in found.regions.values():
        for listed in region.newest.generations if region.newest else ():
            rows = table.rows(region.folder / listed.path, context.storage).num_rows
            have = table.indexed_rows(region.folder / listed.path, context.storage)
            if lacking := sorted(name for name in maintained if have.get(name) != rows):
                said = f"{have[lacking[0]]} of {rows} rows" if lacking[0] in have else "not there"
                return f"{region.region_id}/{listed.path}: the index {lacking[0]} is {said}"
    return None


def _entries(context: CheckContext, step: Json) -> str | None:
    regions = context.store().regions.values()
    count = sum(1 for region in regions for entry in region.wal.values() if entry.rows.num_rows)
    return None if count >= step["is"] else f"{count} WAL entries with rows are stored, expected {step['is']} at least"


def _once(context: CheckContext, _: Json) -> str | Breach | None:
    """A row that two writes of the scenario have may be in two entries."""
    written = Counter(
        content.shown(row) for write in context.history.writes for _, row in write.rows if row is not None
    )
    return entries.stored_once(context.store(), written)


def _kept(context: CheckContext, step: Json) -> str | None:
    before, after = ({content.shown(row) for row in plain_rows(context.names.resolve(name))} for name in step["of"])
    gone = sorted(before - after - {content.shown(row) for row in _named(context, step.get("is", []))})
    return f"{gone[0]} is in {step['of'][0]} and not in {step['of'][1]}" if gone else None


def _answered(context: CheckContext, step: Json) -> str | None:
    there = step["of"] in context.names.answers
    return None if there is step.get("is", True) else f"there is {'an' if there else 'no'} answer called {step['of']}"


def _is_answer(context: CheckContext, name: str) -> bool:
    return name[1:].partition(".")[0] in context.names.answers


def _is_given(context: CheckContext, name: str) -> bool:
    """Whether there is an answer with that member; some need not have all."""
    answer, _, member = name[1:].partition(".")
    return member.partition(".")[0] in context.names.answers.get(answer, {})


def _distinct(context: CheckContext, step: Json) -> str | None:
    there = [name for name in step["of"] if _is_given(context, name)]
    found = [context.names.look_up(name) for name in there]
    return f"{' '.join(there)} are {found}" if len(set(map(str, found))) < len(found) else None


def _ends(context: CheckContext, step: Json) -> str | None:
    """Nothing may have been written since the last-seen hints were set."""
    found = context.store()
    if step["of"] == "snapshots":
        said = snapshots.hints(found)
    else:
        said = {name: region.newest.last_seen for name, region in found.regions.items() if region.newest}
    for name, region in found.regions.items():
        if region.wal and said.get(name) != max(region.wal):
            return f"{name}: the last-seen hint in {step['of']} is {said.get(name)}, the WAL ends at {max(region.wal)}"
    return None


def _spec(context: CheckContext, step: Json) -> str | None:
    """Region fields and their sources in order; a source id without a column is shown as it is."""
    newest = context.store().table
    specs = [spec for details in newest.memwal for spec in details.region_specs]
    if not specs:
        return "there is no region spec"
    columns = {str(number): name for number, name in newest.columns.items()}
    found = [[f["field_id"], [columns.get(i, i) for i in f["source_ids"]]] for f in specs[-1]["fields"]]
    return None if found == step["is"] else f"the region fields and their columns are {found}, expected {step['is']}"


def _inspected(context: CheckContext, step: Json) -> str | None:
    """The regions of an answer to ``inspect``, held against the newest manifests and the merge progress."""
    said = {region["region_id"]: region for region in context.names.resolve(step["of"])["regions"]}
    found = context.store()
    if set(said) != set(found.regions):
        return f"the regions are said to be {sorted(said)}, on the store are {sorted(found.regions)}"
    for region_id, region in found.regions.items():
        manifest = None if region.newest is None else region.newest.view()
        seen = {"manifest": manifest, "merged": str(found.merged(region_id))}
        wrong = difference(seen, said[region_id])
        if wrong is not None:
            return f"{region_id}: {wrong}"
    return None


CHECKS: dict[str, Callable[[CheckContext, Json], str | Breach | None]] = {
    "history": _history,
    "durable": _durable,
    "rows": _rows,
    "ordered": _ordered,
    "some": _some,
    "base": _base,
    "increases": _increases,
    "equal": _equal,
    "generations": _generations,
    "numbered": _numbered,
    "hinted": _hinted,
    "flushed": _flushed,
    "merged": _merged,
    "caught_up": _caught_up,
    "unindexed": _unindexed,
    "credited": _credited,
    "indexed": _indexed,
    "entries": _entries,
    "ends": _ends,
    "spec": _spec,
    "inspected": _inspected,
    "once": _once,
    "kept": _kept,
    "answered": _answered,
    "distinct": _distinct,
}
"""Name of a check -> what is wrong, or None; a `Breach` has clauses of its own. ``structure`` gives findings."""
