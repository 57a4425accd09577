"""S3, Google Cloud Storage, Azure Blob Storage and memory, through obstore."""

from __future__ import annotations

import threading
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from obstore import exceptions

from ..clauses import implements
from ..effects import (
    Copy,
    Delete,
    Get,
    GetRanges,
    Head,
    List,
    ListFolders,
    Put,
    PutIfAbsent,
    RenameIfAbsent,
    Stamped,
    Stat,
    StoreRequest,
)
from ..errors import (
    AlreadyExists,
    InvalidArgument,
    NotFound,
    Outcome,
    OutcomeUnknown,
    StorageError,
    Throttled,
    Unreachable,
)
from .base import Handlers, check_name, handler, slice_of, spans_of
from .verdicts import RAISED, StoreVerdict, reason, status, verdict

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ObjectStore as Obstore

T = TypeVar("T")
_Stamp = tuple[object, ...]

_CLOSE_BYTES = 1 << 18
"""Parts that lie closer together come by one request. A request costs less time where several are under way."""
_ANY_BYTES = 1 << 62
"""A size beyond that of all objects."""

PATIENCE_S = 30.0
"""How long a store may be silent where the caller does not say."""


class ObjectStore:
    """A bucket, or the part of it below ``prefix``, as obstore reaches it.

    ``store``: an obstore store that does not retry (``retry_config={"max_retries": 0}``). A retry after a lost answer
    could find the object that the first attempt has created, and report the winner of a conditional put as its loser
    (AMB-14, AMB-28); the protocol repeats what may be repeated. Raises `InvalidArgument` for a store that retries.
    ``reads``: a second obstore store over the same bucket for requests that change nothing; it may retry.
    ``patience_s``: how long the store may be silent; then `Unreachable` is ``lasting``.
    ``probe_folder``: where `probe` puts its object, relative to ``prefix``. ``description``: what `describe` returns.

    An object store cannot move. `RenameIfAbsent` creates the target from the source's bytes under the condition that it
    is absent, and then deletes the source: the arbiter between writers of the target is the same, but for a moment, or
    for ever if the process dies, both objects are there.
    """

    def __init__(
        self,
        store: Obstore,
        prefix: str = "",
        *,
        reads: Obstore | None = None,
        patience_s: float = PATIENCE_S,
        probe_folder: str = "_memwal_probe",
        description: str = "",
    ) -> None:
        if prefix:
            check_name(prefix)
        check_name(probe_folder)
        # Stores without the attribute send nothing that could be retried; None means obstore's default, ten retries.
        retry = getattr(store, "retry_config", {"max_retries": 0}) or {}
        if retry.get("max_retries") != 0:
            raise InvalidArgument('conditional puts need a store with retry_config={"max_retries": 0}', clause="AMB-28")
        self._store = store
        self._reads = reads or store
        self._prefix = f"{prefix}/" if prefix else ""
        self._probe_folder = probe_folder
        self._description = description or f"{store!r} {prefix}".rstrip()
        self._patience_s = patience_s
        self._silent_since: float | None = None
        self._probed = False
        self._probing = threading.Lock()

    def perform(self, request: StoreRequest[Any]) -> Any:
        """Perform ``request``; see `Store.perform`. The first `PutIfAbsent` performs `probe` before."""
        began = time.monotonic()
        try:
            reply = handler(_HANDLERS, request)(self, request)
        except Unreachable as silent:
            if self._silent_since is None:
                self._silent_since = began
            waited_s = time.monotonic() - self._silent_since
            if waited_s < self._patience_s:
                raise
            told = f"nothing was answered for {waited_s:.3g} s: {silent.fields['reason']}"
            raise Unreachable(silent.path, told, lasting=True) from None
        except Outcome:
            self._silent_since = None
            raise
        self._silent_since = None
        return reply

    def describe(self) -> str:
        """The URL, or whatever the store was described as."""
        return self._description

    def close(self) -> None:
        """Connections are closed when the last reference to the obstore store goes."""

    @implements("AMB-38")
    def probe(self) -> str | None:
        """Find out whether the store honours conditional puts, by creating one random name twice.

        Returns the probe object's name if the store refused to delete it, else None. Raises `StorageError` naming
        AMB-38 if the two attempts did not give first success and then `AlreadyExists`, or what else one of them raised.
        """
        path = f"{self._probe_folder}/{uuid.uuid4().hex}"
        answers: list[str] = []
        try:
            for data in (b"first", b"second"):
                try:
                    self._create(path, data)
                    answers.append("success")
                except AlreadyExists:
                    answers.append("already exists")
        except Unreachable:
            raise  # a delete would only wait once more
        except (Outcome, InvalidArgument):
            self._deleted(path)
            raise
        kept = None if self._deleted(path) else path
        if answers != ["success", "already exists"]:
            found = " and ".join(answers)
            raise StorageError(path, f"no conditional put: creating one name twice gave {found} [AMB-38]")
        return kept

    def _get(self, request: Get) -> bytes:
        return self._stamped(request)[0]

    def _stamped(self, request: Get) -> tuple[bytes, _Stamp | None]:
        path, offset, length = request.path, request.offset, request.length
        slice_of(0, offset, length)  # refuses a negative length
        if length == 0:
            return b"", _stamp_of(self._described(path))
        options: GetOptions = {}
        if offset < 0:
            options = {"range": {"suffix": -offset}}
        elif length is not None:
            options = {"range": (offset, offset + length)}
        elif offset > 0:
            options = {"range": {"offset": offset}}
        try:
            found = self._reads.get(self._prefix + path, options=options)
            return bytes(found.bytes())[:length], _stamp_of(found.meta)
        except RAISED as error:
            # Stores refuse a range that begins at the end or behind it, and Azure every range that counts from the end.
            if not options or verdict(error, changes=False) is not StoreVerdict.REFUSED:
                raise _outcome(error, path, changes=False) from None
            described = self._described(path)
            first, end = slice_of(described["size"], offset, length)
            if first < end and not isinstance(error, exceptions.NotSupportedError):
                raise _outcome(error, path, changes=False) from None
        if first == end:
            return b"", _stamp_of(described)
        data = _reading(path, lambda: bytes(self._reads.get_range(self._prefix + path, start=first, end=end)))
        return data, _stamp_of(described)

    def _get_ranges(self, request: GetRanges) -> bytes:
        """Parts that lie close together come by one request, and ten requests are under way at once."""
        path = request.path
        try:
            # As if it had them all: what the store has of a part is what is there of it.
            if all(offset >= 0 for offset, _ in request.ranges) and any(length for _, length in request.ranges):
                return self._spans(path, spans_of(request, _ANY_BYTES))
        except RAISED as error:
            # It refuses a part that begins behind the end.
            if verdict(error, changes=False) is not StoreVerdict.REFUSED:
                raise _outcome(error, path, changes=False) from None
        spans = spans_of(request, self._size(path))
        return _reading(path, lambda: self._spans(path, spans))

    def _spans(self, path: str, spans: Sequence[tuple[int, int]]) -> bytes:
        """First byte and end of each. obstore would join what lies close together, but panics behind the end."""
        starts, ends = list[int](), list[int]()
        for first, end in sorted(span for span in spans if span[0] < span[1]):
            if ends and first - ends[-1] <= _CLOSE_BYTES:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(first)
                ends.append(end)
        read = self._reads.get_ranges(self._prefix + path, starts=starts, ends=ends, coalesce=0) if starts else []
        held, parts = [memoryview(each) for each in read], list[memoryview]()
        for first, end in spans:
            if first < end:
                at = bisect_right(starts, first) - 1
                parts.append(held[at][first - starts[at] : end - starts[at]])
        return b"".join(parts)

    def _head(self, request: Head) -> int:
        return self._size(request.path)

    def _stamp(self, request: Stat) -> _Stamp | None:
        return _stamp_of(self._described(request.path))

    def _size(self, path: str) -> int:
        size: int = self._described(path)["size"]
        return size

    def _described(self, path: str) -> ObjectMeta:
        return _reading(path, lambda: self._reads.head(self._prefix + path))

    def _list(self, request: List) -> tuple[str, ...]:
        folder = self._folder(request.path)
        found = _reading(request.path, lambda: self._reads.list(folder).collect())
        return tuple(sorted(meta["path"][len(self._prefix) :] for meta in found))

    def _list_folders(self, request: ListFolders) -> tuple[str, ...]:
        folder = self._folder(request.path)
        found = _reading(request.path, lambda: self._reads.list_with_delimiter(folder))
        return tuple(sorted({path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]}))

    def _folder(self, path: str) -> str | None:
        return (self._prefix + path).rstrip("/") or None

    @implements("AMB-38", "MANIFEST-021", "MANIFEST-039")
    def _put_if_absent(self, request: PutIfAbsent) -> None:
        self._probe_once(request.path)
        self._create(request.path, request.data)

    def _put(self, request: Put) -> None:
        full = self._prefix + request.path
        _changing(request.path, lambda: self._store.put(full, request.data, use_multipart=False))

    def _delete(self, request: Delete) -> None:
        try:
            _changing(request.path, lambda: self._store.delete(self._prefix + request.path), absent=NotFound)
        except NotFound:
            return

    def _copy(self, request: Copy) -> None:
        source, target = self._prefix + request.path, self._prefix + request.target
        if source == target:  # which S3 refuses
            self._size(request.path)
            return
        _changing(request.path, lambda: self._store.copy(source, target), absent=NotFound)

    @implements("AMB-38", "MANIFEST-021")
    def _rename_if_absent(self, request: RenameIfAbsent) -> None:
        data = self._get(Get(request.path))
        self._probe_once(request.target)
        self._create(request.target, data)
        if not self._deleted(request.path):
            raise OutcomeUnknown(request.target, f"created, but {request.path} may still be there")

    def _create(self, path: str, data: bytes) -> None:
        """One conditional put, one attempt."""
        try:
            self._store.put(self._prefix + path, data, mode="create", use_multipart=False)
        except RAISED as error:
            if verdict(error, changes=True) is not StoreVerdict.TAKEN:
                raise _outcome(error, path, changes=True, hint=_no_conditional_put(error)) from None
            # S3 says 409 when another request on the name is under way, which then may fail: perhaps none has won.
            if status(error) == 409 and not self._exists(path):
                raise _noted(Throttled(path), error) from None
            raise AlreadyExists(path) from None

    def _exists(self, path: str) -> bool:
        """Whether the object is known to be there."""
        try:
            self._size(path)
        except Outcome:
            return False
        return True

    def _deleted(self, path: str) -> bool:
        """Delete, and whether that is known to have succeeded."""
        try:
            self._delete(Delete(path))
        except Outcome:
            return False
        return True

    def _probe_once(self, path: str) -> None:
        if self._probed:
            return
        with self._probing:
            if not self._probed:
                try:
                    self.probe()
                except Unreachable as silent:
                    raise Unreachable(path, str(silent.fields["reason"])) from None
                except OutcomeUnknown as unknown:  # of the probe's object: nothing was asked for ``path`` yet
                    raise Throttled(path) from unknown
                self._probed = True


