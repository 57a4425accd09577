"""Requests and replies by number, so that equal ones are compared and remembered as small integers."""

from __future__ import annotations

from typing import Any

from memwal.effects import StoreRequest
from memwal.stores.memory import Reply


class Book:
    """Requests and replies by number: equal ones have one number, shared by all tries of an exploration."""

    def __init__(self) -> None:
        self.requests: list[StoreRequest[Any]] = []
        self.replies: list[Reply] = []
        self._request_ids: dict[StoreRequest[Any], int] = {}
        self._reply_ids: dict[Reply, int] = {}

    def request_id(self, request: StoreRequest[Any]) -> int:
        """Number of ``request``, new or old."""
        found = self._request_ids.setdefault(request, len(self.requests))
        if found == len(self.requests):
            self.requests.append(request)
        return found

    def reply_id(self, reply: Reply) -> int:
        """Number of ``reply``, new or old."""
        found = self._reply_ids.setdefault(reply, len(self.replies))
        if found == len(self.replies):
            self.replies.append(reply)
        return found
