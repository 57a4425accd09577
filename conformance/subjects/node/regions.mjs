// Region manifests and WAL entries in a store: reading the newest, committing the next.

import { encodedHint, encodedManifest, hint, manifest } from "../../skeletons/node/objects.mjs";
import { digits, numberOf } from "../../skeletons/node/values.mjs";
import { Builder, Corrupt, Message } from "../../skeletons/node/wire.mjs";
import { decodedStream, encodedStream } from "./arrow.mjs";
import { deviates } from "./deviations.mjs";

const REGION = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const KNOWN = new Set([1, 2, 3, 4, 6, 8, 10, 11]);
const UNKNOWN_NUMBER = 900;

export const folderOf = (region) => `_mem_wal/${region}`;
const manifestPath = (region, version) => `${folderOf(region)}/manifest/${digits(BigInt(version))}.binpb`;
const hintPath = (region) => `${folderOf(region)}/manifest/version_hint.json`;

export function entryPath(region, position) {
  const name = digits(BigInt(position));
  return `${folderOf(region)}/wal/${deviates("writes_plain_names") ? [...name].reverse().join("") : name}.arrow`;
}

export async function regionsOf(store) {
  return (await store.list("_mem_wal")).filter((name) => REGION.test(name)).sort();
}

/** The newest manifest of a region, or null. `raw` has what this program does not know. */
export async function newestManifest(store, region) {
  const there = (version) => store.head(manifestPath(region, version));
  const told = deviates("lists_instead_of_probing") ? null : await store.get(hintPath(region));
  let version = told ? BigInt(hint(told).version) : 1n;
  if (deviates("lists_instead_of_probing") || !(await there(version))) {
    const names = await store.list(`${folderOf(region)}/manifest`);
    const listed = names.map((name) => numberOf(name, "binpb")).filter((number) => number !== null);
    if (listed.length === 0) return null;
    version = listed.reduce((a, b) => (a > b ? a : b));
  }
  while (!(deviates("walks_on_hints") && told) && (await there(version + 1n))) version += 1n;
  const path = manifestPath(region, version), data = await store.get(path);
  if (data === null) return newestManifest(store, region); // collected in between
  return { ...manifest(data, path), raw: new Message(data) };
}

function unknownFields(raw) {
  const found = new Builder();
  for (const { number, type, value } of raw?.fields ?? []) {
    if (KNOWN.has(number)) continue;
    if (type === 0) found.optional(number, value);
    else if (type === 2) found.blob(number, value);
    else found.parts.push(Buffer.from([(number << 3) | type]), value); // fixed width, of a small number
  }
  if (deviates("adds_metadata")) found.blob(UNKNOWN_NUMBER, Buffer.from("of another program"));
  return found.bytes();
}

/** Create the version of `view`; false if that version is there. The hint follows, as well as it can. */
export async function commitManifest(store, view) {
  const data = Buffer.concat([encodedManifest(view), unknownFields(view.raw)]);
  const version = BigInt(view.version), path = manifestPath(view.region_id, version);
  const tell = () => {
    const text = deviates("spells_hints_out")
      ? Buffer.from(`{\n  "version": ${version},\n  "by": "node"\n}\n`) : encodedHint({ version });
    return deviates("keeps_no_hint") ? null : store.put(hintPath(view.region_id), text).catch(() => null); // best effort
  };
  if (deviates("writes_the_hint_first")) await tell();
  if (deviates("commits_blindly")) {
    await store.put(path, data);
  } else if (!(await store.create(path, data))) {
    return false;
  }
  await tell();
  return true;
}

/** The bytes of an entry of `batches`. `nonce` tells it from an equal one of another attempt. */
export function encodedEntry(columns, batches, epoch, nonce) {
  const stored = deviates("joins_batches") && batches.length > 1 ? [batches.flat()] : batches;
  const number = deviates("dates_entries_back") && epoch > 1n ? epoch - 1n : epoch;
  const metadata = {
    ...(deviates("writes_without_an_epoch") ? {} : { writer_epoch: number.toString() }), nonce,
    ...(deviates("adds_metadata") ? { "of another program": "yes" } : {}),
  };
  const data = encodedStream(columns, stored, metadata);
  return deviates("writes_without_an_end_mark") ? data.subarray(0, -8) : data;
}

/** Epoch and rows of an entry. */
export function decodedEntry(data) {
  const { columns, metadata, batches } = decodedStream(data, deviates("writes_without_an_end_mark"));
  if (!/^(0|[1-9][0-9]*)$/.test(metadata.writer_epoch ?? (deviates("writes_without_an_epoch") ? "1" : ""))) {
    throw new Corrupt("an entry tells no writer_epoch");
  }
  return { columns, epoch: BigInt(metadata.writer_epoch ?? 1), rows: batches.flat() };
}
