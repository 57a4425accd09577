// A second implementation of revision B, written from the texts and the pages of docs/ alone: a subject to try the suite on.
//
//     pytest conformance/ --memwal-adapter "node conformance/subjects/node/adapter.mjs" --memwal-revision B
//
// It creates tables, writes and reads; it merges, snapshots and collects nothing. `--deviation NAME` makes it deviate from
// that, in a way that the texts permit or forbid (conformance/deviations.toml).

import { createInterface } from "node:readline";

import { hashOf, hashOfAll } from "../../skeletons/node/hash.mjs";
import * as objects from "../../skeletons/node/objects.mjs";
import { Refused } from "../../skeletons/node/refused.mjs";
import { nameOf, regionValues } from "../../skeletons/node/values.mjs";
import { Corrupt } from "../../skeletons/node/wire.mjs";
import { decodedStream, encodedStream } from "./arrow.mjs";
import { filterOf, mayHave } from "./bloom.mjs";
import { DEVIATION } from "./deviations.mjs";
import { kindOf } from "./kinds.mjs";
import { newestTable, writeTable } from "./manifests.mjs";
import { filtered, nearest, newestRows, shown } from "./reader.mjs";
import { decodedEntry, encodedEntry, newestManifest, regionsOf } from "./regions.mjs";
import { storeOf } from "./store.mjs";
import { Writer, newRegionId } from "./writer.mjs";

const state = { ipc: false, storage: null, watch: { tell: null, crash: null }, open: new Map(), handles: 0 };
const store = (table) => storeOf(table, state);
const handle = (kind, thing) => {
  state.handles += 1;
  state.open.set(`${kind}-${state.handles}`, thing);
  return `${kind}-${state.handles}`;
};
const opened = (name) => {
  if (!state.open.has(name)) throw new Refused("invalid_argument", `nothing is open as ${name}`);
  return state.open.get(name);
};
const bytes = (data) => Buffer.from(data, "base64");
const base64 = (data) => ({ data: data.toString("base64") });

/** Rows as cells, if they came as a stream. */
function inCells(given) {
  if (given.ipc === undefined) return given;
  const { columns, batches } = decodedStream(bytes(given.ipc), true);
  return { columns, rows: batches.flat() };
}

/** Rows of an answer, as a stream if that is how they are wanted. */
const asWanted = (rows) =>
  state.ipc ? { ipc: encodedStream(rows.columns, rows.rows.length ? [rows.rows] : [], {}).toString("base64") } : rows;

/** Rows in the order of the table's columns; what the table does not take is refused. */
function rowsFor(columns, rows) {
  const given = inCells(rows);
  const names = given.columns.map(({ name }) => name);
  const strange = names.find((name, i) => names.indexOf(name) !== i || !columns.some((column) => column.name === name));
  if (strange !== undefined) throw new Refused("invalid_argument", `the table has no place for the column ${strange}`);
  return given.rows.map((row) => columns.map(({ name, type, nullable }) => {
    const cell = row[names.indexOf(name)] ?? { t: type, v: null };
    if (cell.v === null && !nullable) throw new Refused("invalid_argument", `the column ${name} takes no NULL`);
    if (cell.v !== null && (cell.t !== type || !kindOf(type).fits(cell.v))) throw new Refused("invalid_argument", `${name} is a ${type}`);
    return { t: type, v: cell.v };
  }));
}

async function create({ table, rows: given, primary_key: key }) {
  const rows = inCells(given);
  rows.columns.forEach(({ type }) => kindOf(type));
  for (const name of key) {
    const column = rows.columns.find((each) => each.name === name);
    if (!column || column.nullable) throw new Refused("invalid_argument", `${name} cannot be a key`);
  }
  const details = {
    snapshot_ts_millis: "0", num_regions: "0", inline_snapshots: null, region_specs: [], maintained_indexes: [],
    merged_generations: [], index_catchup: [],
  };
  const made = await writeTable(store(table), "", rows.columns, [rowsFor(rows.columns, rows)], { key, details });
  if (!made) throw new Refused("already_exists", `there is a table ${table}`);
  return { version: "1" };
}

async function openWriter({ table, region_id: id, new_region_id: wanted, memtable_rows: limit }) {
  const place = store(table);
  if (id !== undefined && (await newestManifest(place, id)) === null) throw new Refused("not_found", `there is no region ${id}`);
  const writer = await Writer.open(place, id ?? wanted ?? newRegionId(), limit);
  return { writer: handle("writer", writer), region_id: writer.region, epoch: writer.epoch.toString() };
}

async function inspect({ table }) {
  const place = store(table), newest = await newestTable(place), regions = [];
  for (const region of await regionsOf(place)) {
    const found = await newestManifest(place, region);
    const { raw, ...manifest } = found ?? {};
    const merged = newest.details?.merged_generations.find((one) => one.region_id === region)?.generation ?? "0";
    regions.push({ region_id: region, manifest: found && manifest, merged });
  }
  return { version: newest.version.toString(), primary_key: newest.key, regions };
}

const newest = ({ reader, writers = [] }) => newestRows(opened(reader).store, writers.map(opened));

