"""Plays: worlds whose processes are given as data, so that whoever makes them up as it goes can be replayed.

A play knows the roles that processes can have, the table that they start on, and what must hold; a cast says who plays.
A trace that was recorded in one carries its cast, and ``memwal replay`` builds the same world again.
"""

from __future__ import annotations

from ..cast import Part
from .play import Play, find, known, staged

__all__ = ["Part", "Play", "find", "known", "staged"]
