"""Hooks of MkDocs for `make docs`: which files are pages, links from words to the glossary, the viewer of each fault.

Pages have the paths that they have in the clone, so that links between them work in both.
"""

from __future__ import annotations

import json
import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from memwal_sim.viewer.film import film
from memwal_sim.viewer.page import render
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
HOME = "README.md"
GLOSSARY, NOTES, CLAUSES = "docs/glossary.md", "SPEC_NOTES.md", "docs/clauses.md"
GALLERY, CERTIFICATES = "faults/INDEX.md", "faults/certificates.md"
WIDE = frozenset({CLAUSES, "docs/planted.md", "docs/native_matrix.md"})
"""Pages whose tables need the place of the menu."""
FOLDERS = ("docs", "faults", "benchmarks", "reference", "conformance/vectors", "conformance/observed")
"""Folders whose Markdown is in the site, with the files of the root."""
VIEWERS = ROOT / "out/viewers"
"""Where pages of recorded histories are kept, so that `make docs` makes each only once."""
UNLINKED = frozenset({"a", "code", "pre", "script", "style", "h1", "h2", "h3", "h4", "th", "summary"})
TOO_COMMON = frozenset({"note", "request", "entry", "position", "outcome", "driver", "transaction", "fragment"})
"""Words of the glossary that are everyday words too, and are not linked."""
ID = re.compile(r"\b(?:AMB-\d{2,3}|(?:[A-Z]{2,8})-\d{3})\b")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the links from words and ids to what explains them."""
    config.markdown_extensions.append(_LINKS)  # type: ignore[arg-type]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """All pages, pictures and viewers, by their paths in the clone."""
    found = [File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)) for path in pages()]
    found += [
        File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path))
        for path in (ROOT / "docs/images").iterdir()
    ]
    found += [
        File.generated(config, f"site/{path.name}", abs_src_path=str(path))
        for path in (ROOT / "docs/site").iterdir()
        if path.suffix in {".css", ".js"}
    ]
    found.append(File.generated(config, "LICENSE", abs_src_path=str(ROOT / "LICENSE")))
    found.append(File.generated(config, CERTIFICATES, content=certificates()))
    for trace, page in viewers():
        found.append(File.generated(config, _viewer_of(trace), abs_src_path=str(page)))
    theme = [file for file in files if file.src_dir != config.docs_dir]
    return Files([*theme, *found])


def on_page_markdown(text: str, page: Page, **_: object) -> str:
    """Links to recorded histories lead to their viewers; the gallery and the notes have these embedded."""
    _LINKS.at(page)
    here = page.file.src_uri
    if here in WIDE:
        page.meta["hide"] = ["navigation"]
    if here == GALLERY:
        text = re.sub(r"^<details>.*?^</details>$", "", text, flags=re.M | re.S)  # the viewers show more
        text = re.sub(
            r"^(\[`.*?`\]\((.*?)\.jsonl\).*)$", lambda m: f"{m[1]}\n\n{_embedded(m[2] + '.html')}", text, flags=re.M
        )
    if here == NOTES:
        picture = re.compile(r"(\]\((faults/recorded/[^)]*)\.jsonl\)[^`]*?)^```mermaid\n.*?^```$", re.M | re.S)
        text = picture.sub(lambda m: f"{m[1]}{_embedded(m[2] + '.html')}", text)
    text = re.sub(r"\[(?:[\w/.-]+\.md)\]\(([^)#\s]+\.md)(#[^)\s]*)?\)", lambda m: _titled(here, m[1], m[2] or ""), text)
    return re.sub(r"(\]\((?:[^)\s]*/)?recorded/[^)\s]*)\.jsonl\)", r"\1.html)", text)


def pages() -> Iterator[Path]:
    """The Markdown files of the site."""
    yield from sorted(ROOT.glob("*.md"))
    for folder in FOLDERS:
        depth = "**/*.md" if folder == "docs" else "*.md"
        yield from sorted((ROOT / folder).glob(depth))


def viewers() -> Iterator[tuple[Path, Path]]:
    """Each recorded history with its page, made anew where the page is older than the history or than the viewer."""
    changed = max(path.stat().st_mtime for path in (ROOT / "simulator/memwal_sim/viewer").rglob("*.*"))
    every = [(trace, VIEWERS / _viewer_of(trace)) for trace in sorted((ROOT / "faults/recorded").rglob("*.jsonl"))]
    stale = [
        each
        for each in every
        if not each[1].exists() or each[1].stat().st_mtime < max(changed, each[0].stat().st_mtime)
    ]
    for trace, page in stale:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(render(film(trace)), "utf-8")
    yield from every


def certificates() -> str:
    """The page of certificates: what was explored exhaustively, and how much that was."""
    found = json.loads((ROOT / "faults/certificates.json").read_text("utf-8"))
    scenarios = {each["scenario"] for each in found}
    whole = [each for each in found if each["complete"]]
    lines = [
        "# Certificates",
        "",
        "This page says which scenarios were explored exhaustively within their bounds, and how large that was. It is "
        "made from `faults/certificates.json`, which `memwal docs certify` writes; `memwal docs certify --check` "
        "explores all of them again and compares.",
        "",
        f"**{len(whole)} of {len(found)} certificates are complete; {len(scenarios)} scenarios; "
        f"{sum(each['states'] for each in found):,} states and {sum(each['transitions'] for each in found):,} "
        "transitions.** *Preemptions* is how often a running process may be interrupted (– is any number), *ends* "
        "how many different stores there are once nothing can happen any more.",
        "",
        "| scenario | revision | profile | faults | preemptions | states | transitions | depth | ends | complete |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for each in found:
        preemptions = "–" if each["preemptions"] is None else each["preemptions"]
        lines.append(
            f"| `{each['scenario']}` | {each['revision']} | {each['profile']} | {each['faults']} | {preemptions} "
            f"| {each['states']:,} | {each['transitions']:,} | {each['depth']} | {each['terminal_stores']} "
            f"| {'yes' if each['complete'] else 'no'} |"
        )
    return "\n".join(lines) + "\n"


class _Links(Treeprocessor, Extension):
    """The first time that a page uses a word of the glossary, and each id of a clause or note, is a link to it."""

    def __init__(self) -> None:
        Extension.__init__(self)
        self.here: Page | None = None
        self.linked: set[str] = set()
        self.terms = dict(_terms())
        self.ids = dict(_ids())
        words = sorted(self.terms, key=len, reverse=True)
        self.words = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, words))})(e?s)?(?![\w-])", re.I)

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        self.md = md
        md.treeprocessors.register(self, "memwal links", 6)

    def at(self, page: Page) -> None:
        self.here, self.linked = page, set()

    def run(self, root: Element) -> None:
        assert self.here is not None
        here = self.here.file.src_uri
        if here in {GLOSSARY, NOTES, CLAUSES}:
            self._anchored(root, here)
        self._walk(root, words=here != GLOSSARY and here != CLAUSES)

    def _anchored(self, root: Element, here: str) -> None:
        """Give the rows and headings of terms, notes and clauses the names that links use."""
        known = self.terms if here == GLOSSARY else self.ids
        for element in root.iter():
            if element.tag in {"td", "h3"}:
                text = "".join(element.itertext()).strip()
                name = text.lower() if here == GLOSSARY else (ID.match(text) or [""])[0]
                if element.tag == "td" and text.lower() != name.lower():
                    continue
                if name in known and known[name][0].partition("#")[0] == here:
                    SubElement(element, "span", {"id": known[name][0].partition("#")[2], "class": "anchor"})

    def _walk(self, element: Element, *, words: bool) -> None:
        for child in list(element):
            if child.tag not in UNLINKED:
                self._walk(child, words=words)
        for child in reversed(list(element)):
            if child.tail:
                rest, links = self._split(child.tail, words=words)
                child.tail = rest
                place = list(element).index(child) + 1
                for offset, link in enumerate(links):
                    element.insert(place + offset, link)
        if element.text:
            rest, links = self._split(element.text, words=words)
            element.text = rest
            for offset, link in enumerate(links):
                element.insert(offset, link)

    def _split(self, text: str, *, words: bool) -> tuple[str, list[Element]]:
        """The text before the first link, and the links, each with the text behind it."""
        spots = [(m.start(), m.end(), *self.ids[m[0]]) for m in ID.finditer(text) if m[0] in self.ids]
        if words:
            taken = [(start, end) for start, end, *_ in spots]
            for m in self.words.finditer(text):
                term = m[1].lower()
                if term not in self.linked and all(m.end() <= start or end <= m.start() for start, end in taken):
                    self.linked.add(term)
                    spots.append((m.start(), m.end(), *self.terms[term]))
        links: list[Element] = []
        spots.sort()
        for number, (start, end, target, meaning) in enumerate(spots):
            assert self.here is not None
            page, _, anchor = target.partition("#")
            here = self.here.file.src_uri
            page = "" if page == here else posixpath.relpath(page, posixpath.dirname(here))
            link = Element("a", {"href": f"{page}#{anchor}", "class": "term", "title": meaning})
            link.text = text[start:end]
            link.tail = text[end : spots[number + 1][0] if number + 1 < len(spots) else None]
            links.append(link)
        return (text[: spots[0][0]] if spots else text), links


def _terms() -> Iterator[tuple[str, tuple[str, str]]]:
    """Words of the glossary's tables, with where they are explained, and how."""
    text = (ROOT / GLOSSARY).read_text("utf-8").partition("## One concept, several names")[0]
    for row in re.findall(r"^\| (.+?) \| (.+?) \|", text, re.M):
        word, meaning = row[0].lower(), re.sub(r"[`*]", "", row[1])
        if word not in {"word", "concept"} and "," not in word and ":" not in word and word not in TOO_COMMON:
            yield word, (f"{GLOSSARY}#term-{word.replace(' ', '-')}", meaning)


