"""All planted damage: for every invariant what breaks it."""

from . import planted_in_generations, planted_in_regions, planted_in_rows, planted_in_tables, planted_in_wals
from .planting import PLANTED, put_or_drop

__all__ = [
    "PLANTED",
    "planted_in_generations",
    "planted_in_regions",
    "planted_in_rows",
    "planted_in_tables",
    "planted_in_wals",
    "put_or_drop",
]
