"""Write the conflict table into docs/transactions.md anew: ``python docs/transactions.py``."""

from __future__ import annotations

from pathlib import Path

from memwal.table.conflict_document import BEGIN, END, section

DOCUMENT = Path(__file__).with_suffix(".md")


def main() -> None:
    """Replace what is between the marks."""
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(f"{before}{section()}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