def _ids() -> Iterator[tuple[str, tuple[str, str]]]:
    """Ids of notes and clauses, with where they are, and what they are about."""
    text = (ROOT / NOTES).read_text("utf-8")
    for note, title in re.findall(r"^(?:### |\| )(AMB-\d+)(?:\.| \|) (.+?)(?: \|.*)?$", text, re.M):
        yield note, (f"{NOTES}#{note}", title)
    for path in sorted((ROOT / "conformance/clauses").glob("*.toml")):
        for clause in tomllib.loads(path.read_text("utf-8")).get("clause", ()):
            yield clause["id"], (f"{CLAUSES}#{clause['id']}", clause["statement"])


def _viewer_of(trace: Path) -> str:
    return trace.relative_to(ROOT).with_suffix(".html").as_posix()


def _titled(here: str, target: str, anchor: str) -> str:
    """A link with the title of its page, where the Markdown has the name of the file."""
    path = ROOT / posixpath.dirname(here) / target
    title = re.search(r"^# (.+)$", path.read_text("utf-8"), re.M) if path.exists() else None
    return f"[{title[1] if title else target}]({target}{anchor})"


def _embedded(viewer: str) -> str:
    return (
        f'<details class="viewer"><summary>Step through it</summary><iframe loading="lazy" src="{viewer}" '
        f'title="The history in the viewer"></iframe><p><a href="{viewer}">On a page of its own</a></p></details>'
    )


_LINKS = _Links()
