// Tier 1, read only: the newest table version, and the state of every region, from the folder of a table.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { Corrupt, Message } from "./wire.mjs";
import { digits, numberOf, tableManifest, tableVersion } from "./values.mjs";
import { hint, indexDetails, manifest } from "./objects.mjs";

const DETAILS = "MemWalIndexDetails";
const KEY = "lance-schema:unenforced-primary-key";
const KNOWN_READER_FLAGS = 0x3fn;

function block(data, at) {
  if (at < 0 || at + 4 > data.length) throw new Corrupt(`a block begins outside of the file at byte ${at}`);
  const size = data.readUInt32LE(at);
  if (at + 4 + size > data.length) throw new Corrupt(`a block ends outside of the file at byte ${at}`);
  return new Message(data.subarray(at + 4, at + 4 + size));
}

function newestTable(root) {
  const folder = join(root, "_versions");
  const versions = existsSync(folder) ? readdirSync(folder).map(tableVersion).filter((v) => v !== null) : [];
  if (versions.length === 0) throw new Corrupt(`${root} has no table manifest`);
  const version = versions.reduce((a, b) => (a > b ? a : b));
  const data = readFileSync(join(folder, tableManifest(version)));
  if (data.length < 16 || data.subarray(-4).toString("latin1") !== "LANC") throw new Corrupt("a table manifest without LANC at its end");
  const message = block(data, Number(data.readBigUInt64LE(data.length - 16)));
  if (message.uint(9) & ~KNOWN_READER_FLAGS) throw new Corrupt(`reader flags ${message.uint(9)} are not known`);
  const details = [];
  if (message.has(6)) {
    for (const index of block(data, Number(message.uint(6))).messages(1)) {
      const any = index.message(6);
      if (any?.text(1).endsWith(DETAILS)) details.push(indexDetails(any.blob(2) ?? Buffer.alloc(0)));
    }
  }
  if (details.length > 1) throw new Corrupt(`a table with ${details.length} MemWAL indexes`);
  return { version, fields: message.messages(1), details: details[0] ?? null };
}

function isKey(field) {
  return field.uint(12) === 1n || field.messages(10).some((entry) => entry.text(1) === KEY && entry.text(2) === "true");
}

/** The newest manifest: from the hint on, or version 1, while the next one is there. If that one is not, list. */
function newestManifest(root, region) {
  const folder = join("_mem_wal", region, "manifest");
  const path = (version) => join(folder, `${digits(version)}.binpb`);
  const there = (version) => existsSync(join(root, path(version)));
  const hintFile = join(root, folder, "version_hint.json");
  let version = existsSync(hintFile) ? BigInt(hint(readFileSync(hintFile)).version) : 1n;
  if (!there(version)) {
    const names = existsSync(join(root, folder)) ? readdirSync(join(root, folder)) : [];
    const listed = names.map((name) => numberOf(name, "binpb")).filter((number) => number !== null);
    if (listed.length === 0) return null;
    version = listed.reduce((a, b) => (a > b ? a : b));
  }
  while (there(version + 1n)) version += 1n;
  return manifest(readFileSync(join(root, path(version))), path(version));
}

export function inspect(root) {
  const table = newestTable(root);
  const folder = join(root, "_mem_wal");
  const names = existsSync(folder) ? readdirSync(folder).sort() : [];
  const regions = names.filter((name) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(name));
  return {
    version: table.version.toString(),
    primary_key: table.fields.filter(isKey).map((field) => field.text(2)),
    regions: regions.map((region) => ({
      region_id: region,
      manifest: newestManifest(root, region),
      merged: table.details?.merged_generations.find((one) => one.region_id === region)?.generation ?? "0",
    })),
  };
}
