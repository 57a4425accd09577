// The types of columns: how each is called in Arrow and in Lance, and how its values stand in a buffer.
//
// Cells stay what the protocol has: numbers as decimal text, bytes as base64, NULL as null.

import { Refused } from "../../skeletons/node/refused.mjs";
import { Corrupt } from "../../skeletons/node/wire.mjs";

const whole = (bits, signed) => ({
  width: bits, arrow: [2, [["i32", bits], ["i8", signed ? 1 : 0]]], lance: `${signed ? "" : "u"}int${bits}`,
  put: (data, at, v) => {
    const raw = BigInt.asUintN(bits, BigInt(v));
    for (let i = 0; i < bits / 8; i++) data[at + i] = Number((raw >> BigInt(8 * i)) & 0xffn);
  },
  get: (data, at) => {
    let raw = 0n;
    for (let i = 0; i < bits / 8; i++) raw |= BigInt(data[at + i]) << BigInt(8 * i);
    return (signed ? BigInt.asIntN(bits, raw) : raw).toString();
  },
  fits: (v) => {
    const value = BigInt(v);
    return value === (signed ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value));
  },
});

const shown = (number) => (Object.is(number, -0) ? "-0" : String(number));
const always = () => true;

const KINDS = {
  bool: { width: 1, arrow: [6, []], lance: "bool", fits: always },
  int8: whole(8, true), int16: whole(16, true), int32: whole(32, true), int64: whole(64, true),
  uint8: whole(8, false), uint16: whole(16, false), uint32: whole(32, false), uint64: whole(64, false),
  float32: {
    width: 32, arrow: [3, [["i16", 1]]], lance: "float", fits: always,
    put: (data, at, v) => data.writeFloatLE(Number(v), at), get: (data, at) => shown(data.readFloatLE(at)),
  },
  float64: {
    width: 64, arrow: [3, [["i16", 2]]], lance: "double", fits: always,
    put: (data, at, v) => data.writeDoubleLE(Number(v), at), get: (data, at) => shown(data.readDoubleLE(at)),
  },
  date32: { ...whole(32, true), arrow: [8, [["i16", 0]]], lance: "date32:day" },
  timestamp_us: { ...whole(64, true), arrow: [10, [["i16", 2]]], lance: "timestamp:us:-" },
  utf8: { arrow: [5, []], lance: "string", bytes: (v) => Buffer.from(v, "utf-8"), text, fits: always },
  binary: {
    arrow: [4, []], lance: "binary", bytes: (v) => Buffer.from(v, "base64"), text: (data) => data.toString("base64"),
    fits: always,
  },
};

function text(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw new Corrupt("a text is not UTF-8");
  }
}

/** What is known of a type of the protocol: `width` in bits, or `bytes` and `text` where it varies, or `items` and `count`. */
export function kindOf(type) {
  const list = /^float32\[([0-9]+)\]$/.exec(type);
  if (list) {
    const count = Number(list[1]);
    return { items: KINDS.float32, count, arrow: [16, [["i32", count]]], lance: `fixed_size_list:float:${count}`, fits: (v) => v.length === count };
  }
  const kind = KINDS[type];
  if (!kind) throw new Refused("invalid_argument", `columns of type ${type} are not stored here`);
  return kind;
}

/** The type of the protocol for a logical type of Lance. */
export function typeOfLance(logical) {
  const list = /^fixed_size_list:float:([0-9]+)$/.exec(logical);
  if (list) return `float32[${list[1]}]`;
  const found = Object.entries(KINDS).find(([, kind]) => kind.lance === logical);
  if (!found) throw new Corrupt(`there is no column type ${logical} here`);
  return found[0];
}

/** The type of the protocol for an Arrow type, given as number of the union and its fields. */
export function typeOfArrow(number, fields) {
  if (number === 16) return `float32[${fields[0]}]`;
  const found = Object.entries(KINDS).find(([, { arrow }]) => arrow[0] === number && arrow[1].every(([, v], i) => v === fields[i]));
  if (!found) throw new Corrupt(`there is no Arrow type ${number} here`);
  return found[0];
}

/** Bits, least significant first: where `flags` are true. */
export function bits(flags) {
  const data = Buffer.alloc(Math.ceil(flags.length / 8));
  flags.forEach((flag, i) => { if (flag) data[i >> 3] |= 1 << (i & 7); });
  return data;
}

export const bit = (data, i) => ((data[i >> 3] >> (i & 7)) & 1) === 1;

/** Values of a fixed width, one behind the other; zero where there is none. */
export function packed(kind, values) {
  if (kind.items) return packed(kind.items, values.flatMap((v) => v ?? Array(kind.count).fill(null)));
  if (kind.width === 1) return bits(values.map((v) => v === true));
  const data = Buffer.alloc((values.length * kind.width) / 8);
  values.forEach((v, i) => { if (v !== null) kind.put(data, (i * kind.width) / 8, v); });
  return data;
}

/** The value at `i` of what `packed` made. */
export function unpacked(kind, data, i) {
  if (kind.items) return Array.from({ length: kind.count }, (_, j) => unpacked(kind.items, data, i * kind.count + j));
  if (kind.width === 1) return bit(data, i);
  return kind.get(data, (i * kind.width) / 8);
}
