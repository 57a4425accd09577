"""Which region a person means: by id, by how the id begins, or by its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memwal.errors import InvalidArgument, check_name

from ..words import counted

if TYPE_CHECKING:
    import memwal


def values_text(values: dict[str, object]) -> str:
    """Region values as people write them: ``bucket=2``."""
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "-"


def region_named(table: memwal.Table, text: str | None) -> str | None:
    """Id of the region that ``text`` names; None for None. Raises `InvalidArgument` for none or several."""
    if text is None:
        return None
    regions = table.regions()
    if "=" in text:
        known = {values_text(each.values).replace(" ", ""): each.region_id for each in regions if each.values}
        wanted = text.replace(" ", "")
        check_name("region with the values", wanted, known)
        return known[wanted]
    ids = [str(each.region_id) for each in regions]
    found = [each for each in ids if each.startswith(text.lower())]
    if len(found) > 1 and text.lower() not in found:
        raise InvalidArgument(
            f"the ids of {counted(len(found), 'region')} begin with {text!r}; give more of the id: {', '.join(found)}"
        )
    if not found:
        check_name("region", text, ids)
    return text.lower() if text.lower() in found else found[0]
