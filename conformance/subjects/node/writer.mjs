// The writer of a region of revision B: claim, recovery, puts, flushes.

import { randomBytes, randomUUID } from "node:crypto";

import { Refused } from "../../skeletons/node/refused.mjs";
import { numberOf } from "../../skeletons/node/values.mjs";
import { Corrupt } from "../../skeletons/node/wire.mjs";
import { filterOf } from "./bloom.mjs";
import { deviates } from "./deviations.mjs";
import { newestTable, writeTable } from "./manifests.mjs";
import { commitManifest, decodedEntry, encodedEntry, entryPath, folderOf, newestManifest } from "./regions.mjs";
import { Unknown, patient } from "./store.mjs";

const FIRST_POSITION = 0n, TRIES = 5, CLAIMS = 50;
const UNMARKED = [
  "claims_without_a_mark", "checks_the_epoch_after_each_put", "checks_the_epoch_of_one_put", "steps_over_taken_positions",
];

const fenced = (mine, stored) => new Refused("fenced", `epoch ${stored} has the region now, and this writer has ${mine}`);

/** What a claim of `current` puts as the next manifest. */
function claimed(current, region) {
  if (current === null) {
    return {
      region_id: region, version: "1", region_spec_id: deviates("names_a_spec_nobody_has") ? "7" : "0",
      writer_epoch: deviates("creates_then_claims") ? "0" : "1", replay_after: "0", last_seen: "0",
      current_generation: deviates("counts_generations_from_zero") ? "0" : "1", flushed_generations: [],
    };
  }
  const step = deviates("keeps_epoch") ? 0n : deviates("raises_the_epoch_by_two") ? 2n : 1n;
  return { ...next(current), writer_epoch: (BigInt(current.writer_epoch) + step).toString() };
}

const next = (current) => ({ ...current, version: (BigInt(current.version) + 1n).toString() });

/** Claim a region; the manifest of the claim. An unconfirmed claim counts as another's, and is outbid. */
async function claim(store, region) {
  for (let tries = 0; tries < CLAIMS; tries++) {
    const current = await newestManifest(store, region);
    const wanted = claimed(current, region);
    try {
      if (!(await commitManifest(store, wanted))) continue;
    } catch (error) {
      if (error instanceof Unknown) continue;
      throw error;
    }
    if (wanted.writer_epoch !== "0") return wanted;
  }
  throw new Refused("conflict", `${CLAIMS} claims of ${region} were lost`);
}

export class Writer {
  /** Claim and recover. `limit`: rows at which a MemTable is flushed in the background. */
  static async open(store, region, limit) {
    const table = await newestTable(store);
    const manifest = await claim(store, region);
    const writer = new Writer(store, table, manifest, limit);
    await writer.recover();
    if (deviates("stores_recovered_rows_again") && writer.current.rows.length) writer.waiting.push([...writer.current.rows]);
    if (deviates("flushes_after_recovery")) await writer.flush();
    return writer;
  }

  constructor(store, table, manifest, limit) {
    const flushed = BigInt(manifest.current_generation) > 1n;
    const generation = BigInt(manifest.current_generation) || (deviates("counts_generations_from_zero") ? 0n : 1n);
    Object.assign(this, {
      store, table, manifest, limit, region: manifest.region_id, epoch: BigInt(manifest.writer_epoch), stopped: null,
      position: flushed && !deviates("replays_what_was_flushed") ? BigInt(manifest.replay_after) + 1n : FIRST_POSITION,
      current: { generation, rows: [], last: null }, frozen: [], waiting: [], flushing: Promise.resolve(), before: Promise.resolve(), puts: 0,
    });
    if (deviates("numbers_entries_from_one") && this.position === 0n) this.position = 1n;
  }

  /** MemTables in the order of their generations. */
  get memtables() {
    return [...this.frozen, this.current];
  }

  /** What `does` gives, once all calls before it have ended: one position is never put for two of them. */
  turn(does) {
    const done = deviates("takes_no_turns") ? does() : this.before.then(does);
    this.before = done.catch(() => null);
    return done;
  }

