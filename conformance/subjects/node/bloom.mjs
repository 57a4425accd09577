// The filter of a generation's keys: a format of its own, which says so in its first bytes.

import { murmur3 } from "../../skeletons/node/hash.mjs";

const MAGIC = Buffer.from("NODEBLM1");
const HASHES = 7, BITS_PER_KEY = 10;

const bytesOf = (cells) => Buffer.from(JSON.stringify(cells.map(({ t, v }) => [t, v])));
const places = (cells, size) =>
  Array.from({ length: HASHES }, (_, seed) => (murmur3(bytesOf(cells), seed) >>> 0) % (8 * size));

export function filterOf(keys) {
  const data = Buffer.alloc(Math.max(8, Math.ceil((keys.length * BITS_PER_KEY) / 8)));
  for (const key of keys) for (const place of places(key, data.length)) data[place >> 3] |= 1 << (place & 7);
  return Buffer.concat([MAGIC, data]);
}

/** Whether a key may be in the filter; always, if the filter is another program's. */
export function mayHave(filter, key) {
  if (!filter.subarray(0, 8).equals(MAGIC)) return true;
  const data = filter.subarray(8);
  return places(key, data.length).every((place) => (data[place >> 3] >> (place & 7)) & 1);
}
