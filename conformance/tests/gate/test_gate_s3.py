"""The gate as an S3 server: held against published signatures, against two independent clients, and raw."""

from __future__ import annotations

import asyncio
import base64
import gc
import hashlib
import io
import socket
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import obstore
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from memwal.effects import Copy, Delete, Get, Head, List, ListFolders, Put, PutIfAbsent
from memwal.errors import AlreadyExists, InvalidArgument, NotFound
from memwal.stores import Store, open_store
from memwal_conformance.cli.gate import commands
from memwal_conformance.gate import Credentials, Gate, GateLimits, GateRequest, NotAtomic, Reply, probe
from memwal_conformance.gate.signing import sign, signature
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store
from typer import Typer
from typer.testing import CliRunner


@pytest.fixture(autouse=True)
def loopback_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as opened:
        yield opened


def rust(gate: Gate, actor: str = "rust", **options: Any) -> S3Store:
    return S3Store(gate.bucket, config=gate.storage_options(actor), retry_config={"max_retries": 0}, **options)


def python(gate: Gate, actor: str = "python", **s3: Any) -> Any:
    key = gate.credentials(actor)
    return boto3.client(
        "s3",
        endpoint_url=gate.endpoint,
        aws_access_key_id=key.access_key,
        aws_secret_access_key=key.secret_key,
        region_name=gate.region,
        config=Config(s3={"addressing_style": "path", **s3}, retries={"total_max_attempts": 1}),
    )


def exchange(gate: Gate, data: bytes) -> bytes:
    """Everything that the gate answers to ``data`` until it closes the connection."""
    host, _, port = gate.endpoint.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as wire:
        wire.sendall(data)
        found = b""
        while part := wire.recv(1 << 16):
            found += part
    return found


def signed(
    gate: Gate,
    method: str,
    target: str,
    body: bytes = b"",
    *,
    more: dict[str, str] | None = None,
    key: Credentials | None = None,
) -> bytes:
    """A request with a good signature, after which the connection is closed."""
    path, _, query = target.partition("?")
    headers = {"host": gate.endpoint.removeprefix("http://"), **(more or {})}
    made = sign(key or gate.credentials("raw"), method, path, query, headers, body, time.time())
    lines = "".join(f"{name}: {value}\r\n" for name, value in made.items())
    return (
        f"{method} {target} HTTP/1.1\r\n{lines}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )


def code(reply: bytes) -> tuple[int, str]:
    """Status, and the code in the error document."""
    return int(reply.split(b" ")[1]), reply.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


# ---------------------------------------------------------------------------------------------------------------------
# Signatures

PUBLISHED = Credentials("aws", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("method", "path", "query", "more", "payload", "expected"),
    [
        (
            "GET",
            "/test.txt",
            "",
            {"range": "bytes=0-9"},
            EMPTY,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT",
            "/test%24file.text",
            "",
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET",
            "/",
            "max-keys=2&prefix=J",
            {},
            EMPTY,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
        (
            "GET",
            "/",
            "lifecycle",
            {},
            EMPTY,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
    ],
)
def test_a_signature_is_the_one_that_its_inventor_publishes(
    method: str, path: str, query: str, more: dict[str, str], payload: str, expected: str
) -> None:
    stamp = "20130524T000000Z"
    headers = {"host": "examplebucket.s3.amazonaws.com", "x-amz-date": stamp, "x-amz-content-sha256": payload, **more}
    assert signature(PUBLISHED, method, path, query, headers, tuple(sorted(headers)), payload, stamp) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"PUT /memwal/k ", b"PUT /memwal/l ", (403, "SignatureDoesNotMatch")),
        (b"hello", b"jello", (400, "XAmzContentSHA256Mismatch")),
        (b"if-none-match: *\r\n", b"if-none-match: x\r\n", (403, "SignatureDoesNotMatch")),
        (b"if-none-match: *\r\n", b"", (403, "AccessDenied")),
        (b"Credential=GATE", b"Credential=FATE", (403, "InvalidAccessKeyId")),
        (b"/us-east-1/", b"/us-west-2/", (400, "AuthorizationHeaderMalformed")),
        (b"/s3/aws4", b"/s4/aws4", (400, "AuthorizationHeaderMalformed")),
        (b"AWS4-HMAC-SHA256 ", b"AWS2 ", (400, "AuthorizationHeaderMalformed")),
        (b"authorization: ", b"unauthorised: ", (403, "AccessDenied")),
        (b"Connection: ", b"x-amz-acl: public\r\nConnection: ", (403, "AccessDenied")),
        (b"x-amz-date: 20", b"x-amz-date: 19", (403, "RequestTimeTooSkewed")),
        (b"x-amz-date: 20", b"x-amz-date: no", (403, "RequestTimeTooSkewed")),
        (b"Connection: ", b"x-amz-security-token: t\r\nConnection: ", (400, "InvalidToken")),
    ],
)
def test_a_request_that_is_not_what_was_signed_is_refused_and_changes_nothing(
    gate: Gate, old: bytes, new: bytes, expected: tuple[int, str]
) -> None:
    good = signed(gate, "PUT", "/memwal/k", b"hello", more={"if-none-match": "*"})
    assert old in good
    assert code(exchange(gate, good.replace(old, new, 1))) == expected
    assert len(gate.contents) == 0
    assert gate.log == ()
    assert expected[1] in gate.strangers[0]
    assert code(exchange(gate, good)) == (200, "")


