"""The gate: the simulated store as S3 on loopback, with faults and schedules for processes that know nothing of it."""

from .address import Address
from .calls import Operation
from .faults import Apply, Do, Rule
from .history import Acknowledgement, CrashState, CrashStates
from .limits import Limits
from .log import Entry, Fate
from .probe import NotAtomic, probe
from .replies import Answer, Half, Reply, Unanswered
from .requests import Request
from .schedule import Diverged, Schedule, Stuck
from .server import Gate
from .signing import Credentials

__all__ = [
    "Acknowledgement",
    "Address",
    "Answer",
    "Apply",
    "CrashState",
    "CrashStates",
    "Credentials",
    "Diverged",
    "Do",
    "Entry",
    "Fate",
    "Gate",
    "Half",
    "Limits",
    "NotAtomic",
    "Operation",
    "Reply",
    "Request",
    "Rule",
    "Schedule",
    "Stuck",
    "Unanswered",
    "probe",
]
