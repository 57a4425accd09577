// Region manifests, hints and index details: bytes <-> what the protocol shows.

import { Builder, Corrupt, Message } from "./wire.mjs";
import { numberOf } from "./values.mjs";

function uuid(message) {
  const data = message?.blob(1);
  if (!data || data.length !== 16) throw new Corrupt("a region id is absent or not 16 bytes long");
  return data.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

const uuidMessage = (id) => new Builder().blob(1, Buffer.from(id.replaceAll("-", ""), "hex")).bytes();

const ACCOUNTING = { in_memory_bytes: 3, physical_rows: 4, primary_key_bytes: 5 };

function generation(message) {
  const view = { generation: message.uint(1).toString(), path: message.text(2) };
  for (const [name, number] of Object.entries(ACCOUNTING)) {
    if (message.has(number)) view[name] = message.uint(number).toString();
  }
  return view;
}

/** Decodes a region manifest, and holds it against what its path says. */
export function manifest(data, path) {
  const message = new Message(data);
  const view = {
    region_id: uuid(message.message(11)),
    version: message.uint(1).toString(),
    region_spec_id: message.uint(10, 32n).toString(),
    writer_epoch: message.uint(2).toString(),
    replay_after: message.uint(3).toString(),
    last_seen: message.uint(4).toString(),
    current_generation: message.uint(6).toString(),
    flushed_generations: message.messages(8).map(generation),
  };
  const fields = message.messages(14);
  if (fields.length > 0) {
    view.shard_fields = fields.map((f) => ({ field_id: f.text(1), value: (f.blob(2) ?? Buffer.alloc(0)).toString("base64") }));
  }
  if (message.uint(15) === 1n) view.status = "sealed";
  agrees(view, path);
  return view;
}

function agrees(view, path) {
  const [name, , region] = path.split("/").reverse();
  if (view.version === "0") throw new Corrupt("versions are numbered from 1");
  if (region !== view.region_id) throw new Corrupt(`the manifest is of region ${view.region_id}, its folder of ${region}`);
  if (numberOf(name, "binpb") !== BigInt(view.version)) throw new Corrupt(`the name says another version than ${view.version}`);
  const numbers = view.flushed_generations.map((one) => BigInt(one.generation));
  if (new Set(numbers).size !== numbers.length) throw new Corrupt("a generation is listed twice");
  if (numbers.some((number) => number >= BigInt(view.current_generation))) throw new Corrupt("the current generation is listed");
}

export function encodedManifest(view) {
  const made = new Builder()
    .uint(1, BigInt(view.version)).uint(2, BigInt(view.writer_epoch)).uint(3, BigInt(view.replay_after))
    .uint(4, BigInt(view.last_seen)).uint(6, BigInt(view.current_generation));
  for (const one of view.flushed_generations) {
    const entry = new Builder().uint(1, BigInt(one.generation)).text(2, one.path);
    for (const [name, number] of Object.entries(ACCOUNTING)) {
      if (name in one) entry.optional(number, BigInt(one[name]));
    }
    made.blob(8, entry.bytes());
  }
  made.uint(10, BigInt(view.region_spec_id)).blob(11, uuidMessage(view.region_id));
  for (const field of view.shard_fields ?? []) {
    made.blob(14, new Builder().text(1, field.field_id).blob(2, Buffer.from(field.value, "base64")).bytes());
  }
  return made.uint(15, view.status === "sealed" ? 1n : 0n).bytes();
}

/** The version in a hint. JSON numbers lose digits above 2^53, so the digits are taken from the text. */
export function hint(data) {
  let decoded;
  try {
    decoded = JSON.parse(data.toString("utf-8"));
  } catch {
    throw new Corrupt("the hint is not JSON");
  }
  const version = decoded?.version;
  if (Array.isArray(decoded) || !Number.isInteger(version) || version < 1) throw new Corrupt("the hint names no version");
  const [, exact] = data.toString("utf-8").match(/"version"\s*:\s*([0-9]+)/) ?? [];
  if (exact === undefined) throw new Corrupt("the version of the hint is no whole number");
  return { version: exact };
}

export const encodedHint = (view) => Buffer.from(`{"version": ${view.version}}`);

const merged = (message) => ({ region_id: uuid(message.message(1)), generation: message.uint(2).toString() });
const encodedMerged = (view) => new Builder().blob(1, uuidMessage(view.region_id)).uint(2, BigInt(view.generation)).bytes();

function regionField(message) {
  const view = {
    field_id: message.text(1),
    source_ids: message.ints(2).map(String),
    result_type: message.text(5),
    parameters: message.map(6),
  };
  if (message.has(3)) view.transform = message.text(3);
  if (message.has(4)) view.expression = message.text(4);
  return view;
}

function encodedField(view) {
  const made = new Builder().text(1, view.field_id);
  const ids = new Builder();
  for (const id of view.source_ids) ids.optional(2, BigInt(id)); // not packed: readers must take both
  made.parts.push(ids.bytes());
  if (view.transform !== undefined) made.blob(3, Buffer.from(view.transform));
  if (view.expression !== undefined) made.blob(4, Buffer.from(view.expression));
  made.text(5, view.result_type);
  for (const [key, value] of Object.entries(view.parameters)) made.blob(6, new Builder().text(1, key).text(2, value).bytes());
  return made.bytes();
}

export function indexDetails(data) {
  const message = new Message(data);
  if (message.has(1) && message.fields.some((field) => field.number === 1 && field.type === 2)) {
    throw new Corrupt("these are details of revision 0");
  }
  const view = {
    snapshot_ts_millis: message.int(1).toString(),
    num_regions: message.uint(2, 32n).toString(),
    inline_snapshots: message.blob(3)?.toString("base64") ?? null,
    region_specs: message.messages(7).map((spec) => ({
      spec_id: spec.uint(1, 32n).toString(),
      fields: spec.messages(2).map(regionField),
    })),
    maintained_indexes: message.texts(8),
    merged_generations: message.messages(9).map(merged),
    index_catchup: message.messages(10).map((entry) => ({
      index_name: entry.text(1),
      caught_up_generations: entry.messages(2).map(merged),
    })),
  };
  const regions = view.merged_generations.map((entry) => entry.region_id);
  if (new Set(regions).size !== regions.length) throw new Corrupt("a region has two progress entries");
  return view;
}

export function encodedDetails(view) {
  const made = new Builder().uint(1, BigInt(view.snapshot_ts_millis)).uint(2, BigInt(view.num_regions));
  if (view.inline_snapshots !== null) made.blob(3, Buffer.from(view.inline_snapshots, "base64"));
  for (const spec of view.region_specs) {
    const entry = new Builder().uint(1, BigInt(spec.spec_id));
    for (const field of spec.fields) entry.blob(2, encodedField(field));
    made.blob(7, entry.bytes());
  }
  for (const name of view.maintained_indexes) made.blob(8, Buffer.from(name));
  for (const one of view.merged_generations) made.blob(9, encodedMerged(one));
  for (const progress of view.index_catchup) {
    const entry = new Builder().text(1, progress.index_name);
    for (const one of progress.caught_up_generations) entry.blob(2, encodedMerged(one));
    made.blob(10, entry.bytes());
  }
  return made.bytes();
}
