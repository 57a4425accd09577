"""Pages of names (ListObjectsV2)."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote
from xml.sax.saxutils import escape

from memwal_sim.store import Contents

from .calls import ListingPage
from .conditions import Stamp
from .replies import Reply, xml_reply


def listing(page: ListingPage, contents: Contents, stamp_of: Callable[[str, bytes], Stamp]) -> Reply:
    """One page: objects by name in order of their UTF-8 bytes, and where there is a delimiter the folders among them.

    A page shows the store at one moment; the next page shows it at another.
    """
    objects = contents.objects
    found, more = _page(page, sorted(key for key in objects if key.startswith(page.prefix)))
    lines = []
    for name, is_folder in found:
        shown = _shown(name, page)
        if is_folder:
            lines.append(f"<CommonPrefixes><Prefix>{shown}</Prefix></CommonPrefixes>")
        else:
            stamp = stamp_of(name, objects[name])
            lines.append(
                f"<Contents><Key>{shown}</Key><LastModified>{stamp.iso}</LastModified><ETag>{escape(stamp.etag)}</ETag>"
                f"<Size>{len(objects[name])}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            )
    head = [
        f"<Prefix>{_shown(page.prefix, page)}</Prefix><KeyCount>{len(found)}</KeyCount>"
        f"<MaxKeys>{page.keys_max}</MaxKeys><IsTruncated>{str(more).lower()}</IsTruncated>"
    ]
    if page.delimiter:
        head.append(f"<Delimiter>{_shown(page.delimiter, page)}</Delimiter>")
    if page.encode:
        head.append("<EncodingType>url</EncodingType>")
    if page.token:
        head.append(f"<ContinuationToken>{escape(page.token)}</ContinuationToken>")
    if page.start_after:
        head.append(f"<StartAfter>{_shown(page.start_after, page)}</StartAfter>")
    if more:
        head.append(f"<NextContinuationToken>{_token(found[-1][0])}</NextContinuationToken>")
    return xml_reply("ListBucketResult", "".join(head + lines))


def _page(page: ListingPage, names: list[str]) -> tuple[list[tuple[str, bool]], bool]:
    """Names of one page and whether each is a folder; and whether there is another page."""
    found: list[tuple[str, bool]] = []
    last = ""
    for name in names:
        shown, folder = name, False
        if page.delimiter:
            first, cut, _ = name[len(page.prefix) :].partition(page.delimiter)
            if cut:
                shown, folder = page.prefix + first + cut, True
        if (folder and shown == last) or shown <= page.after:
            continue
        if len(found) == page.keys_max:
            return found, page.keys_max > 0
        found.append((shown, folder))
        last = shown
    return found, False


def _shown(name: str, page: ListingPage) -> str:
    return quote(name, safe="/") if page.encode else escape(name)


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()
