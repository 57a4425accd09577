"""Names: 64 binary digits with the least significant first, and the V2 scheme of table manifests, written by hand."""

from __future__ import annotations

from .case import Case, questions

BITS = {
    "0": "0" * 64,
    "1": "1" + "0" * 63,
    "2": "01" + "0" * 62,
    "5": "101" + "0" * 61,
    "10": "0101" + "0" * 60,
    "4294967296": "0" * 32 + "1" + "0" * 31,
    "9223372036854775808": "0" * 63 + "1",
    "18446744073709551614": "0" + "1" * 63,
    "18446744073709551615": "1" * 64,
}
"""Number -> digits, least significant first."""

V2 = {
    "1": "18446744073709551614",
    "2": "18446744073709551613",
    "10": "18446744073709551605",
    "1000": "18446744073709550615",
    "18446744073709551614": "00000000000000000001",
    "18446744073709551615": "00000000000000000000",
}
"""Table version -> 20 digits."""

SUFFIX = {"A": "lance", "B": "arrow", "R": "arrow"}


def _names(kind: str, numbers: dict[str, str], suffix: str) -> tuple[dict[str, bytes], list[dict[str, str]]]:
    asked = [{"kind": kind, "number": number} for number in numbers]
    return questions(asked), [{"name": f"{stem}.{suffix}"} for stem in numbers.values()]


def cases() -> list[Case]:
    """Cases of all revisions."""
    made = []
    for revision in ("A", "B", "R"):
        files, expected = _names("wal", BITS, SUFFIX[revision])
        by_hand = "Written by hand: the binary digits of each number, least significant first."
        made.append(
            Case(
                revision=revision,
                folder="name",
                name="wal_entries",
                title="A WAL entry is named by the 64 binary digits of its position, least significant first.",
                kind="name",
                directions=("eval",),
                clauses=("WAL-013",),
                compare="stem",
                derived=by_hand,
                files=files,
                expected=expected,
            )
        )
        made.append(
            Case(
                revision=revision,
                folder="name",
                name="wal_suffix",
                title=f"A WAL entry has the suffix .{SUFFIX[revision]}.",
                kind="name",
                directions=("eval",),
                clauses=("WAL-014",) if revision == "A" else ("WAL-015",),
                ambiguity="AMB-10" if revision == "B" else None,
                outcomes=({"compare": "stem"},) if revision == "B" else (),
                derived=by_hand,
                files=files,
                expected=expected,
            )
        )
        manifests = {number: stem for number, stem in BITS.items() if number != "0"}
        files, expected = _names("manifest", manifests, "binpb")
        made.append(
            Case(
                revision=revision,
                folder="name",
                name="region_manifests",
                title="A region manifest is named by the 64 binary digits of its version and .binpb.",
                kind="name",
                directions=("eval",),
                clauses=("MANIFEST-024",),
                derived=by_hand,
                files=files,
                expected=expected,
            )
        )
        files, expected = _names("table_manifest", V2, "manifest")
        made.append(
            Case(
                revision=revision,
                folder="name",
                name="table_manifests",
                title="A table manifest is named by 2^64 - 1 minus its version in 20 digits.",
                kind="name",
                directions=("eval",),
                clauses=("TXN-019", "GEN-008"),
                derived="Subtracted by hand from 18446744073709551615.",
                files=files,
                expected=expected,
            )
        )
    return made