def _reading(path: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except RAISED as error:
        raise _outcome(error, path, changes=False) from None


def _changing(path: str, call: Callable[[], object], *, absent: type[NotFound] | None = None) -> None:
    """``absent``: what a missing object is; without it, the bucket is missing."""
    try:
        call()
    except RAISED as error:
        if absent is not None and verdict(error, changes=True) is StoreVerdict.ABSENT:
            raise absent(path) from None
        raise _outcome(error, path, changes=True) from None


def _outcome(error: BaseException, path: str, *, changes: bool, hint: str = "") -> Outcome | InvalidArgument:
    """What to raise for ``error``. It is not chained: obstore's text may show a signed URL, `reason` does not."""
    if isinstance(error, ValueError):
        return InvalidArgument(f"{path!r}: {reason(error)}")
    match verdict(error, changes=changes):
        case StoreVerdict.ABSENT if not changes:
            return NotFound(path)
        case StoreVerdict.ABSENT | StoreVerdict.REFUSED:
            return StorageError(path, reason(error) + hint)
        case StoreVerdict.TAKEN | StoreVerdict.LATER:
            return _noted(Throttled(path), error)
        case StoreVerdict.OPEN:
            return OutcomeUnknown(path, reason(error))
        case StoreVerdict.SILENT:
            return Unreachable(path, reason(error))


def _noted(outcome: Outcome, error: BaseException) -> Outcome:
    outcome.add_note(reason(error))
    return outcome


def _no_conditional_put(error: BaseException) -> str:
    missing = isinstance(error, exceptions.NotSupportedError | NotImplementedError) or status(error) == 501
    return ": no conditional put [AMB-38]" if missing else ""


def _stamp_of(found: ObjectMeta) -> _Stamp | None:
    """By the store's mark of the content; None where it gives none."""
    return (found["size"], found["last_modified"], found["e_tag"]) if found.get("e_tag") else None


_HANDLERS: Handlers[ObjectStore] = {
    Get: ObjectStore._get,
    GetRanges: ObjectStore._get_ranges,
    Head: ObjectStore._head,
    List: ObjectStore._list,
    ListFolders: ObjectStore._list_folders,
    PutIfAbsent: ObjectStore._put_if_absent,
    Put: ObjectStore._put,
    Delete: ObjectStore._delete,
    Copy: ObjectStore._copy,
    RenameIfAbsent: ObjectStore._rename_if_absent,
    Stat: ObjectStore._stamp,
    Stamped: ObjectStore._stamped,
}