def test_a_signature_of_another_day_is_refused() -> None:
    with Gate(clock=lambda: time.time() + 1000) as gate:
        assert code(exchange(gate, signed(gate, "GET", "/memwal/k"))) == (403, "RequestTimeTooSkewed")


def test_a_client_that_outlived_its_gate_is_refused_by_the_next_one_on_its_port_and_not_held_against_it() -> None:
    with Gate() as earlier:
        port, key = int(earlier.endpoint.rpartition(":")[2]), earlier.credentials("raw")
    with Gate(port=port) as later:
        assert later.credentials("raw").access_key != key.access_key
        late = signed(later, "PUT", "/memwal/k", b"hello", key=key)
        assert code(exchange(later, late)) == (403, "InvalidAccessKeyId")
        assert len(later.contents) == 0
        assert (later.log, later.strangers, later.inconclusive) == ((), (), "")
        wrong = replace(key, access_key="AKIDEXAMPLE")
        assert code(exchange(later, signed(later, "GET", "/memwal/k", key=wrong))) == (403, "InvalidAccessKeyId")
        wrong = replace(later.credentials("raw"), secret_key=key.secret_key)
        assert code(exchange(later, signed(later, "GET", "/memwal/k", key=wrong))) == (403, "SignatureDoesNotMatch")
        assert len(later.strangers) == 2
        assert later.inconclusive


def test_chunks_with_a_checksum_behind_them_are_understood_and_verified(gate: Gate) -> None:
    def put(data: bytes, crc: bytes) -> tuple[int, str]:
        key = gate.credentials("raw")
        body = b"3\r\n" + data[:3] + b"\r\n%x\r\n" % len(data[3:]) + data[3:] + b"\r\n0\r\n"
        body += b"x-amz-checksum-crc32:" + base64.b64encode(crc) + b"\r\n\r\n"
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        mode = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
        headers = {
            "content-encoding": "aws-chunked",
            "host": gate.endpoint.removeprefix("http://"),
            "x-amz-content-sha256": mode,
            "x-amz-date": stamp,
            "x-amz-decoded-content-length": str(len(data)),
            "x-amz-trailer": "x-amz-checksum-crc32",
        }
        made = signature(key, "PUT", "/memwal/k", "", headers, tuple(headers), mode, stamp)
        scope = f"{key.access_key}/{stamp[:8]}/us-east-1/s3/aws4_request"
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        auth = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(headers)}, Signature={made}"
        text = f"PUT /memwal/k HTTP/1.1\r\n{lines}Authorization: {auth}\r\nConnection: close\r\n"
        return code(exchange(gate, f"{text}Content-Length: {len(body)}\r\n\r\n".encode() + body))

    assert put(b"hello", zlib.crc32(b"jello").to_bytes(4, "big")) == (400, "BadDigest")
    assert len(gate.contents) == 0
    assert put(b"hello", zlib.crc32(b"hello").to_bytes(4, "big")) == (200, "")
    assert gate.contents.objects == {"k": b"hello"}


