"""Region values: buckets from mmh3, date parts and truncation written by hand, revision R against pylance."""

from __future__ import annotations

import datetime
from typing import Any

import lance
import pyarrow as pa
from lance.mem_wal import ShardingField, ShardingSpec, evaluate_sharding_spec

from .case import Case, questions
from .hashes import LEAST, NUMBERS, R_VALUES, TEXTS, cell, r_hash, textbook

Values = list[Any]


def _spec(transform: str, result: str, *, sources: list[int] | None = None, **parameters: str) -> dict[str, Any]:
    field = {
        "field_id": "f",
        "source_ids": [str(s) for s in sources or [0]],
        "transform": transform,
        "result_type": result,
        "parameters": parameters,
    }
    return {"spec_id": "1", "fields": [field]}


def _asked(spec: dict[str, Any], kind: str, values: Values, field_id: int = 0) -> dict[str, Any]:
    column = {"name": "c", "type": kind, "nullable": True}
    rows = [[cell(kind, value)] for value in values]
    return {"spec": spec, "field_ids": [str(field_id)], "rows": {"columns": [column], "rows": rows}}


def _answer(kind: str, values: Values) -> dict[str, Any]:
    return {"values": [[cell(kind, value)] for value in values]}


def _case(revision: str, name: str, title: str, asked: list[Any], expected: list[Any], **more: Any) -> Case:
    return Case(
        revision=revision,
        folder="region",
        name=name,
        title=title,
        kind="region",
        directions=("eval",),
        files=questions(asked),
        expected=expected,
        **more,
    )


def micros(year: int, month: int, day: int, hour: int = 0, second: int = 0) -> int:
    """Microseconds since 1970 of a wall-clock time."""
    at = datetime.datetime(year, month, day, hour, 0, second)
    return int((at - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1))


TIMES = [micros(1969, 12, 31, 23, 59), micros(1970, 1, 1), micros(2000, 2, 29, 13), micros(2024, 12, 31, 23), None]
PARTS = {
    "year": ("REGION-027", [1969, 1970, 2000, 2024, None]),
    "month": ("REGION-028", [12, 1, 2, 12, None]),
    "day": ("REGION-029", [31, 1, 29, 31, None]),
    "hour": ("REGION-030", [23, 0, 13, 23, None]),
}
"""Transform -> clause, and the parts of `TIMES` by hand."""


def _bucket_cases(revision: str) -> list[Case]:
    texts = _spec("bucket", "int32", num_buckets="16")
    numbers = _spec("bucket", "int32", num_buckets="10")
    buckets = [abs(textbook(n.to_bytes(8, "little", signed=True))) % 10 for n in (*NUMBERS, *LEAST)]
    integer_kinds = ("int8", "int16", "int32", "int64", "uint8", "uint64")
    chained = textbook(b"c", seed=textbook(b"ab") & 0xFFFFFFFF)
    two = _spec("multi_bucket", "int32", sources=[0, 1], num_buckets="16")
    columns = [{"name": name, "type": "utf8", "nullable": True} for name in ("c", "d")]
    pairs = [
        [cell("utf8", "ab"), cell("utf8", "c")],
        [cell("utf8", "ab"), cell("utf8", None)],
        [cell("utf8", None)] * 2,
    ]
    return [
        _case(
            revision,
            "bucket_of_text",
            "The bucket of text is the absolute value of its hash modulo N, and NULL for NULL.",
            [_asked(texts, "utf8", [*TEXTS, None])],
            [_answer("int32", [*(abs(textbook(t.encode())) % 16 for t in TEXTS), None])],
            clauses=("REGION-031", "REGION-035", "REGION-036"),
            derived="mmh3 over the UTF-8 bytes, absolute value, modulo 16.",
        ),
        _case(
            revision,
            "bucket_of_numbers",
            "The bucket of a whole number comes from its eight bytes; a hash of -2^31 counts as 2^31.",
            [_asked(numbers, "int64", [*NUMBERS, *LEAST])],
            [_answer("int32", buckets)],
            clauses=("REGION-031",),
            ambiguity="AMB-59",
            outcomes=({"compare": "nulls"},),
            derived="mmh3 over eight little-endian bytes, absolute value without a bound on its width, modulo 10.",
        ),
        _case(
            revision,
            "bucket_range",
            "Every bucket lies between 0 and N - 1, also where the hash is -2^31.",
            [_asked(numbers, "int64", [*NUMBERS, *LEAST, -7, 7, 10**18])],
            [_answer("int32", [10])],
            compare="below",
            clauses=("REGION-038",),
            derived="The range that the text states.",
        ),
        _case(
            revision,
            "bucket_promotion",
            "Equal whole numbers are in the same bucket whatever their type.",
            [_asked(numbers, kind, [5]) for kind in integer_kinds],
            [_answer("int32", [buckets[0]])],
            compare="all_equal",
            clauses=("REGION-021",),
            derived="The text demands equality; the number itself is not compared.",
        ),
        _case(
            revision,
            "multi_bucket",
            "multi_bucket skips NULL columns and is NULL only if all of them are.",
            [{"spec": two, "field_ids": ["0", "1"], "rows": {"columns": columns, "rows": pairs}}],
            [_answer("int32", [abs(chained) % 16, abs(textbook(b"ab")) % 16, None])],
            clauses=("REGION-032", "REGION-037"),
            ambiguity="AMB-60",
            outcomes=({"compare": "nulls"},),
            derived="mmh3, each hash being the seed of the next, absolute value, modulo 16.",
        ),
    ]


