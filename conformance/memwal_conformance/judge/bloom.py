"""Bloom filters of generations, and that of revision R over int64 keys with arithmetic of the judge's own.

A and B leave the format open (AMB-47, bloom filters): there the judge sees that a filter is there, and that generations
without a key in common do not have the same bytes for one. What it holds is asked of the implementation itself, which
`running.filters` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import content
from .store import JudgedStore
from .wire import DamagedBytes

FILE = "bloom_filter.bin"
KEYS_MAX = 200
"""So many keys of a generation are looked for."""

_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
"""Parquet format, "Bloom Filter"."""
_MASK = (1 << 64) - 1
_BLOCK_BYTES = 32


def filters(store: JudgedStore) -> Iterator[str | None]:
    """A listed generation has a bloom filter that was made of its keys, and that of revision R denies none of them.

    Of R filters over int64 keys are asked.
    """
    seen: dict[bytes, tuple[str, set[content.Key]]] = {}
    for region in store.regions.values():
        for generation in region.newest.generations if region.newest is not None else ():
            folder = region.folder / generation.path
            if not folder.is_dir():
                continue
            name = f"{region.region_id}/{generation.path}/{FILE}"
            if not (folder / FILE).is_file():
                yield f"{name} is not there"
                continue
            data = (folder / FILE).read_bytes()
            try:
                keys = content.keys(content.generation_rows(store, region, generation.path), store.key)
                asked = [key[0] for key in sorted(keys, key=repr) if len(key) == 1 and type(key[0]) is int]
                lost = denied(data, asked[:KEYS_MAX]) if store.layout.revision == "R" else []
            except DamagedBytes as error:
                yield f"{name}: {error}"
                continue
            other, theirs = seen.setdefault(data, (name, keys))
            if lost:
                yield f"{name} denies the key {lost[0]}"
            elif not data:
                yield f"{name} is empty"
            elif keys and theirs.isdisjoint(keys):
                yield f"{name} has the bytes of {other}, and their generations have no key in common"
            else:
                yield None


def denied(data: bytes, keys: Sequence[int]) -> list[int]:
    """The keys that the filter denies. Raises `DamagedBytes` unless ``data`` is whole blocks of 32 bytes."""
    if not data or len(data) % _BLOCK_BYTES:
        raise DamagedBytes(f"{len(data)} bytes are not whole blocks of {_BLOCK_BYTES}")
    return [key for key in keys if not _holds(data, key)]


def _holds(data: bytes, key: int) -> bool:
    digest = _siphash(b"\0" + key.to_bytes(8, "little", signed=True))
    block = (digest >> 32) * (len(data) // _BLOCK_BYTES) >> 32
    for index, salt in enumerate(_SALTS):
        bit = ((digest * salt) & 0xFFFFFFFF) >> 27
        at = block * _BLOCK_BYTES + index * 4
        if not int.from_bytes(data[at : at + 4], "little") >> bit & 1:
            return False
    return True


def _siphash(data: bytes) -> int:
    """SipHash-1-3 under the key 0."""
    a, b, c, d = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        a, b, c, d = _round(a, b, c, d ^ word)
        a ^= word
    c ^= 0xFF
    for _ in range(3):
        a, b, c, d = _round(a, b, c, d)
    return a ^ b ^ c ^ d


def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a, c = (a + b) & _MASK, (c + d) & _MASK
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    a, c = (a + d) & _MASK, (c + b) & _MASK
    d, b = _rotated(d, 21) ^ a, _rotated(b, 17) ^ c
    return a, b, _rotated(c, 32), d


def _rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MASK
