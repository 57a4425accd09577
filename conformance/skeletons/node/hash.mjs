// Murmur3 (32 bits, x86), and the variant of revision R.

import { Refused } from "./refused.mjs";

const rotl = (x, by) => (x << by) | (x >>> (32 - by));

function mixed(word) {
  return Math.imul(rotl(Math.imul(word, 0xcc9e2d51), 15), 0x1b873593);
}

function finished(hash, length) {
  let h = hash ^ length;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) | 0;
}

/** The textbook function; a signed 32-bit number. */
export function murmur3(data, seed = 0) {
  let h = seed;
  const whole = data.length - (data.length % 4);
  for (let at = 0; at < whole; at += 4) h = Math.imul(rotl(h ^ mixed(data.readInt32LE(at)), 13), 5) + 0xe6546b64;
  let rest = 0;
  for (let at = data.length - 1; at >= whole; at--) rest = (rest << 8) | data[at];
  return finished(rest === 0 ? h : h ^ mixed(rest), data.length);
}

/** Revision R's function for text: each byte behind the last whole word is a sign-extended word of its own. */
export function variant(data) {
  let h = 0;
  const step = (word) => { h = Math.imul(rotl(h ^ mixed(word), 13), 5) + 0xe6546b64; };
  const whole = data.length - (data.length % 4);
  for (let at = 0; at < whole; at += 4) step(data.readInt32LE(at));
  for (let at = whole; at < data.length; at++) step(data.readInt8(at));
  return finished(h, data.length);
}

function wholeNumber(value, bytes) {
  const data = Buffer.alloc(bytes);
  if (bytes === 8) data.writeBigInt64LE(BigInt.asIntN(64, value));
  else data.writeInt32LE(Number(BigInt.asIntN(32, value)));
  return data;
}

function float(number, bytes) {
  const data = Buffer.alloc(bytes);
  if (bytes === 8) data.writeDoubleLE(number + 0);
  else data.writeFloatLE(number + 0);
  return data;
}

/** The bytes that stand for a cell. Revisions A and B widen whole numbers to eight bytes; R keeps their width. */
function bytesOf(cell, revision) {
  switch (cell.t) {
    case "utf8": return Buffer.from(cell.v, "utf-8");
    case "binary": return Buffer.from(cell.v, "base64");
    case "bool": return wholeNumber(cell.v ? 1n : 0n, revision === "R" ? 4 : 8);
    case "float32": return float(Math.fround(cell.v), revision === "R" ? 4 : 8);
    case "float64": return float(Number(cell.v), 8);
    case "int64": case "uint64": case "timestamp_us": return wholeNumber(BigInt(cell.v), 8);
    case "int8": case "int16": case "int32": case "uint8": case "uint16": case "uint32": case "date32":
      return wholeNumber(BigInt(cell.v), revision === "R" ? 4 : 8);
    default: throw new Refused("invalid_argument", `there is no hash of ${cell.t}`);
  }
}

/** The hash of one cell; null for NULL. */
export function hashOf(cell, revision, seed = 0) {
  if (cell.v === null) return null;
  const data = bytesOf(cell, revision);
  return revision === "R" && cell.t === "utf8" ? variant(data) : murmur3(data, seed);
}

/** The hash of several cells: each is the seed of the next, NULL is passed over. */
export function hashOfAll(cells, revision) {
  let found = null;
  for (const cell of cells) found = hashOf(cell, revision, found ?? 0) ?? found;
  return found;
}