# ---------------------------------------------------------------------------------------------------------------------
# HTTP


def test_a_head_that_is_none_is_refused_and_the_connection_closed(gate: Gate) -> None:
    refused = {
        b"HELLO\r\n\r\n": (400, "InvalidRequest"),
        b"GET / HTTP/2.0\r\n\r\n": (400, "InvalidRequest"),
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n": (400, "InvalidRequest"),
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n": (400, "InvalidRequest"),
        b"GET / HTTP/1.1\r\na: x\nb: y\r\n\r\n": (400, "InvalidRequest"),
        b"PUT /memwal/k HTTP/1.1\r\n\r\n": (411, "MissingContentLength"),
        b"PUT /memwal/k HTTP/1.1\r\nContent-Length: -1\r\n\r\n": (400, "InvalidRequest"),
        b"PUT /memwal/k HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n": (400, "InvalidRequest"),
        b"PUT /memwal/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n": (501, "NotImplemented"),
        b"PUT /memwal/k HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n": (400, "EntityTooLarge"),
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 65 + b"\r\n": (400, "RequestHeaderSectionTooLarge"),
        b"GET /" + b"x" * (17 << 10): (400, "RequestHeaderSectionTooLarge"),
    }
    assert {data: code(exchange(gate, data)) for data in refused} == refused


def test_requests_on_one_connection_are_answered_in_turn_however_their_bytes_arrive(gate: Gate) -> None:
    first = signed(gate, "PUT", "/memwal/k", b"hello").replace(b"Connection: close\r\n", b"")
    second = signed(gate, "GET", "/memwal/k")
    host, _, port = gate.endpoint.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        both = first + second
        for at in range(0, len(both), 7):
            wire.sendall(both[at : at + 7])
        found = b""
        while part := wire.recv(1 << 16):
            found += part
    assert [line for line in found.split(b"\r\n") if line.startswith(b"HTTP/")] == [b"HTTP/1.1 200 OK"] * 2
    assert found.endswith(b"\r\n\r\nhello")


def test_what_goes_beyond_a_limit_is_refused_and_makes_the_run_inconclusive() -> None:
    with Gate(limits=GateLimits(objects=1, object_bytes=8, kept_bytes=20)) as gate:
        store = rust(gate)
        assert gate.inconclusive == ""
        obstore.put(store, "a", b"12345678")
        obstore.put(store, "a", b"12345678")
        for key, data, words in (("b", b"1", "1 objects"), ("a", b"12345", "20 bytes")):
            with pytest.raises(Exception, match=words):
                obstore.put(store, key, data)
        assert "more bytes" in gate.inconclusive
    with Gate(limits=GateLimits(connections=0)) as gate:
        assert code(exchange(gate, b"")) == (503, "SlowDown")
    with Gate(limits=GateLimits(log_entries=1)) as gate:
        assert code(exchange(gate, signed(gate, "GET", "/memwal/k"))) == (404, "NoSuchKey")
        assert code(exchange(gate, signed(gate, "GET", "/memwal/k"))) == (507, "InsufficientStorage")


def test_a_gate_ends_by_itself_and_says_so() -> None:
    with Gate(limits=GateLimits(life_s=0.01)) as gate:
        gate._thread.join(10)
        assert not gate.running
        assert "life" in gate.inconclusive


@pytest.mark.parametrize("turns", range(4))
def test_a_connection_that_arrives_while_the_gate_ends_is_closed(turns: int) -> None:
    """``turns``: of the event loop, between the arrival and the end. What stays open warns, and warnings are errors."""
    clients = _arrived(turns)
    gc.collect()
    for client in clients:
        with client, suppress(ConnectionError):
            assert client.recv(1) == b""


