"""The protocol's store for event loops that schedule asyncio: a dict, and one scheduling point before each request."""

from __future__ import annotations

import asyncio
from typing import Any

from protocol import EMPTY


class MemoryStore:
    """A store in memory. Each request waits until the scheduler lets it through, and is atomic then."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = dict(EMPTY)
        self.acks: dict[str, str] = {}

    async def get(self, name: str) -> Any:
        await asyncio.sleep(0)
        return self.objects.get(name)

    async def list(self, prefix: str) -> list[str]:
        await asyncio.sleep(0)
        return [name for name in self.objects if name.startswith(prefix)]

    async def put(self, name: str, value: Any) -> None:
        await asyncio.sleep(0)
        self.objects[name] = value

    async def put_if_absent(self, name: str, value: Any) -> bool:
        await asyncio.sleep(0)
        return self.objects.setdefault(name, value) is value

    async def delete(self, name: str) -> None:
        await asyncio.sleep(0)
        self.objects.pop(name, None)

    async def acknowledged(self, key: str, value: str) -> None:
        self.acks[key] = value