  // --- recovery ---

  /** Replay up to the first free position, and put a mark of this claim there. */
  async recover() {
    for (;;) {
      for (let data; (data = await this.store.get(entryPath(this.region, this.position))) !== null;) await this.replay(data);
      if (!UNMARKED.some(deviates)) await this.append([]);
      if (deviates("marks_the_wal_twice")) await this.append([]);
      const names = await this.store.list(`${folderOf(this.region)}/wal`);
      const above = names.map((name) => numberOf(name, "arrow")).filter((number) => number !== null && number >= this.position);
      if (above.length === 0 || deviates("writes_plain_names")) return;
      if (!above.includes(this.position)) await this.explain(above);
    }
  }

  async replay(data) {
    const { epoch, rows } = decodedEntry(data);
    if (epoch > this.epoch) await this.explain([this.position]);
    if (epoch === this.epoch && !deviates("keeps_epoch") && !deviates("dates_entries_back")) {
      throw this.stop(new Refused("conflict", `another writer has put position ${this.position} under epoch ${epoch}`));
    }
    if (!(deviates("drops_late_entries") && epoch < this.epoch)) this.current.rows.push(...rows);
    this.current.last = this.position;
    this.position += 1n;
  }

  /** Entries that are not this claim's: those of a later one, or damage. */
  async explain(positions) {
    const stored = BigInt((await newestManifest(this.store, this.region)).writer_epoch);
    if (stored > this.epoch) throw fenced(this.epoch, stored);
    throw new Corrupt(`entries at ${positions.join(", ")} fit no claim, or lie behind a gap`);
  }

  // --- WAL ---

  /** Store `batches` as one entry at the next position. Whoever finds it taken looks whose it is. */
  async append(batches) {
    const data = encodedEntry(this.table.columns, batches, this.epoch, randomBytes(8).toString("hex"));
    for (let tries = 1; ; tries++) {
      const path = entryPath(this.region, this.position);
      try {
        if (await this.store.create(path, data)) break;
      } catch (error) {
        if (!(error instanceof Unknown)) throw error;
        if (tries >= (deviates("retries_never") ? 1 : TRIES)) throw this.stop(error);
        await new Promise((resolve) => setTimeout(resolve, 5));
        continue;
      }
      const there = await this.store.get(path);
      if (there?.equals(data)) break;
      await this.verify();
      if (deviates("steps_over_taken_positions")) this.position += 1n;
      else await this.replay(there); // of the predecessor, which did not know of this claim
    }
    this.current.last = this.position;
    this.position += 1n;
    if (deviates("skips_a_position")) this.position += 1n;
  }

  stop(error) {
    this.stopped = error;
    return error;
  }

  /** The newest manifest, if this writer still has the region. */
  async verify() {
    const stored = await newestManifest(this.store, this.region);
    if (BigInt(stored.writer_epoch) > this.epoch) throw this.stop(fenced(this.epoch, stored.writer_epoch));
    return stored;
  }

  alive() {
    if (this.stopped) throw this.stopped;
  }

  async put(rows, durable) {
    this.alive();
    if (rows.length === 0) return;
    this.puts += 1;
    if (deviates("drops_puts") && this.puts % 2 === 0) return;
    if (deviates("halves_puts") && rows.length > 1) {
      await this.put(rows.slice(0, rows.length / 2), true);
      return this.put(rows.slice(rows.length / 2), durable);
    }
    if (deviates("lists_before_it_writes")) await this.store.list(`${folderOf(this.region)}/wal`);
    if (durable && !deviates("acknowledges_early")) {
      await this.append([...this.waiting, rows]);
      if (deviates("checks_the_epoch_after_each_put") || (deviates("checks_the_epoch_of_one_put") && this.puts === 1)) await this.verify();
      if (deviates("tells_the_manifest_of_each_put")) await this.tell();
      this.waiting = [];
    } else {
      this.waiting.push(rows);
    }
    this.current.rows.push(...rows);
    if (this.limit && this.current.rows.length >= this.limit) {
      await this.freeze();
      this.flushing = this.flushing.then(() => this.flushFrozen()).catch(() => null); // said by the next flush
    }
  }

