"""Histories of clients of registers, and whether a correct store can have answered so: usable without the simulator."""

from .operations import Operation
from .verdicts import check_batches, check_history, check_registers, search_history

__all__ = ["Operation", "check_batches", "check_history", "check_registers", "search_history"]
