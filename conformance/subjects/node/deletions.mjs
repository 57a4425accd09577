// Deletion files: the rows of a fragment that are no longer there, as an Arrow file or as a bitmap.

import { Corrupt } from "../../skeletons/node/wire.mjs";
import { decodedStream } from "./arrow.mjs";

const START = Buffer.from("ARROW1\0\0"), END = Buffer.from("ARROW1");
const PLAIN = 12346, WITH_RUNS = 12347, MOST_IN_A_LIST = 4096, FEWEST_WITH_OFFSETS = 4;

/** Where the deletion file of a fragment is. */
export function deletionPath(fragment, told) {
  return `_deletions/${fragment.uint(1)}-${told.uint(2)}-${told.uint(3)}.${told.uint(1) === 1n ? "bin" : "arrow"}`;
}

/** Offsets of the deleted rows in a deletion file, which `told` describes. */
export function deletedRows(data, told) {
  try {
    return new Set(told.uint(1) === 1n ? inBitmap(data) : inArrowFile(data));
  } catch (error) {
    if (error instanceof RangeError) throw new Corrupt(`no deletion file: ${error.message}`);
    throw error;
  }
}

/** An Arrow file is a stream between two marks: zeros up to an alignment before it, a footer and its length behind it. */
function inArrowFile(data) {
  if (!data.subarray(0, 8).equals(START) || !data.subarray(-6).equals(END)) throw new Corrupt("a deletion file is no Arrow file");
  let start = 8;
  while (data.readUInt32LE(start) === 0) start += 8;
  const stream = data.subarray(start, data.length - 10 - data.readUInt32LE(data.length - 10));
  return decodedStream(stream, true).batches.flat().map(([cell]) => Number(cell.v));
}

/** A Roaring bitmap of 32-bit numbers, as its public format says. */
function inBitmap(data) {
  const cookie = data.readUInt32LE(0), runs = (cookie & 0xffff) === WITH_RUNS;
  if (!runs && cookie !== PLAIN) throw new Corrupt("a deletion file is no bitmap");
  const count = runs ? (cookie >>> 16) + 1 : data.readUInt32LE(4);
  const flags = runs ? data.subarray(4, 4 + Math.ceil(count / 8)) : Buffer.alloc(Math.ceil(count / 8));
  const described = runs ? 4 + flags.length : 8;
  let at = described + 4 * count + (!runs || count >= FEWEST_WITH_OFFSETS ? 4 * count : 0);
  const next = () => data.readUInt16LE((at += 2) - 2);
  const found = [];
  for (let i = 0; i < count; i++) {
    const high = data.readUInt16LE(described + 4 * i) * 65536, size = data.readUInt16LE(described + 4 * i + 2) + 1;
    if ((flags[i >> 3] >> (i & 7)) & 1) {
      for (let left = next(); left > 0; left--) {
        const start = next();
        for (let more = next(), j = 0; j <= more; j++) found.push(high + start + j);
      }
    } else if (size <= MOST_IN_A_LIST) {
      for (let j = 0; j < size; j++) found.push(high + next());
    } else {
      for (let j = 0; j < 65536; j++) if ((data[at + (j >> 3)] >> (j & 7)) & 1) found.push(high + j);
      at += 8192;
    }
  }
  return found;
}
