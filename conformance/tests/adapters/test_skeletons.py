"""The skeletons for authors of adapters: they pass what they claim, and a fault in one of them is found."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mmh3
import pytest
from kit.runs import ROOT, Run, run_suite
from memwal_conformance.adapters import process as processes
from memwal_conformance.adapters.process import AdapterProcess
from memwal_conformance.cli.vectors import app
from memwal_conformance.places import scenario_files
from memwal_conformance.protocol import AdapterError, Hello
from memwal_conformance.running import scenarios
from typer.testing import CliRunner

HERE = Path(__file__).resolve().parents[2]
SKELETONS = HERE / "skeletons"
PAGE = (ROOT / "docs" / "twenty_minutes.md").read_text("utf-8")
NODE = shutil.which("node")


@dataclass(frozen=True)
class Language:
    """A skeleton: what it needs on the machine, how it is built and run, and what it says of itself."""

    name: str
    tools: tuple[str, ...]
    run: tuple[str, ...]
    build: tuple[str, ...] = ()
    """``{source}`` is the folder of the skeleton, ``{built}`` the folder for what is made of it."""


PYTHON = Language("Python", (), (sys.executable, "{source}/adapter.py"))
NODE_JS = Language("Node.js", ("node --version",), ("node", "{source}/adapter.mjs"))
GO = Language(
    "Go", ("go version",), ("{built}/adapter",), ("go", "build", "-o", "{built}/adapter", "{source}/adapter.go")
)
RUST = Language(
    "Rust",
    ("rustc --version",),
    ("{built}/adapter",),
    ("rustc", "--edition", "2021", "-O", "-D", "warnings", "-o", "{built}/adapter", "{source}/adapter.rs"),
)
JAVA = Language(
    "Java",
    ("java --version", "javac --version"),
    ("java", "-XX:TieredStopAtLevel=1", "-cp", "{built}", "Adapter"),
    ("javac", "--release", "17", "-Xlint:all,-serial", "-Werror", "-d", "{built}", "{source}/Adapter.java"),
)
FIRST_STEPS = [GO, RUST, JAVA]
LANGUAGES = [PYTHON, NODE_JS, *FIRST_STEPS]
each_language = pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
each_first_step = pytest.mark.parametrize("language", FIRST_STEPS, ids=lambda language: language.name)


def folder_of(language: Language) -> Path:
    return SKELETONS / {"Node.js": "node"}.get(language.name, language.name.lower())


def ready(language: Language, source: Path, built: Path) -> list[str]:
    """The command of a skeleton, which is built for it; skips where the machine has no tools for the language."""
    for asked in map(str.split, language.tools):
        if shutil.which(asked[0]) is None:
            pytest.skip(f"there is no {asked[0]} on this machine")
        if subprocess.run(asked, capture_output=True, timeout=60, check=False).returncode:
            pytest.skip(f"the {asked[0]} of this machine does not run")  # a proxy without a toolchain behind it
    places = {"source": source, "built": built}
    if language.build:
        build = [word.format(**places) for word in language.build]
        done = subprocess.run(build, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    return [word.format(**places) for word in language.run]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Language], list[str]]:
    """The command of a language's skeleton; each is built once."""
    made: dict[Language, list[str]] = {}

    def of(language: Language) -> list[str]:
        if language not in made:
            made[language] = ready(language, folder_of(language), tmp_path_factory.mktemp("built"))
        return made[language]

    return of