WHOLE = {
    "int8": [-(2**7), 2**7 - 1],
    "int16": [-(2**15), 2**15 - 1],
    "int32": [-(2**31), 2**31 - 1],
    "int64": [-(2**63), 2**63 - 1],
    "uint8": [0, 2**8 - 1],
    "uint16": [0, 2**16 - 1],
    "uint32": [0, 2**32 - 1],
    "uint64": [0, 2**64 - 1],
    "bool": [False, True],
    "utf8": ["", "Zoë 🜁"],
}
"""Type -> its least and greatest values, or some for text."""


def _sources_case(revision: str) -> Case:
    """Two fields over the columns of the ids 9 and 4, which are the second and the first one."""
    fields = [
        {"field_id": name, "source_ids": [source], "transform": "identity", "result_type": kind, "parameters": {}}
        for name, source, kind in (("z", "9", "utf8"), ("a", "4", "int32"))
    ]
    columns = [{"name": "z", "type": "int32", "nullable": True}, {"name": "a", "type": "utf8", "nullable": True}]
    rows = [[cell("int32", 7), cell("utf8", "x")], [cell("int32", None), cell("utf8", "y")]]
    return _case(
        revision,
        "sources_by_field_id",
        "Source columns are found by their field ids, and values come in the order of the spec's fields.",
        [
            {
                "spec": {"spec_id": "3", "fields": fields},
                "field_ids": ["4", "9"],
                "rows": {"columns": columns, "rows": rows},
            }
        ],
        [{"values": [[second, first] for first, second in rows]}],
        clauses=("REGION-014", "REGION-010", "REGION-026"),
        derived="The values themselves, in the order of the fields.",
    )


def _plain_cases(revision: str) -> list[Case]:
    cut = _spec("truncate", "utf8", width="3")
    down = _spec("truncate", "int64", width="10")
    made = [
        _sources_case(revision),
        _case(
            revision,
            "identity_of_every_width",
            "identity gives whole numbers of every width, truth values and text unchanged, in their own type.",
            [_asked(_spec("identity", kind), kind, [*values, None]) for kind, values in WHOLE.items()],
            [_answer(kind, [*values, None]) for kind, values in WHOLE.items()],
            clauses=("REGION-026", "REGION-023"),
            derived="The values themselves.",
        ),
        _case(
            revision,
            "identity",
            "identity gives the value itself in its own type.",
            [
                _asked(_spec("identity", "utf8"), "utf8", ["x", "", None]),
                _asked(_spec("identity", "int64"), "int64", [-(2**63), 2**63 - 1, None]),
            ],
            [_answer("utf8", ["x", "", None]), _answer("int64", [-(2**63), 2**63 - 1, None])],
            clauses=("REGION-026", "REGION-023"),
            derived="The values themselves.",
        ),
        _case(
            revision,
            "truncate_text",
            "truncate of text keeps the first W characters, not bytes.",
            [_asked(cut, "utf8", ["abcdef", "ab", "", "Zürich", "東京都庁", None])],
            [_answer("utf8", ["abc", "ab", "", "Zür", "東京都", None])],
            clauses=("REGION-033",),
            derived="Cut by hand.",
        ),
        _case(
            revision,
            "truncate_numbers",
            "truncate of a number takes its remainder away, towards zero as in SQL.",
            [_asked(down, "int64", [0, 9, 10, 15, -1, -5, -10, -15, None])],
            [_answer("int64", [0, 0, 10, 10, 0, 0, -10, -10, None])],
            clauses=("REGION-034",),
            derived="col0 - (col0 % 10) by hand with the remainder of SQL, which has the sign of the dividend.",
        ),
        _case(
            revision,
            "missing_source",
            "A source field that is not in the schema counts as NULL.",
            [_asked(_spec("identity", "int64", sources=[7]), "int64", [1, 2])],
            [_answer("int64", [None, None])],
            clauses=("REGION-022",),
            derived="As the text says.",
        ),
    ]
    for part, (clause, expected) in PARTS.items():
        made.append(
            _case(
                revision,
                part,
                f"{part} is that part of a time without zone, also before 1970.",
                [_asked(_spec(part, "int32"), "timestamp_us", TIMES)],
                [_answer("int32", expected)],
                clauses=(clause,),
                derived="Read off the calendar by hand.",
            )
        )
    return made