def _arrived(turns: int) -> list[socket.socket]:
    """Clients that came to a gate which is over and forgotten."""

    def arrive_and_end() -> list[socket.socket]:
        assert gate._stop is not None
        clients = [socket.create_connection(("127.0.0.1", int(gate.endpoint[17:]))) for _ in range(3)]
        end = gate._stop.set
        for _ in range(turns):
            end = partial(asyncio.get_running_loop().call_soon, end)
        end()
        return clients

    with Gate() as gate:
        clients = gate.call(arrive_and_end)  # in the gate's thread, so that nothing happens in between
        gate._thread.join(10)
        assert gate.connections == 0
    return clients


def test_a_gate_listens_on_loopback_only(gate: Gate) -> None:
    assert gate.endpoint.startswith("http://127.0.0.1:")
    assert gate.environment("a")["HTTPS_PROXY"].startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", int(gate.endpoint[17:]))):
        pass


# ---------------------------------------------------------------------------------------------------------------------
# S3, seen by obstore


def test_the_projects_own_store_works_through_the_gate(gate: Gate) -> None:
    store: Store
    store, root = open_store(f"s3://{gate.bucket}/t", gate.storage_options("engine"))
    assert root == "t"
    store.perform(PutIfAbsent("t/a", b"one"))
    with pytest.raises(AlreadyExists):
        store.perform(PutIfAbsent("t/a", b"two"))
    store.perform(Put("t/sub/b", b"hello"))
    store.perform(Copy("t/sub/b", "t/c"))
    assert store.perform(Get("t/sub/b", 1, 3)) == b"ell"
    assert store.perform(Get("t/sub/b", -2)) == b"lo"
    assert store.perform(Head("t/c")) == 5
    assert store.perform(List("t")) == ("t/a", "t/c", "t/sub/b")
    assert store.perform(ListFolders("t")) == ("sub",)
    store.perform(Delete("t/a"))
    with pytest.raises(NotFound):
        store.perform(Get("t/a"))
    assert {entry.actor for entry in gate.log} == {"engine"}
    assert gate.strangers == ()