  async tell() {
    const stored = await this.verify();
    await commitManifest(this.store, { ...next(stored), last_seen: (this.position - 1n).toString() });
  }

  async flushWal() {
    this.alive();
    if (this.waiting.length === 0) return;
    await this.append(this.waiting);
    if (deviates("checks_the_epoch_after_each_put")) await this.verify();
    this.waiting = [];
  }

  // --- MemTables ---

  async freeze() {
    if (!deviates("acknowledges_early")) await this.flushWal();
    if (this.current.rows.length === 0) return;
    this.frozen.push(this.current);
    this.current = { generation: this.current.generation + 1n, rows: [], last: null };
  }

  /** The number of the last generation that was made of what there was; null if there were no rows. */
  async flush() {
    this.alive();
    await this.freeze();
    const last = this.frozen.at(-1)?.generation ?? null;
    this.flushing = this.flushing.then(() => this.flushFrozen());
    const done = this.flushing;
    this.flushing = done.catch(() => null);
    await done;
    return last;
  }

  async flushFrozen() {
    while (this.frozen.length) {
      await this.flushOne(this.frozen[0]);
      this.frozen.shift();
    }
  }

  async flushOne(memtable) {
    await this.verify();
    const prefix = deviates("reuses_the_folder_of_a_generation") ? "00000000" : randomBytes(4).toString("hex");
    const name = `${prefix}_gen_${memtable.generation}`, root = `${folderOf(this.region)}/${name}/`;
    await patient(() => this.writeGeneration(root, memtable));
    await this.commit(name, memtable);
  }

  async writeGeneration(root, memtable) {
    const { columns, key } = this.table, at = key.map((each) => columns.findIndex((column) => column.name === each));
    const keyOf = (row) => at.map((i) => row[i]);
    const newest = [...new Map(memtable.rows.map((row) => [JSON.stringify(keyOf(row)), row])).values()];
    const kept = deviates("flushes_superseded_rows_away") ? newest : deviates("forgets_rows_at_flush") ? memtable.rows.slice(1) : memtable.rows;
    const half = Math.ceil(kept.length / 2);
    await writeTable(this.store, root, columns, deviates("splits_generations") ? [kept.slice(0, half), kept.slice(half)] : [kept]);
    if (deviates("drops_the_filter")) return;
    const filter = deviates("any_bytes_for_a_filter") ? Buffer.from("anything") : filterOf(memtable.rows.map(keyOf));
    await this.store.put(`${root}bloom_filter.bin`, filter);
  }

  /** List the generation in the next manifest, made from the newest one, which is looked at anew in each try. */
  async commit(name, memtable) {
    for (let tries = 0; tries < CLAIMS; tries++) {
      const stored = await this.verify();
      if (stored.flushed_generations.some((one) => one.path === name)) return; // the answer was lost
      if (BigInt(stored.current_generation || 1) > memtable.generation) return; // listed, merged and collected since
      const last = memtable.last.toString();
      const wanted = {
        ...next(stored), replay_after: last, last_seen: last, current_generation: (memtable.generation + 1n).toString(),
        flushed_generations: [...stored.flushed_generations, { generation: memtable.generation.toString(), path: name }],
      };
      try {
        if (await commitManifest(this.store, wanted)) return;
      } catch (error) {
        if (!(error instanceof Unknown) || tries >= TRIES) throw error;
      }
    }
    throw new Refused("conflict", `${CLAIMS} commits of ${name} were lost`);
  }

  async close() {
    if (deviates("finishes_fenced_closes") && this.stopped) return;
    this.alive();
    await this.flushing;
    await this.flushWal();
    if (deviates("flushes_at_close")) await this.flush();
    else if (!deviates("finishes_fenced_closes")) await this.verify();
  }

  status() {
    return {
      region_id: this.region, epoch: this.epoch.toString(), next_position: this.position.toString(),
      generation: this.current.generation.toString(),
    };
  }
}

export const newRegionId = () => randomUUID();