def native_bucket(kind: str, value: Any, buckets: int) -> int:
    """The bucket that pylance computes for one value."""
    arrow = {"utf8": pa.string(), "bool": pa.bool_(), "float32": pa.float32(), "float64": pa.float64()}
    kinds = arrow | {"int32": pa.int32(), "int64": pa.int64()}
    batch = pa.record_batch([pa.array([value], kinds[kind])], names=["c"])
    field = ShardingField("f", [0], transform="bucket", result_type="int32", parameters={"num_buckets": str(buckets)})
    schema = lance.schema.LanceSchema.from_pyarrow(batch.schema)
    found = evaluate_sharding_spec(batch, ShardingSpec(1, [field]), schema)
    (bucket,) = found.column(0).to_pylist()
    return int(bucket)


def _r_cases() -> list[Case]:
    asked, expected = [], []
    for kind in ("int32", "int64", "utf8", "bool", "float32", "float64"):
        values = [v for k, v in R_VALUES if k == kind]
        for buckets in (8, 1000):
            numbers = [(r_hash(kind, v) & 0x7FFFFFFF) % buckets for v in values]
            native = [native_bucket(kind, v, buckets) for v in values]
            if numbers != native:
                raise SystemExit(f"the hash written out here gives {numbers} for {values}, pylance {native}")
            asked.append(_asked(_spec("bucket", "int32", num_buckets=str(buckets)), kind, [*values, None]))
            expected.append(_answer("int32", [*numbers, 0]))
    return [
        _case(
            "R",
            "bucket",
            "Revision R masks the sign bit of the hash and puts NULL into bucket 0.",
            asked,
            expected,
            clauses=("REGION-031", "REGION-038"),
            chosen="the texts ask for the absolute value of the hash, and NULL for NULL (AMB-58, least integer)",
            derived="The hash written out in the script; every bucket was computed by pylance too.",
        ),
        _case(
            "R",
            "bucket_promotion",
            "Revision R hashes a number in its own width, so that a promoted column has its rows in other buckets.",
            [_asked(_spec("bucket", "int32", num_buckets="1000"), kind, [5, -1]) for kind in ("int32", "int64")],
            [_answer("int32", [(r_hash(kind, v) & 0x7FFFFFFF) % 1000 for v in (5, -1)]) for kind in ("int32", "int64")],
            clauses=("REGION-021",),
            chosen="the texts ask for one bucket for equal numbers of every width (AMB-59, hashed bytes)",
            derived="The hash written out in the script, over 4 and 8 bytes.",
        ),
        _case(
            "R",
            "identity",
            "identity gives the value itself in its own type.",
            [_asked(_spec("identity", "int64"), "int64", [-5, 2**63 - 1])],
            [_answer("int64", [-5, 2**63 - 1])],
            clauses=("REGION-026",),
            derived="The values themselves.",
        ),
    ]


def cases() -> list[Case]:
    """Cases of all revisions."""
    return [*(c for r in ("A", "B") for c in (*_bucket_cases(r), *_plain_cases(r))), *_r_cases()]
