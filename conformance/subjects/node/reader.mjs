// Reading: the newest row of every key, out of base table, generations and the memory of writers.

import { Refused } from "../../skeletons/node/refused.mjs";
import { Corrupt } from "../../skeletons/node/wire.mjs";
import { deviates } from "./deviations.mjs";
import { newestTable, tableRows } from "./manifests.mjs";
import { folderOf, newestManifest, regionsOf } from "./regions.mjs";

const TRIES = 10;

/** The table and the newest row of every key, as `writers` of this process let it be seen. */
export async function newestRows(store, writers) {
  const memory = writers.map((writer) => ({ region: writer.region, epoch: writer.epoch, memtables: writer.memtables.map((m) => ({ ...m, rows: [...m.rows] })) }));
  for (let tries = 1; ; tries++) {
    try {
      return await collected(store, memory);
    } catch (error) {
      if (!(error instanceof Corrupt) || tries >= (deviates("retries_never") ? 2 : TRIES)) throw error;
    }
  }
}

/** Regions first, the base behind them: so nothing that is merged in between is missed. */
async function collected(store, memory) {
  const regions = [];
  for (const region of await regionsOf(store)) {
    const manifest = await newestManifest(store, region);
    if (manifest !== null) regions.push(manifest);
  }
  for (const { region, epoch } of memory) {
    const stored = BigInt(regions.find((each) => each.region_id === region)?.writer_epoch ?? 0);
    if (stored > epoch && !deviates("reads_with_old_memory")) {
      throw new Refused("fenced", `the memory is of epoch ${epoch}, and epoch ${stored} has the region`);
    }
  }
  const table = await newestTable(store);
  const at = table.key.map((name) => table.columns.findIndex((column) => column.name === name));
  const found = new Map();
  const take = (rows) => {
    for (const row of rows) {
      const key = JSON.stringify(at.map((i) => row[i].v));
      if (!(deviates("oldest_row_wins") && found.has(key))) found.set(key, row);
    }
  };
  take(await tableRows(store, table));
  for (const manifest of regions) {
    for (const source of await sourcesOf(store, manifest, table, memory)) take(source.rows);
  }
  return { table, at, found };
}

async function sourcesOf(store, manifest, table, memory) {
  const region = manifest.region_id;
  const merged = BigInt(table.details?.merged_generations.find((one) => one.region_id === region)?.generation ?? 0);
  const listed = new Map(manifest.flushed_generations.map((one) => [BigInt(one.generation), one.path]));
  for (let g = merged + 1n; g < BigInt(manifest.current_generation); g += 1n) {
    if (!listed.has(g)) throw new Corrupt(`generation ${g} of ${region} is neither merged nor listed`);
  }
  const sources = [];
  for (const [generation, path] of listed) {
    if (generation <= merged && !deviates("reads_merged_generations")) continue;
    const root = `${folderOf(region)}/${path}/`;
    sources.push({ generation, rows: await tableRows(store, await newestTable(store, root), root) });
  }
  const own = memory.filter((each) => each.region === region).flatMap((each) => each.memtables).filter((m) => m.generation > merged);
  return [...sources, ...own].sort((a, b) => (a.generation < b.generation ? -1 : a.generation > b.generation ? 1 : 0));
}

const WHOLE = /^u?int|^date32$|^timestamp_us$/;

function compared(a, b) {
  if (WHOLE.test(a.t)) return BigInt(a.v) < BigInt(b.v) ? -1 : BigInt(a.v) > BigInt(b.v) ? 1 : 0;
  if (a.t.startsWith("float")) return Number(a.v) - Number(b.v);
  if (a.t === "bool") return Number(a.v) - Number(b.v);
  return Buffer.compare(Buffer.from(a.v), Buffer.from(b.v));
}

const HOLDS = {
  "=": (c) => c === 0, "<": (c) => c < 0, "<=": (c) => c <= 0, ">": (c) => c > 0, ">=": (c) => c >= 0,
};

/** Those of `rows` that all parts of a predicate keep. */
export function filtered(columns, rows, predicate = []) {
  const place = (name) => {
    const at = columns.findIndex((column) => column.name === name);
    if (at < 0) throw new Refused("invalid_argument", `there is no column ${name}`);
    return at;
  };
  const parts = predicate.map((part) => ({ ...part, at: place(part.column) }));
  return rows.filter((row) => parts.every(({ at, op, value }) => row[at].v !== null && HOLDS[op](compared(row[at], value))));
}

/** Rows as the protocol has them, with the columns that were asked for. */
export function shown(table, rows, names = table.columns.map((column) => column.name)) {
  const at = names.map((name) => table.columns.findIndex((column) => column.name === name));
  if (at.includes(-1)) throw new Refused("invalid_argument", `there is no column ${names[at.indexOf(-1)]}`);
  return { columns: at.map((i) => table.columns[i]), rows: rows.map((row) => at.map((i) => row[i])) };
}

/** The `k` rows nearest to a vector, nearest first. */
export function nearest(columns, rows, { column, vector, k }) {
  const at = columns.findIndex((each) => each.name === column);
  const distance = (row) => row[at].v.reduce((sum, v, i) => sum + (Number(v) - Number(vector[i])) ** 2, 0);
  return rows.filter((row) => row[at].v !== null).sort((a, b) => distance(a) - distance(b)).slice(0, k);
}
