// Table manifests: the base table with its MemWAL index, and the tables of generations.

import { randomBytes, randomUUID } from "node:crypto";

import { encodedDetails, indexDetails } from "../../skeletons/node/objects.mjs";
import { Refused } from "../../skeletons/node/refused.mjs";
import { tableManifest, tableVersion } from "../../skeletons/node/values.mjs";
import { Builder, Corrupt, Message } from "../../skeletons/node/wire.mjs";
import { deletedRows, deletionPath } from "./deletions.mjs";
import { deviates } from "./deviations.mjs";
import { columnOfField, decodedFile, encodedFile, fieldMessage } from "./lance.mjs";

const KEY = "lance-schema:unenforced-primary-key", DETAILS = "/lance.table.MemWalIndexDetails";
const READABLE = 0x3fn;
const made = () => new Builder();
const block = (data) => {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(data.length);
  return Buffer.concat([size, data]);
};
const numbers = (values) => Buffer.concat(values.map((v) => made().optional(1, BigInt(v)).bytes().subarray(1)));

function opened(data, at) {
  if (at < 0 || at + 4 > data.length || at + 4 + data.readUInt32LE(at) > data.length) throw new Corrupt(`a block leaves its file at byte ${at}`);
  return new Message(data.subarray(at + 4, at + 4 + data.readUInt32LE(at)));
}

/** Write data files below `root`; the fragments that lead to them. */
async function fragments(store, root, columns, pieces) {
  const found = [];
  for (const [id, rows] of pieces.filter((piece) => piece.length > 0).entries()) {
    const name = `${randomBytes(16).toString("hex")}.lance`, data = encodedFile(columns, rows);
    await store.create(`${root}data/${name}`, data);
    const places = columns.map((_, i) => i);
    const file = made().text(1, name).blob(2, numbers(places)).blob(3, numbers(places)).uint(4, 2n).uint(5, 0n).uint(6, BigInt(data.length));
    found.push(made().uint(1, BigInt(id)).blob(2, file.bytes()).uint(4, BigInt(rows.length)).bytes());
  }
  return found;
}

/** Write version 1 of a table whose rows come in `pieces`, a fragment each. `details`: its MemWAL index, if it has one. */
export async function writeTable(store, root, columns, pieces, { key = [], details = null } = {}) {
  const parts = await fragments(store, root, columns, pieces);
  const index = made().blob(1, made().blob(1, Buffer.from(randomUUID().replaceAll("-", ""), "hex")).bytes()).text(3, "__lance_mem_wal")
    .uint(4, 1n).blob(6, made().text(1, DETAILS).blob(2, details && encodedDetails(details)).bytes());
  const start = details ? block(made().blob(1, index.bytes()).bytes()) : Buffer.alloc(0);
  const table = made();
  columns.forEach((column, i) => table.blob(1, fieldMessage(column, i, key.includes(column.name))));
  parts.forEach((part) => table.blob(2, part));
  table.uint(3, 1n);
  if (details) table.optional(6, 0n);
  table.blob(7, made().uint(1, BigInt(Math.floor(Date.now() / 1000))).bytes());
  if (parts.length) table.optional(11, BigInt(parts.length - 1));
  table.blob(15, made().text(1, "lance").text(2, "2.0").bytes());
  if (details) table.blob(16, made().text(1, "memwal.revision").text(2, "B").bytes());
  const footer = Buffer.alloc(16);
  footer.writeBigUInt64LE(BigInt(start.length));
  footer.writeUInt16LE(2, 10);
  footer.write("LANC", 12, "latin1");
  const data = Buffer.concat([start, block(table.bytes()), footer]);
  return store.create(`${root}_versions/${tableManifest(1n)}`, data);
}

/** The newest version of the table below `root`. */
export async function newestTable(store, root = "") {
  const versions = (await store.list(`${root}_versions`)).map(tableVersion).filter((version) => version !== null);
  if (versions.length === 0) throw new Refused(root ? "corrupt" : "not_found", `there is no table ${root}`);
  const version = versions.reduce((a, b) => (a > b ? a : b));
  const data = await store.get(`${root}_versions/${tableManifest(version)}`);
  if (data.length < 16 || data.subarray(-4).toString("latin1") !== "LANC") throw new Corrupt("a table manifest without LANC at its end");
  const message = opened(data, Number(data.readBigUInt64LE(data.length - 16)));
  if (message.uint(9) & ~READABLE) throw new Corrupt(`reader flags ${message.uint(9)} are not known`);
  const indexes = message.has(6) ? opened(data, Number(message.uint(6))).messages(1) : [];
  const walIndexes = indexes.filter((index) => index.message(6)?.text(1).endsWith("MemWalIndexDetails"));
  if (walIndexes.length > 1) throw new Corrupt(`a table with ${walIndexes.length} MemWAL indexes`);
  const fields = message.messages(1);
  const isKey = (field) => field.uint(12) === 1n || field.messages(10).some((pair) => pair.text(1) === KEY && pair.text(2) === "true");
  return {
    version, message, columns: fields.map(columnOfField), key: fields.filter(isKey).map((field) => field.text(2)),
    details: walIndexes[0] ? indexDetails(walIndexes[0].message(6).blob(2) ?? Buffer.alloc(0)) : null,
  };
}

async function deletedOf(store, root, fragment) {
  const told = fragment.message(3);
  if (!told || deviates("reads_deleted_rows")) return new Set();
  const path = `${root}${deletionPath(fragment, told)}`, data = await store.get(path);
  if (data === null) throw new Corrupt(`the deletion file ${path} is gone`);
  return deletedRows(data, told);
}

/** All rows of a version of the table below `root`, in the order of its addresses. */
export async function tableRows(store, table, root = "") {
  const rows = [];
  for (const fragment of table.message.messages(2)) {
    const [file] = fragment.messages(2);
    const data = await store.get(`${root}data/${file.text(1)}`);
    if (data === null) throw new Corrupt(`the data file ${file.text(1)} is gone`);
    const gone = await deletedOf(store, root, fragment);
    rows.push(...decodedFile(data).rows.filter((_, offset) => !gone.has(offset)));
  }
  return rows;
}
