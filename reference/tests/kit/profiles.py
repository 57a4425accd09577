"""The same table, opened again by somebody who reads the texts in another way."""

from dataclasses import replace

import memwal
from memwal.api.place import Profile, named_profile
from memwal.effects import Io


def read_as(io: Io, profile: Profile) -> Io:
    """The folder ``io`` under the readings of ``profile``."""
    return replace(io, interpretation=named_profile(profile))


def under(table: memwal.Table, profile: Profile) -> memwal.Table:
    """``table`` under the readings of ``profile``."""
    place = table._place
    return memwal.Table(replace(place, io=read_as(place.io, profile)), table._state)