const DECODE = {
  manifest: objects.manifest, hint: objects.hint, index_details: objects.indexDetails,
  wal: (data, path) => {
    if (!/\/wal\/[01]{64}\.arrow$/.test(path)) throw new Corrupt(`${path} is no name of an entry`);
    const { columns, epoch, rows } = decodedEntry(data);
    return { writer_epoch: epoch.toString(), rows: { columns, rows } };
  },
};
const ENCODE = {
  manifest: objects.encodedManifest, hint: objects.encodedHint, index_details: objects.encodedDetails,
  wal: ({ writer_epoch: epoch, rows }) => encodedEntry(rows.columns, rows.rows.length ? [rows.rows] : [], BigInt(epoch), "0"),
};

const MESSAGES = {
  "hello": () => ({
    protocol: "1", implementation: `second subject (Node.js)${DEVIATION && `, ${DEVIATION}`}`, version: "1", revisions: ["B"],
    roles: ["writer", "reader"],
    capabilities: [
      "eval.name", "eval.hash", "eval.region", "eval.decode", "eval.encode", "eval.bloom", "inspect", "table.create", "sync.crash",
      "s3", "trace", "rows.ipc", "concurrent",
    ],
    without: ["table.create region_fields", "table.create indexes", "writer.open values", "reader.search text"],
  }),
  "configure": ({ revision, storage, trace, rows }) => {
    if (revision !== "B") throw new Refused("invalid_argument", `there is only revision B here, not ${revision}`);
    Object.assign(state, { ipc: rows === "ipc", storage: storage ?? null, watch: { tell: trace ? tell : null, crash: null } });
    state.open.clear();
    return {};
  },
  "shutdown": () => ({}),
  "eval.name": ({ kind, number }) => ({ name: nameOf(kind, BigInt(number), "B") }),
  "eval.hash": (params) => ({ hash: params.function === "murmur3" ? hashOf(params.values[0], "B") : hashOfAll(params.values, "B") }),
  "eval.region": ({ spec, field_ids: ids, rows }) => ({ values: regionValues(spec, ids, inCells(rows), "B") }),
  "eval.decode": ({ kind, data, path }) => ({ [kind]: DECODE[kind](bytes(data), path) }),
  "eval.encode": (params) => {
    const [[kind, view]] = Object.entries(params);
    return base64(ENCODE[kind](view));
  },
  "eval.bloom": ({ keys, data }) =>
    data === undefined ? base64(filterOf(inCells(keys).rows)) : { perhaps: inCells(keys).rows.map((key) => mayHave(bytes(data), key)) },
  "inspect": inspect,
  "table.create": create,
  "sync.crash": ({ class: kind, moment, occurrence = 1 }) => {
    state.watch.crash = { class: kind, moment, occurrence };
    return {};
  },
  "writer.open": openWriter,
  "writer.put": async ({ writer, rows, durable }) => {
    const at = opened(writer);
    await at.turn(() => at.put(rowsFor(at.table.columns, rows), durable));
    return {};
  },
  "writer.delete": () => { throw new Refused("invalid_argument", "revision B has no deletes"); },
  "writer.flush_wal": async ({ writer }) => {
    const at = opened(writer);
    await at.turn(() => at.flushWal());
    return {};
  },
  "writer.flush_memtable": async ({ writer }) => {
    const at = opened(writer);
    return { generation: (await at.turn(() => at.flush()))?.toString() ?? null };
  },
  "writer.status": ({ writer }) => opened(writer).status(),
  "writer.close": async ({ writer }) => {
    const at = opened(writer);
    state.open.delete(writer);
    await at.turn(() => at.close());
    return {};
  },
  "reader.open": async ({ table }) => {
    const place = store(table), { version } = await newestTable(place);
    return { reader: handle("reader", { store: place }), version: version.toString() };
  },
  "reader.scan": async (params) => {
    const { table, found } = await newest(params);
    const rows = filtered(table.columns, [...found.values()], params.filter);
    return { rows: asWanted(shown(table, rows.slice(0, params.limit ?? rows.length), params.columns)) };
  },
  "reader.get": async (params) => {
    const { table, found } = await newest(params);
    const keys = inCells(params.keys);
    const place = table.key.map((name) => keys.columns.findIndex((column) => column.name === name));
    const wanted = [...new Set(keys.rows.map((row) => JSON.stringify(place.map((i) => row[i].v))))];
    return { rows: asWanted(shown(table, wanted.filter((key) => found.has(key)).map((key) => found.get(key)), params.columns)) };
  },
  "reader.search": async (params) => {
    const { table, found } = await newest(params);
    const rows = filtered(table.columns, [...found.values()], params.filter);
    return { rows: asWanted(shown(table, nearest(table.columns, rows, params))) };
  },
};

function errorOf(error) {
  if (error instanceof Refused) return { kind: error.kind, message: error.message };
  if (error instanceof Corrupt) return { kind: "corrupt", message: error.message };
  return { kind: "internal", message: String(error.stack) };
}

const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
const tell = (event) => say({ trace: event });

async function answer({ id, message, params }) {
  try {
    say({ id, result: await MESSAGES[message](params) });
  } catch (error) {
    say({ id, error: errorOf(error) });
  }
}

// No request waits for another one: a writer has its calls one after another by itself.
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const request = JSON.parse(line), answered = answer(request);
  if (request.message !== "shutdown") continue;
  await answered;
  break;
}
process.exitCode = 0;
process.stdin.destroy();