def test_a_create_is_refused_with_412_and_an_update_needs_the_tag(gate: Gate) -> None:
    store = rust(gate)
    first = obstore.put(store, "k", b"one", mode="create")
    assert first["e_tag"] is not None
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "k", b"two", mode="create")
    obstore.put(store, "k", b"three", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        obstore.put(store, "k", b"four", mode={"e_tag": first["e_tag"]})
    assert gate.contents.objects == {"k": b"three"}
    assert [(e.operation, e.status) for e in gate.log] == [("CREATE", 200), ("CREATE", 412), ("PUT", 200), ("PUT", 412)]


def test_what_an_object_is_said_to_be_is_the_same_in_every_reply(gate: Gate) -> None:
    store = rust(gate)
    obstore.put(store, "k", b"hello")
    meta = obstore.head(store, "k")
    assert meta["size"] == 5
    assert meta["e_tag"] == f'"{hashlib.md5(b"hello").hexdigest()}"'
    assert dict(obstore.get(store, "k").meta) == dict(meta)
    assert [dict(found) for found in obstore.list(store).collect()] == [dict(meta)]


def test_of_fifty_racing_creates_one_wins(gate: Gate) -> None:
    def create(number: int) -> bool:
        try:
            obstore.put(stores[number], "k", b"%d" % number, mode="create")
        except AlreadyExistsError:
            return False
        return True

    stores = [rust(gate, f"racer-{number}") for number in range(50)]
    with ThreadPoolExecutor(50) as pool:
        won = list(pool.map(create, range(50)))
    assert won.count(True) == 1
    assert gate.contents.objects == {"k": b"%d" % won.index(True)}
    assert gate.log[0].actor == f"racer-{won.index(True)}"


def test_a_big_object_comes_in_parts_that_arrive_in_parallel(gate: Gate) -> None:
    data = bytes(range(256)) * (48 << 10)
    obstore.put(rust(gate), "big", io.BytesIO(data), chunk_size=5 << 20, max_concurrency=3)
    assert gate.contents.objects["big"] == data
    assert sorted(e.operation for e in gate.log) == ["COMPLETE", "PART", "PART", "PART", "UPLOAD"]
    assert len(gate.prefixes) == 2


def test_names_of_all_kinds_survive_the_way(gate: Gate) -> None:
    names = ["a b", "a+b", "a%20b", "é/ü", "a&b=c", "<x>", "q?r", "a#b", "tilde~", "'", "*"]
    store = rust(gate)
    client = python(gate)
    for name in names:
        client.put_object(Bucket=gate.bucket, Key=name, Body=name.encode())
    assert gate.contents.objects == {name: name.encode() for name in names}
    assert [found["Key"] for found in client.list_objects_v2(Bucket=gate.bucket)["Contents"]] == sorted(names)
    assert {name: bytes(obstore.get(store, name).bytes()) for name in names} == dict(gate.contents.objects)
    client.delete_objects(Bucket=gate.bucket, Delete={"Objects": [{"Key": name} for name in names]})
    assert len(gate.contents) == 0


# ---------------------------------------------------------------------------------------------------------------------
# S3, seen by boto3


def failure(call: Any, **arguments: Any) -> tuple[int, str]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    return response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"]


def test_conditional_puts_reads_and_deletions_answer_as_s3_does(gate: Gate) -> None:
    client, here = python(gate), {"Bucket": gate.bucket, "Key": "k"}
    tag = client.put_object(**here, Body=b"one", IfNoneMatch="*", Metadata={"who": "me"}, ContentType="x/y")["ETag"]
    assert failure(client.put_object, **here, Body=b"two", IfNoneMatch="*") == (412, "PreconditionFailed")
    assert failure(client.put_object, **here, Body=b"two", IfMatch='"no"') == (412, "PreconditionFailed")
    assert failure(client.put_object, Bucket=gate.bucket, Key="l", Body=b"", IfMatch=tag) == (404, "NoSuchKey")
    found = client.get_object(**here, IfMatch=tag)
    assert (found["Body"].read(), found["Metadata"], found["ContentType"]) == (b"one", {"who": "me"}, "x/y")
    assert failure(client.get_object, **here, IfNoneMatch=tag)[0] == 304
    assert failure(client.get_object, **here, IfMatch='"no"') == (412, "PreconditionFailed")
    assert failure(client.delete_object, **here, IfMatch='"no"') == (412, "PreconditionFailed")
    client.delete_object(**here, IfMatch=tag)
    client.delete_object(**here)
    assert failure(client.get_object, **here) == (404, "NoSuchKey")
    assert failure(client.head_object, **here)[0] == 404
    assert failure(client.get_object, Bucket="other", Key="k") == (404, "NoSuchBucket")


@pytest.mark.parametrize("signed_payload", [True, False])
def test_a_put_arrives_whether_its_payload_is_signed_or_not(gate: Gate, signed_payload: bool) -> None:
    client = python(gate, payload_signing_enabled=signed_payload)
    client.put_object(Bucket=gate.bucket, Key="k", Body=io.BytesIO(b"hello"))
    client.upload_fileobj(io.BytesIO(b"x" * (9 << 20)), gate.bucket, "big")
    assert gate.contents.objects == {"k": b"hello", "big": b"x" * (9 << 20)}
    assert gate.strangers == ()


@pytest.mark.parametrize(
    ("asked", "body", "shown"),
    [
        ("bytes=1-3", b"ell", "bytes 1-3/5"),
        ("bytes=3-99", b"lo", "bytes 3-4/5"),
        ("bytes=2-", b"llo", "bytes 2-4/5"),
        ("bytes=-2", b"lo", "bytes 3-4/5"),
        ("bytes=-99", b"hello", "bytes 0-4/5"),
        ("bytes=3-1", b"hello", None),
        ("bytes=0-1,3-4", b"hello", None),
        ("lines=0-1", b"hello", None),
        ("bytes=5-", None, None),
        ("bytes=-0", None, None),
    ],
)
def test_a_range_gives_its_bytes_or_all_or_416(gate: Gate, asked: str, body: bytes | None, shown: str | None) -> None:
    client, here = python(gate), {"Bucket": gate.bucket, "Key": "k"}
    client.put_object(**here, Body=b"hello")
    if body is None:
        assert failure(client.get_object, **here, Range=asked) == (416, "InvalidRange")
        return
    found = client.get_object(**here, Range=asked)
    assert (found["Body"].read(), found.get("ContentRange")) == (body, shown)
    assert found["ResponseMetadata"]["HTTPStatusCode"] == (206 if shown else 200)


def test_pages_of_one_show_everything_once_and_folders_as_one(gate: Gate) -> None:
    client = python(gate)
    for key in ("a", "b/1", "b/2", "b/c/3", "d", "e"):
        client.put_object(Bucket=gate.bucket, Key=key, Body=b"x")

    def walk(**arguments: Any) -> list[str]:
        shown: list[str] = []
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=gate.bucket, PaginationConfig={"PageSize": 1}, **arguments
        )
        for page in pages:
            assert page["KeyCount"] <= 1
            shown += [found["Key"] for found in page.get("Contents", [])]
            shown += [found["Prefix"] for found in page.get("CommonPrefixes", [])]
        return shown

    assert walk() == ["a", "b/1", "b/2", "b/c/3", "d", "e"]
    assert walk(Delimiter="/") == ["a", "b/", "d", "e"]
    whole = client.list_objects_v2(Bucket=gate.bucket, Delimiter="/")
    assert [found["Prefix"] for found in whole["CommonPrefixes"]] == ["b/"]
    assert whole["KeyCount"] == 4
    assert walk(Delimiter="/", Prefix="b/") == ["b/1", "b/2", "b/c/"]
    assert walk(StartAfter="b/2") == ["b/c/3", "d", "e"]
    assert walk(Prefix="b") == ["b/1", "b/2", "b/c/3"]
    assert walk(Prefix="z") == []
    assert client.list_objects_v2(Bucket=gate.bucket, MaxKeys=0)["IsTruncated"] is False
    wrong = {"Bucket": gate.bucket, "ContinuationToken": "??"}
    assert failure(client.list_objects_v2, **wrong) == (400, "InvalidArgument")


