"""Plain words: pages and messages do without the riddles, persons and limbs that crept into them before."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / place for place in ("faults/INDEX.md", "benchmarks/README.md", "reference/README.md")),
    *sorted((ROOT / "conformance").glob("*/README.md")),
]
PACKAGES = (
    "reference/memwal",
    "reference/memwal_model",
    "simulator/memwal_sim",
    "conformance/memwal_conformance",
    "pipeline/memwal_spark",
)
NEVER = re.compile(
    r"\b(comes? to its end|that there is not\b|told rather than|stands? behind (it|each)\b|of all of them\.)"
    r"|(?<!there )\bis no (?:JSON|TOML|UTF-8|XML|Arrow data|number|list|folder|text|duration|literal)\b(?! is)"
    r"|\bis to be (?:a|an|one|the)\b|\b(?:all|else all) if absent\b|\b(?:for|after|with) so (?:long|many)\b"
    r"|\bso many (?:more|of them|lives|runs)\b|\bmay be given again\b|\bknown are\b|\bwhich has none\b"
    r"|\bno message of the protocol says\b|\bis of revision\b(?= [{A-Z]|$)",
    re.I,
)
"""Riddles and telegrams that were in pages and messages, such as "it is no JSON" and "all if absent"."""
PERSON = re.compile(
    r"\b(somebody|nobody|whoever|whomever|anybody|everybody|someone|anyone|everyone|no one)\b"
    r"|\b(?:for|by|to|from|than) who\b",
    re.I,
)
PERSONS = re.compile(rf"{PERSON.pattern}|\b(goes on|go on|went on|hands? on|handed on)\b", re.I)
"""A process is no person, and a program continues."""
ONE_OF_MANY = re.compile(
    r"(?<![\d,.-])\b1 (?:rows|regions|entries|files|steps|states|findings|cases|runs|keys)\b(?!\.)"
)
_ID = r"\[?(?:AMB-\d+|[A-Z]{2,}-\d{3})\]?"
ALONE = re.compile(rf"\(\s*{_ID}(?:(?:,|;| and| or| to)\s+{_ID})*\s*\)")
"""Brackets that hold nothing but ids of clauses and notes."""
HEADLESS = re.compile(
    r"not\b|no (?!\w+ follows\b)|listed\b|an? \w+ (?:(?!is\b)\w+ )?(?:without|with|above|of a kind)\b"
    r"|[^:]*: not there\b"
)
"""How a reason begins that is no sentence, such as "not an entry"; it is read behind the name of an object."""
HELP = frozenset({"Option", "Argument"})


def prose(page: str) -> str:
    """``page`` without code, links' targets and quoted names."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    page = re.sub(r"^(?:    |\t).*$", "", page, flags=re.M)
    return re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", page)


def found(text: str) -> list[str]:
    return [match[0] for kind in (NEVER, PERSONS, ONE_OF_MANY) for match in kind.finditer(text)]


def messages(source: str) -> Iterator[str]:
    """Texts that a program raises, and helps of its command's options."""
    for node in ast.walk(ast.parse(source)):
        name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Raise) or name in HELP:
            for each in ast.walk(node):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value


def reasons(source: str) -> Iterator[str]:
    """What each `ArtifactError` of a program says of an object, up to the first value."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ArtifactError":
            for each in node.args[2:3]:
                first = each.values[0] if isinstance(each, ast.JoinedStr) else each
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    yield first.value


def numbered(source: str) -> Iterator[str]:
    """Where a program tells an error of the operating system as Python prints it: "[Errno 2] No such file: 'x'".

    Arrow raises them of bytes in memory, too, without numbers.
    """
    for handler in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)):
        kinds = {each.id for each in ast.walk(handler.type or handler) if isinstance(each, ast.Name)}
        kinds |= {each.attr for each in ast.walk(handler.type or handler) if isinstance(each, ast.Attribute)}
        for each in ast.walk(handler) if "OSError" in kinds and "ArrowException" not in kinds else ():
            if isinstance(each, ast.FormattedValue) and getattr(each.value, "id", None) == handler.name:
                yield ast.unparse(each.value)


def remarks(source: str) -> Iterator[str]:
    """Docstrings of a module, and lines of its comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_in_plain_words(page: Path) -> None:
    assert found(prose(page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != ROOT / "README.md"], ids=lambda page: page.name)
def test_the_first_sentence_of_a_page_says_what_it_is_for(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.S)
    first = next(line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    assert first.startswith("This page ")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_an_id_of_a_clause_or_note_has_words_beside_it(page: Path) -> None:
    assert ALONE.findall(prose(page.read_text("utf-8"))) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_comments_have_no_persons(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    sources = [source for module in modules if PERSON.search(source := module.read_text("utf-8"))]
    told = [text for source in sources for text in remarks(source) if PERSON.search(text)]
    assert (len(modules) > 15, told) == (True, [])


@pytest.mark.parametrize("package", PACKAGES)
def test_messages_are_in_plain_words(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    told = [text for module in modules for text in messages(module.read_text("utf-8")) if found(text)]
    assert (len(modules) > 15, told) == (True, [])


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_wrong_with_an_object_is_a_sentence(package: str) -> None:
    told = [each for module in (ROOT / package).rglob("*.py") for each in reasons(module.read_text("utf-8"))]
    assert package != "reference/memwal" or len(told) > 100
    assert list(filter(HEADLESS.match, told)) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_an_error_of_the_operating_system_is_told_by_its_words(package: str) -> None:
    told = {module.name: [*numbered(module.read_text("utf-8"))] for module in (ROOT / package).rglob("*.py")}
    assert {name: each for name, each in told.items() if each} == {}


def test_a_riddle_is_found() -> None:
    handled = 'try:\n    a()\nexcept (OSError, ValueError) as error:\n    raise A(f"{x}: {%s}") from error'
    assert [list(numbered(handled % each)) for each in ("error", "reason(error)")] == [["error"], []]
    raised = 'ArtifactError("A-1", path, f"not a number: {x}"), ArtifactError("A-1", path, "it is not there")'
    assert list(map(bool, map(HEADLESS.match, reasons(raised)))) == [True, False]
    assert found(prose("A name that there is not is refused, and nobody goes on `nobody`.")) == [
        "that there is not",
        "nobody",
        "goes on",
    ]
    bare = prose("(AMB-1), (WAL-007, AMB-12), (see WAL-007), ([AMB-50](x)) (AMB-50, words)")
    assert ALONE.findall(bare) == ["(AMB-1)", "(WAL-007, AMB-12)", "([AMB-50)"]
    assert found("'x' is no JSON; n is to be a number; columns, all if absent; stop after so long") == [
        "is no JSON",
        "is to be a",
        "all if absent",
        "after so long",
    ]
    assert found("There is no text, and no number is in it.") == []
    assert found("It is sent by who has claimed; who is it? Those who read.") == ["by who"]
    assert found(prose("1 rows of 21 rows")) == ["1 rows"]
    assert list(remarks('def a():  # nobody\n    """Whoever."""\n    return "somebody"')) == ["Whoever.", "# nobody"]
    assert list(messages('raise ValueError(f"nobody has {a}")')) == ["nobody has "]
