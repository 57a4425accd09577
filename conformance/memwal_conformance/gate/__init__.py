"""The gate: the simulated store as S3 on loopback, with faults and schedules for processes that know nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memwal.lazy import loader

if TYPE_CHECKING:
    from .address import Address
    from .calls import S3Operation
    from .faults import Apply, Do, FaultRule
    from .history import Acknowledgement, CrashState, CrashStates
    from .limits import GateLimits
    from .log import LogEntry, RequestFate
    from .probing import NotAtomic, probe
    from .replies import Answer, Half, Reply, Unanswered
    from .requests import GateRequest
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
    "FaultRule",
    "Gate",
    "GateLimits",
    "GateRequest",
    "Half",
    "LogEntry",
    "NotAtomic",
    "Reply",
    "RequestFate",
    "S3Operation",
    "Schedule",
    "Stuck",
    "Unanswered",
    "probe",
]
__getattr__ = loader(
    __name__,
    {
        "address": ("Address",),
        "calls": ("S3Operation",),
        "faults": (
            "Apply",
            "Do",
            "FaultRule",
        ),
        "history": (
            "Acknowledgement",
            "CrashState",
            "CrashStates",
        ),
        "limits": ("GateLimits",),
        "log": (
            "LogEntry",
            "RequestFate",
        ),
        "probing": (
            "NotAtomic",
            "probe",
        ),
        "replies": (
            "Answer",
            "Half",
            "Reply",
            "Unanswered",
        ),
        "requests": ("GateRequest",),
        "schedule": (
            "Diverged",
            "Schedule",
            "Stuck",
        ),
        "server": ("Gate",),
        "signing": ("Credentials",),
    },
)