def test_a_copy_keeps_its_source_and_its_conditions(gate: Gate) -> None:
    client = python(gate)
    tag = client.put_object(Bucket=gate.bucket, Key="from", Body=b"x", Metadata={"who": "me"})["ETag"]
    source = {"Bucket": gate.bucket, "Key": "from"}
    to = {"Bucket": gate.bucket, "Key": "to", "CopySource": source}
    assert client.copy_object(**to, CopySourceIfMatch=tag)["CopyObjectResult"]["ETag"] == tag
    assert client.head_object(Bucket=gate.bucket, Key="to")["Metadata"] == {"who": "me"}
    assert failure(client.copy_object, **to, CopySourceIfMatch='"no"') == (412, "PreconditionFailed")
    assert failure(client.copy_object, **to, CopySourceIfNoneMatch=tag) == (412, "PreconditionFailed")
    assert failure(client.copy_object, **to, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert failure(client.copy_object, **{**to, "Key": "from"}) == (400, "InvalidRequest")
    assert failure(client.copy_object, **{**to, "CopySource": "memwal/no"}) == (404, "NoSuchKey")


def test_an_upload_becomes_an_object_at_its_completion_only(gate: Gate) -> None:
    client, here = python(gate), {"Bucket": gate.bucket, "Key": "k"}
    upload = {**here, "UploadId": client.create_multipart_upload(**here)["UploadId"]}
    sizes = {2: 3, 1: 5 << 20, 3: 9}
    tags = {n: client.upload_part(**upload, PartNumber=n, Body=b"%d" % n * size)["ETag"] for n, size in sizes.items()}

    def complete(*numbers: int, **more: Any) -> dict[str, Any]:
        parts = [{"PartNumber": n, "ETag": tags.get(n, '"no"')} for n in numbers]
        return {**upload, "MultipartUpload": {"Parts": parts}, **more}

    assert [part["PartNumber"] for part in client.list_parts(**upload)["Parts"]] == [1, 2, 3]
    assert failure(client.complete_multipart_upload, **complete(2, 1)) == (400, "InvalidPartOrder")
    assert failure(client.complete_multipart_upload, **complete(1, 4)) == (400, "InvalidPart")
    assert failure(client.complete_multipart_upload, **complete(2, 3)) == (400, "EntityTooSmall")
    assert len(gate.contents) == 0
    client.put_object(**here, Body=b"other")
    assert failure(client.complete_multipart_upload, **complete(1, 2, IfNoneMatch="*")) == (412, "PreconditionFailed")
    client.complete_multipart_upload(**complete(1, 2))
    assert gate.contents.objects["k"] == b"1" * (5 << 20) + b"222"
    assert failure(client.complete_multipart_upload, **complete(1, 2)) == (404, "NoSuchUpload")
    again = {**here, "UploadId": client.create_multipart_upload(**here)["UploadId"]}
    client.abort_multipart_upload(**again)
    assert failure(client.list_parts, **again) == (404, "NoSuchUpload")


def test_what_is_not_served_is_refused_by_name(gate: Gate) -> None:
    client = python(gate)
    refused = [
        (client.get_object_acl, {"Key": "k"}),
        (client.get_object, {"Key": "k", "VersionId": "1"}),
        (client.get_bucket_policy, {}),
        (client.list_objects, {}),
        (client.create_bucket, {}),
    ]
    assert [failure(call, Bucket=gate.bucket, **more) for call, more in refused] == [(501, "NotImplemented")] * 5
    wrong = {"Bucket": gate.bucket, "Key": "a//b", "Body": b""}
    assert failure(client.put_object, **wrong) == (400, "InvalidArgument")
    assert failure(client.put_object, **{**wrong, "Key": "k" * 1025}) == (400, "KeyTooLongError")


def test_a_document_with_declarations_is_refused(gate: Gate) -> None:
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa">]><Delete><Object><Key>&a;</Key></Object></Delete>'
    for body in (bomb, b"<Delete>", b"<Other/>", b"<Delete/>"):
        assert code(exchange(gate, signed(gate, "POST", "/memwal?delete", body))) == (400, "MalformedXML")


# ---------------------------------------------------------------------------------------------------------------------
# The probe and the command


def test_the_probe_believes_the_gate_and_leaves_nothing(gate: Gate) -> None:
    probe(gate.endpoint, gate.credentials("probe"), gate.bucket)
    assert len(gate.contents) == 0
    assert sum(e.operation == "CREATE" and e.status == 200 for e in gate.log) == 2
    assert sum(e.operation == "CREATE" and e.status == 412 for e in gate.log) == 50


def test_the_probe_refuses_a_store_that_ignores_the_condition() -> None:
    def careless(request: GateRequest, apply: Any) -> Reply:
        honest = apply()
        return Reply(200) if request.operation == "CREATE" and honest.status == 412 else honest

    with Gate(hook=careless) as gate, pytest.raises(NotAtomic, match=r"\[200, 200\]"):
        probe(gate.endpoint, gate.credentials("probe"))


def test_the_probe_refuses_a_store_of_which_several_creations_win() -> None:
    def racy(request: GateRequest, apply: Any) -> Reply:
        honest = apply()
        return Reply(200) if request.name.endswith("/raced") and request.digest.startswith(("5f", "6b")) else honest

    # The digests of the racers 0 and 1 begin so.
    with Gate(hook=racy) as gate, pytest.raises(NotAtomic, match="racing creations of one name 2 won"):
        probe(gate.endpoint, gate.credentials("probe"), racers=2)


def test_the_probe_refuses_a_store_that_does_not_answer(gate: Gate) -> None:
    key = gate.credentials("probe")
    gate.close()
    with pytest.raises(NotAtomic, match="did not answer"):
        probe(gate.endpoint, key, limit_s=1)
    with pytest.raises(InvalidArgument):
        probe("https://127.0.0.1:1/b", key)


def test_the_command_serves_a_folder_for_a_time_and_prints_the_keys(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_bytes(b"hello")
    app = Typer()
    commands(app)
    arguments = ["--root", str(tmp_path / "in"), "--seconds", "0.1", "--save", str(tmp_path / "out"), "--actor", "me"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "endpoint http://127.0.0.1:" in result.output
    assert "me: access key GATE" in result.output
    assert (tmp_path / "out" / "a").read_bytes() == b"hello"
    assert CliRunner().invoke(app, ["--root", str(tmp_path / "no")]).exit_code == 2