def checked(adapter: list[str], *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check", "--adapter", " ".join(adapter), *arguments])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def node_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    if NODE is None:
        pytest.skip("there is no node on this machine")
    adapter = ("--memwal-adapter", f"node {SKELETONS / 'node' / 'adapter.mjs'}")
    places = [f"conformance/vectors/{place}" for place in ("A/name", "A/manifest", "B/state", "R/region")]
    return run_suite(tmp_path_factory.mktemp("node"), *places, *adapter, limit_s=300)


@pytest.mark.long
def test_the_skeleton_in_node_passes_in_a_run_of_the_suite(node_run: Run) -> None:
    assert node_run.status == 0, node_run.text
    verdicts = {revision: node_run.summary["revisions"][revision]["verdicts"] for revision in "ABR"}
    assert all(told["PASS"] > 0 and set(told) <= {"PASS", "OBSERVED", "UNSUPPORTED"} for told in verdicts.values()), (
        verdicts
    )
    assert "skeleton (Node.js)" in node_run.text


@each_language
def test_a_skeleton_answers_all_that_it_claims(language: Language, command: Callable[[Language], list[str]]) -> None:
    """As the page says: its last line is what a stranger sees first."""
    status, text = checked(command(language))
    assert status == 0, text
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {language.name} |") and "PASS" in line]
    assert row.endswith(f"| `{text.splitlines()[-1]}` |"), (row, text)
    *tool, _ = row.split("|")[3].strip(" `").split() or [""]
    assert set(tool) <= set(language.build), row


@pytest.mark.long
def test_the_commands_of_the_page_run_as_they_are_written(tmp_path: Path) -> None:
    ready(RUST, folder_of(RUST), tmp_path)  # or skip
    install, *steps = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    target, _, activate = install.strip().removeprefix("make ").partition(" && ")
    assert f"\n{target}: $(READY) " in (ROOT / "Makefile").read_text("utf-8")
    assert activate == "source .venv/bin/activate"
    script = "".join(map(textwrap.dedent, steps)).replace("../ours", str(tmp_path / "ours"))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", script], cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(steps) == 4
    assert "44 PASS, 205 UNSUPPORTED\n" in done.stdout
    assert (tmp_path / "ours" / "out" / "report.html").exists()


def test_the_page_of_tier_2_names_the_file_of_each_message() -> None:
    page = (ROOT / "docs" / "tier_two.md").read_text("utf-8")
    rows = re.findall(r"^\| `(protos/[a-z0-9_/]+\.proto)` \| (.*) \|$", page, re.MULTILINE)
    assert {Path(file).name for file, _ in rows} >= {"mem_wal.proto", "table.proto", "file.proto", "file2.proto"}
    for file, messages in rows:
        defined = set(re.findall(r"^ *message (\w+)", (ROOT / file).read_text("utf-8"), re.MULTILINE))
        assert set(re.findall(r"`([A-Z]\w+)`", messages)) <= defined, file


def test_the_page_of_tier_2_names_the_scenarios_of_what_it_says_to_begin_with() -> None:
    page = (ROOT / "docs" / "tier_two.md").read_text("utf-8")
    (begin,) = re.findall(r"^You can begin without data files.*?\n\n", page, re.MULTILINE | re.DOTALL)
    claimed, named = (set(re.findall(r"`([a-z_. \n]+)`", part)) for part in begin.split("The suite then runs"))
    known = {"implementation": "x", "version": "1", "revisions": ["B"], "roles": [], "capabilities": ["table.create"]}
    messages = {name for name in claimed if name.startswith(("writer.", "reader.")) and " " not in name}
    hello = Hello.of({**known, "partial": messages, "without": {name for name in claimed if " " in name}})
    loaded = {file.stem: scenarios.load(file) for file in scenario_files()}
    assert named == {name for name, each in loaded.items() if "B" in each.revisions and not each.missing("B", hello)}


@each_language
def test_a_skeleton_exits_by_itself_when_it_is_told_to(
    language: Language, command: Callable[[Language], list[str]]
) -> None:
    with AdapterProcess(command(language)) as process:
        process.greet()
        process.call("shutdown", {})
        assert process._ends_within(processes.LEAVE_S)
    assert process.status == 0


@each_first_step
def test_a_first_step_shows_the_same_in_each_language(
    language: Language, command: Callable[[Language], list[str]]
) -> None:
    """What no vector asks: a refusal leaves the process usable, and text above U+FFFF comes as a pair of escapes."""
    with AdapterProcess(command(language)) as process:
        told = process.greet()
        assert told.implementation == f"skeleton ({language.name})"
        assert sorted(told.revisions) == ["A", "B"]
        assert not told.roles
        assert set(told.capabilities) == {"eval.name", "eval.hash", "eval.decode", "eval.encode"}
        lacking = ("manifest", "wal", "index_details")
        assert sorted(told.without) == sorted(f"eval.{way} {kind}" for way in ("decode", "encode") for kind in lacking)
        process.call("configure", {"revision": "B", "settings": {"of no use": '" \\ \u0001'}})
        with pytest.raises(AdapterError, match="18446744073709551616") as refused:
            process.call("eval.name", {"kind": "wal", "number": str(2**64)})
        assert refused.value.kind == "invalid_argument"
        vector = {"t": "float32[2]", "v": ["1", "2"]}
        with pytest.raises(AdapterError) as refused:
            process.call("eval.hash", {"function": "murmur3", "values": [vector]})
        assert refused.value.kind == "invalid_argument"
        clef = {"t": "utf8", "v": "\U0001d11e"}
        assert process.call("eval.hash", {"function": "murmur3", "values": [clef]}) == {"hash": CLEF}


CLEF = mmh3.hash(b"\xf0\x9d\x84\x9e", seed=0, signed=True)

IMPORTS = {
    "Go": (r'^\t"([a-z/0-9]+)"$', lambda name: "." not in name.split("/")[0]),
    "Rust": (r"^use ([^;]+);", lambda name: name.startswith(("std::", "json::"))),
    "Java": (r"^import ([^;]+);", lambda name: name.startswith("java.")),
}
"""How a language names what a file needs, and what comes with the language."""


@each_first_step
def test_a_first_step_needs_nothing_but_its_language(language: Language) -> None:
    """Looked at without a compiler: nothing else is imported, and no list of packages to fetch is beside it."""
    pattern, standard = IMPORTS[language.name]
    files = sorted(folder_of(language).iterdir())
    for file in files:
        needed = re.findall(pattern, file.read_text("utf-8"), re.MULTILINE)
        assert needed or file.name == "json.rs", file
        assert [name for name in needed if not standard(name)] == []
    assert {file.suffix for file in files} == {{"Go": ".go", "Rust": ".rs", "Java": ".java"}[language.name]}


FAULTS = [
    (PYTHON, "hashing.py", "0xCC9E2D51", "0xCC9E2D52", "FAIL A/hash/text eval [REGION-035]"),
    (
        PYTHON,
        "objects.py",
        'message.uint(2)),\n        "replay',
        'message.uint(9)),\n        "replay',
        "FAIL A/manifest/first decode",
    ),
    (
        PYTHON,
        "table.py",
        "while (root / path(version + 1)).exists():",
        "while False:",
        "FAIL A/state/hint_behind inspect",
    ),
    (NODE_JS, "hash.mjs", "0xcc9e2d51", "0xcc9e2d52", "FAIL A/hash/text eval [REGION-035]"),
    (NODE_JS, "values.mjs", ".reverse().join", ".join", "FAIL A/name/region_manifests eval [MANIFEST-024]"),
    (NODE_JS, "table.mjs", "while (there(version + 1n))", "while (false)", "FAIL A/state/hint_behind inspect"),
    (GO, "adapter.go", "math.IsNaN(float)", "false", "OBSERVED A/hash/other_numbers eval [REGION-035]"),
    (GO, "adapter.go", "json.RawMessage", "json.Number", "FAIL A/invalid/hint_with_text decode [MANIFEST-026]"),
    (RUST, "adapter.rs", ".filter(|version| *version > 0)", "", "FAIL A/invalid/hint_of_version_0 decode"),
    (JAVA, "Adapter.java", "data[i] & 0xff", "data[i]", "FAIL A/hash/text eval [REGION-035]"),
]


@pytest.mark.parametrize(("language", "file", "good", "bad", "said"), FAULTS)
@pytest.mark.long
def test_a_fault_in_a_skeleton_fails_the_vector_about_it(
    language: Language, file: str, good: str, bad: str, said: str, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(language), copy, ignore=shutil.ignore_patterns("__pycache__"))
    text = (copy / file).read_text("utf-8")
    assert good in text
    (copy / file).write_text(text.replace(good, bad), encoding="utf-8")
    status, told = checked(ready(language, copy, tmp_path), "--revision", "A")
    assert status == said.startswith("FAIL"), told
    assert any(line.startswith(said) for line in told.splitlines()), told


def test_a_check_names_the_vectors_whose_answers_break_the_protocol_and_goes_on(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder_of(PYTHON), copy, ignore=shutil.ignore_patterns("__pycache__"))
    adapter = copy / "adapter.py"
    text = adapter.read_text("utf-8")
    encoded = 'return {"data": base64.b64encode(ENCODE[kind](view)).decode()}'
    hashed = 'if params["function"] == "murmur3":'
    assert encoded in text
    assert hashed in text
    text = text.replace(encoded, f'{encoded[:-1]} if kind != "hint" else None}}')
    adapter.write_text(text.replace(hashed, f'assert params["function"] == "murmur3"\n    {hashed}'), "utf-8")
    status, told = checked(ready(PYTHON, copy, tmp_path), "--revision", "B")
    assert status == 1
    lines = told.splitlines()
    refused = 'the schema refuses the result of eval.encode at $.data: null is not of type "string"'
    assert f"HARNESS_ERROR B/hint/hint encode [MANIFEST-026]: {refused}" in lines
    ended = "the adapter ended (exit status 1) during eval.hash"
    assert any(line.startswith("CRASH B/hash/several_columns eval") and ended in line for line in lines), told
    assert lines[-2].startswith("not claimed: writer.open"), told
    assert re.fullmatch(r"\d+ PASS, .*3 CRASH, 1 HARNESS_ERROR", lines[-1]), told


def test_a_check_says_what_a_revision_chose_against_the_texts(tmp_path: Path) -> None:
    status, told = checked(ready(PYTHON, folder_of(PYTHON), tmp_path), "--revision", "R")
    assert status == 0
    (observed,) = (line for line in told.splitlines() if line.startswith("OBSERVED R/region/bucket eval"))
    assert "the texts ask for the absolute value of the hash" in observed


def test_a_check_of_a_revision_that_is_not_declared_says_which_are() -> None:
    status, told = checked([sys.executable, str(SKELETONS / "python" / "adapter.py")], "--revision", "b")
    assert (status, told) == (2, "error: the adapter does not declare revision b; it declares A, B, R\n")


def test_the_python_skeleton_needs_nothing_but_the_standard_library() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import adapter; print(adapter.hello({})['implementation'])"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(SKELETONS / "python")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "skeleton (Python)\n"


def test_the_node_skeleton_imports_only_what_node_brings() -> None:
    for file in sorted((SKELETONS / "node").glob("*.mjs")):
        for line in file.read_text("utf-8").splitlines():
            if line.startswith("import "):
                assert 'from "node:' in line or 'from "./' in line, f"{file.name}: {line}"
