"""Links between the pages, in the clone and in the site, lead to what is there. `make docs` holds the built site."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (".", "docs", "faults", "benchmarks", "reference", "conformance/vectors", "conformance/observed")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
"""As in docs/site/hooks.py."""
MADE = ROOT / "faults/certificates.md"
"""The page that is made with the site."""
LINK = re.compile(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")


def lines(page: Path) -> str:
    """``page`` without its blocks and pieces of code."""
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", lambda code: re.sub(r"[][]", "", code[0]), text)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Names of the places in ``page``: of its headings, and those that it sets."""
    text = lines(page)
    named = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"|\{#([\w-]+)\}", text))
    heads = re.findall(r"^#{1,6} (.+?)(?: \{#[\w-]+\})?$", text, re.M)
    return frozenset({slug(head) for head in heads} | {name for pair in named for name in pair})


def slug(head: str) -> str:
    """The name that both GitHub and MkDocs give to a heading."""
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", head)
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", shown.lower()))


def broken(page: Path, text: str) -> list[str]:
    """Links in ``text``, which is in ``page``, that lead nowhere."""
    found = []
    for target in ("".join(pair) for pair in LINK.findall(text)):
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        if re.match(r"[a-z]+:", target) or there == MADE:
            continue
        if not there.exists() or (anchor and anchor not in anchors(there)):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken(page, lines(page)) == []


def test_the_menu_of_the_site_has_pages_that_are_there_each_once() -> None:
    named = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)
    assert len(named) > 40
    assert [name for name in named if ROOT / name != MADE and not (ROOT / name).is_file()] == []
    assert sorted(set(named)) == sorted(named)


def test_a_link_that_leads_nowhere_is_found() -> None:
    page = ROOT / "docs/README.md"
    good = (
        "[a](first_table.md) [b](../README.md#two-commands) [c](https://x.y/z#nowhere) [d](../faults/certificates.md)"
    )
    assert broken(page, good) == []
    bad = '[a](third_table.md) [b](../README.md#three-commands) [c](#nowhere) <img src="images/none.png">'
    assert broken(page, bad) == ["third_table.md", "../README.md#three-commands", "#nowhere", "images/none.png"]
