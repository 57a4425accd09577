"""Which planted bugs the exploration of other implementations finds by itself, and how soon.

    python benchmarks/exploring.py [--seconds 120] [--only NAME ...] [--minutes M] [--folder FOLDER] [--json]

Asked are the bugs of ``faults/bugs`` that some scenario of the suite shows from outside the process (`deaths.jsonl`):
others no foreign process can show. Each is planted in the engine behind the reference's adapter, which is then
explored as a stranger's would be, all lives of the suite in turn, under the revision of the bug, until the first
finding or for ``--seconds``. First comes the reference without a bug, where every finding is a false alarm. With
``--folder`` what was measured before is not measured again, and with ``--minutes`` the program ends after so many with
exit code 75; the same command continues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from memwal_sim import bugs

DEATHS = Path(__file__).parents[1] / "conformance" / "deaths.jsonl"
HONEST = "the reference"
CONTINUE = 75


def shown_from_outside() -> list[str]:
    """Bugs that a scenario of the suite notices."""
    known = bugs.load()
    records = (json.loads(line) for line in DEATHS.read_text("utf-8").splitlines())
    return sorted({each[0] for each in records if each[0] in known and each[1].startswith("case scenarios/")})


def explored(name: str, seconds: float) -> dict[str, object]:
    """What exploring the reference with the bug ``name`` found first."""
    revision = "B" if name == HONEST else bugs.load()[name].revision
    adapter = f"{sys.executable} -m memwal_conformance.proving.broken --bug {name}"
    with tempfile.TemporaryDirectory(prefix="memwal-exploring-") as folder:
        words = ["memwal", "conformance", "explore", "--against", "reference" if name == HONEST else adapter]
        words += ["--seconds", str(seconds), "--revision", revision, "--enough", "1", "--out", folder, "--json"]
        started = time.monotonic()
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
        took = time.monotonic() - started
        file = Path(folder) / "findings.json"
        if not file.exists():
            return {"found": None, "error": done.stderr.strip().splitlines()[-1:], "seconds": took}
        found = json.loads(file.read_text("utf-8"))["findings"]
        return {"found": [each["sentence"] for each in found], "seconds": took}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120.0, help="for each bug")
    parser.add_argument("--only", nargs="*", help="these bugs; default: all")
    parser.add_argument("--minutes", type=float, help="end after so many")
    parser.add_argument("--folder", type=Path, help="what was measured is kept here")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    kept = given.folder / "measured.json" if given.folder else None
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    measured = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else {}
    ends = time.monotonic() + 60 * given.minutes if given.minutes else None
    for name in [HONEST, *(given.only or shown_from_outside())]:
        if name in measured:
            continue
        if ends is not None and time.monotonic() > ends:
            return CONTINUE
        measured[name] = explored(name, given.seconds)
        if not given.json:
            print(f"{name:<44} {measured[name]['seconds']:6.1f} s  {measured[name]['found']}", flush=True)
        if kept is not None:
            kept.write_text(json.dumps(measured, indent=1), "utf-8")
    asked = {name: each for name, each in measured.items() if name != HONEST}
    found = sorted(name for name, each in asked.items() if each["found"])
    missed = sorted(set(asked) - set(found))
    if given.json:
        print(json.dumps({"measured": measured, "found": len(found), "asked": len(asked), "missed": missed}))
    else:
        print(f"{len(found)} of {len(asked)} bugs found; false alarms: {measured[HONEST]['found']}; missed: {missed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
