"""Write the blessed vectors, or check that they are what this script derives.

    python conformance/vectors/bless.py            # write
    python conformance/vectors/bless.py --check    # compare, print every difference, exit with 1 if there is one

Nothing here imports the engine or the judge.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from blessing import blooms, damaged_states, hashes, invalid, legacy, names, objects, reading, regions, states
from blessing.case import Case
from lance.file import LanceFileReader

HERE = Path(__file__).resolve().parent


def cases() -> list[Case]:
    """All vectors. Ends the program if two have one path."""
    made = [
        case
        for part in (names, hashes, regions, blooms, objects, states, reading, damaged_states, legacy, invalid)
        for case in part.cases()
    ]
    paths = [case.path for case in made]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise SystemExit(f"two cases at {', '.join(twice)}")
    return made


def write(root: Path) -> int:
    """Write all vectors below ``root`` and return their number. Files of other cases are left alone."""
    made = cases()
    for case in made:
        for name, data in case.contents().items():
            file = root / case.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return len(made)


def lance_rows(data: bytes) -> object:
    """Content of a Lance file: rows and schema metadata; None if it is none (a damaged one)."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.lance"
        file.write_bytes(data)
        try:
            reader = LanceFileReader(str(file))
            return reader.read_all().to_table().to_pylist(), reader.metadata().schema.metadata
        except (OSError, ValueError):
            return None


def differences(root: Path) -> list[str]:
    """Every file below ``root`` that is missing, different or too many."""
    found, expected = [], {}
    for case in cases():
        for name, data in case.contents().items():
            file = root / case.path / name
            expected[file] = data
            if not file.is_file():
                found.append(f"missing: {file.relative_to(root)}")
            elif file.read_bytes() != data and (case.stable or not _same_content(file, data)):
                found.append(f"different: {file.relative_to(root)}")
    for revision in ("0", "A", "B", "R"):
        for file in sorted((root / revision).rglob("*")):
            if file.is_file() and file not in expected:
                found.append(f"not derived by this script: {file.relative_to(root)}")
    return found


def _same_content(file: Path, data: bytes) -> bool:
    return lance_rows(data) == lance_rows(file.read_bytes())


def main() -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--root", type=Path, default=HERE, help="folder of the vectors")
    arguments = parser.parse_args()
    if not arguments.check:
        sys.stdout.write(f"{write(arguments.root)} vectors written\n")
        return 0
    found = differences(arguments.root)
    sys.stdout.write("\n".join([*found, f"{len(found)} differences"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
