// WAL entries: Arrow IPC streams, with flatbuffers written and read by hand.

import { Corrupt } from "../../skeletons/node/wire.mjs";
import { bit, bits, kindOf, packed, typeOfArrow, unpacked } from "./kinds.mjs";

const SIZES = { i8: 1, i16: 2, i32: 4, i64: 8, ref: 4 };
const SCHEMA = 1, RECORD_BATCH = 3, V5 = 4;
const CONTINUES = Buffer.from([0xff, 0xff, 0xff, 0xff]);
export const END = Buffer.concat([CONTINUES, Buffer.alloc(4)]);

// --- flatbuffers ----------------------------------------------------------------------------------------------------
// A table is `{ table: [slot, …] }`, a slot `[size, value]` or undefined; a `ref` leads to a table, `{ text }`,
// `{ refs: […] }` or `{ structs: [[i64, …], …] }`. All that a reference leads to comes behind it, as offsets are unsigned.

class Flat {
  data = Buffer.alloc(1024);
  end = 4;

  room(size, align, lead = 0) {
    while ((this.end + lead) % align) this.end += 1;
    const at = this.end;
    this.end += size;
    while (this.end > this.data.length) this.data = Buffer.concat([this.data, Buffer.alloc(this.data.length)]);
    return at;
  }

  number(size, at, value) {
    if (size === "i8") this.data.writeUInt8(value, at);
    else if (size === "i16") this.data.writeInt16LE(value, at);
    else if (size === "i32") this.data.writeInt32LE(value, at);
    else this.data.writeBigInt64LE(BigInt(value), at);
  }

  refer(at, node) {
    const target = this.node(node); // which may move the data to a larger buffer
    this.data.writeUInt32LE(target - at, at);
  }

  node(node) {
    if (node.table) return this.table(node.table);
    if (node.text !== undefined) {
      const bytes = Buffer.from(node.text, "utf-8");
      const at = this.room(4 + bytes.length + 1, 4);
      this.data.writeUInt32LE(bytes.length, at);
      bytes.copy(this.data, at + 4);
      return at;
    }
    if (node.refs) {
      const at = this.room(4 + 4 * node.refs.length, 4);
      this.data.writeUInt32LE(node.refs.length, at);
      node.refs.forEach((each, i) => this.refer(at + 4 + 4 * i, each));
      return at;
    }
    const width = 8 * (node.structs[0]?.length ?? 2);
    const at = this.room(4 + width * node.structs.length, 8, 4);
    this.data.writeUInt32LE(node.structs.length, at);
    node.structs.flat().forEach((value, i) => this.number("i64", at + 4 + 8 * i, value));
    return at;
  }

  table(slots) {
    let size = 4;
    const places = slots.map((slot) => {
      if (!slot) return 0;
      const width = SIZES[slot[0]];
      size = Math.ceil(size / width) * width + width;
      return size - width;
    });
    const vtable = this.room(4 + 2 * slots.length, 2);
    const at = this.room(size, 8);
    this.data.writeUInt16LE(4 + 2 * slots.length, vtable);
    this.data.writeUInt16LE(size, vtable + 2);
    places.forEach((place, i) => this.data.writeUInt16LE(place, vtable + 4 + 2 * i));
    this.data.writeInt32LE(at - vtable, at);
    slots.forEach((slot, i) => { if (slot && slot[0] !== "ref") this.number(slot[0], at + places[i], slot[1]); });
    slots.forEach((slot, i) => { if (slot && slot[0] === "ref") this.refer(at + places[i], slot[1]); });
    return at;
  }
}

function flat(root) {
  const made = new Flat();
  made.refer(0, root);
  return made.data.subarray(0, made.end);
}

/** A table that is read: places of its slots, which are 0 if absent. */
class Table {
  constructor(data, at) {
    this.data = data;
    this.at = at;
    this.vtable = at - data.readInt32LE(at);
    this.slots = (data.readUInt16LE(this.vtable) - 4) / 2;
  }

  place(i) {
    const offset = i < this.slots ? this.data.readUInt16LE(this.vtable + 4 + 2 * i) : 0;
    return offset && this.at + offset;
  }

  i8(i, absent = 0) { const at = this.place(i); return at ? this.data.readUInt8(at) : absent; }
  i16(i, absent = 0) { const at = this.place(i); return at ? this.data.readInt16LE(at) : absent; }
  i32(i, absent = 0) { const at = this.place(i); return at ? this.data.readInt32LE(at) : absent; }
  i64(i) { const at = this.place(i); return at ? Number(this.data.readBigInt64LE(at)) : 0; }
  target(i) { const at = this.place(i); return at && at + this.data.readUInt32LE(at); }
  table(i) { const at = this.target(i); return at ? new Table(this.data, at) : null; }
  text(i) { const at = this.target(i); return at ? this.data.toString("utf-8", at + 4, at + 4 + this.data.readUInt32LE(at)) : ""; }

  tables(i) {
    const at = this.target(i);
    if (!at) return [];
    return Array.from({ length: this.data.readUInt32LE(at) }, (_, j) => {
      const place = at + 4 + 4 * j;
      return new Table(this.data, place + this.data.readUInt32LE(place));
    });
  }

  structs(i) {
    const at = this.target(i);
    if (!at) return [];
    const number = (j) => Number(this.data.readBigInt64LE(at + 4 + 8 * j));
    return Array.from({ length: this.data.readUInt32LE(at) }, (_, j) => [number(2 * j), number(2 * j + 1)]);
  }
}

// --- writing --------------------------------------------------------------------------------------------------------

function fieldOf(name, type, nullable) {
  const kind = kindOf(type);
  const children = kind.items ? [fieldOf("item", "float32", true)] : [];
  return {
    table: [
      ["ref", { text: name }], ["i8", nullable ? 1 : 0], ["i8", kind.arrow[0]], ["ref", { table: kind.arrow[1] }], undefined,
      ["ref", { refs: children }],
    ],
  };
}

const pairOf = ([key, value]) => ({ table: [["ref", { text: key }], ["ref", { text: value }]] });

function message(type, header, body) {
  const metadata = flat({ table: [["i16", V5], ["i8", type], ["ref", header], ["i64", body.length]] });
  const padded = Math.ceil((metadata.length + 8) / 8) * 8 - 8;
  const head = Buffer.alloc(8 + padded);
  CONTINUES.copy(head);
  head.writeInt32LE(padded, 4);
  metadata.copy(head, 8);
  return Buffer.concat([head, body]);
}

/** The buffers of a column, and its nodes: length and number of NULLs. */
function columnBuffers(kind, values) {
  const nulls = values.filter((v) => v === null).length;
  const validity = nulls ? bits(values.map((v) => v !== null)) : Buffer.alloc(0);
  if (kind.bytes) {
    const parts = values.map((v) => (v === null ? Buffer.alloc(0) : kind.bytes(v)));
    const offsets = Buffer.alloc(4 * (parts.length + 1));
    parts.reduce((end, part, i) => offsets.writeInt32LE(end + part.length, 4 * (i + 1)) && end + part.length, 0);
    return { nodes: [[values.length, nulls]], buffers: [validity, offsets, Buffer.concat(parts)] };
  }
  const nodes = [[values.length, nulls], ...(kind.items ? [[values.length * kind.count, 0]] : [])];
  return { nodes, buffers: [validity, ...(kind.items ? [Buffer.alloc(0)] : []), packed(kind, values)] };
}

function recordBatch(columns, rows) {
  const nodes = [], buffers = [], parts = [];
  let end = 0;
  columns.forEach(({ type }, i) => {
    const made = columnBuffers(kindOf(type), rows.map((row) => row[i].v));
    nodes.push(...made.nodes);
    for (const buffer of made.buffers) {
      const padded = Buffer.alloc(Math.ceil(buffer.length / 8) * 8);
      buffer.copy(padded);
      buffers.push([end, buffer.length]);
      parts.push(padded);
      end += padded.length;
    }
  });
  const header = { table: [["i64", rows.length], ["ref", { structs: nodes }], ["ref", { structs: buffers }]] };
  return message(RECORD_BATCH, header, Buffer.concat(parts));
}

/** A stream of `batches`, lists of rows, under schema metadata. */
export function encodedStream(columns, batches, metadata) {
  const fields = columns.map(({ name, type, nullable }) => fieldOf(name, type, nullable));
  const pairs = Object.entries(metadata).map(pairOf);
  const header = { table: [["i16", 0], ["ref", { refs: fields }], ["ref", { refs: pairs }]] };
  return Buffer.concat([message(SCHEMA, header, Buffer.alloc(0)), ...batches.map((rows) => recordBatch(columns, rows)), END]);
}

// --- reading --------------------------------------------------------------------------------------------------------

function columnOf(field) {
  const type = field.i8(2), inner = field.table(3);
  const first = type === 8 ? [inner.i16(0, 1)] : type === 2 ? [inner.i32(0), inner.i8(1)] : type === 16 ? [inner.i32(0)] : [inner.i16(0)];
  return { name: field.text(0), type: typeOfArrow(type, first), nullable: field.i8(1) === 1 };
}

/** A buffer of a batch that may be compressed: its length precedes it, or -1 where it is stored as it is. */
function stored(buffer) {
  if (buffer.length > 0 && buffer.readBigInt64LE(0) !== -1n) throw new Corrupt("a compressed buffer, which is not read here");
  return buffer.subarray(8);
}

function batchRows(columns, header, body) {
  const length = header.i64(0), nodes = header.structs(1), buffers = header.structs(2);
  const taken = () => {
    const [at, size] = buffers.shift();
    if (at + size > body.length) throw new Corrupt("a buffer ends behind its batch");
    return header.place(3) ? stored(body.subarray(at, at + size)) : body.subarray(at, at + size);
  };
  const cells = columns.map(({ type }) => {
    const kind = kindOf(type), [, nulls] = nodes.shift();
    const validity = taken();
    const there = (i) => nulls === 0 || bit(validity, i);
    if (kind.bytes) {
      const offsets = taken(), data = taken();
      const end = (i) => offsets.readInt32LE(4 * i);
      return Array.from({ length }, (_, i) => ({ t: type, v: there(i) ? kind.text(data.subarray(end(i), end(i + 1))) : null }));
    }
    if (kind.items) { nodes.shift(); taken(); }
    const data = taken();
    return Array.from({ length }, (_, i) => ({ t: type, v: there(i) ? unpacked(kind, data, i) : null }));
  });
  return Array.from({ length }, (_, i) => cells.map((column) => column[i]));
}

/** Columns, schema metadata and batches of a stream. `endless`: a stream may end without its mark. */
export function decodedStream(data, endless = false) {
  try {
    return streamParts(data, endless);
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) throw new Corrupt(`no Arrow stream: ${error.message}`);
    throw error;
  }
}

function streamParts(data, endless) {
  let columns = null, metadata = {}, at = 0;
  const batches = [];
  for (;;) {
    if (at === data.length && endless && columns) break;
    if (data.readUInt32LE(at) !== 0xffffffff) throw new Corrupt(`no message begins at byte ${at}`);
    const size = data.readInt32LE(at + 4);
    at += 8;
    if (size === 0) {
      if (at !== data.length) throw new Corrupt("there are bytes behind the end of the stream");
      break;
    }
    if (size < 0 || at + size > data.length) throw new Corrupt(`a message is cut at byte ${at}`);
    const head = Buffer.from(data.subarray(at, at + size));
    const told = new Table(head, head.readUInt32LE(0));
    at += size;
    const length = told.i64(3);
    if (at + length > data.length) throw new Corrupt(`a body is cut at byte ${at}`);
    if (told.i8(1) === SCHEMA) {
      columns = told.table(2).tables(1).map(columnOf);
      metadata = Object.fromEntries(told.table(2).tables(2).map((pair) => [pair.text(0), pair.text(1)]));
    } else if (told.i8(1) === RECORD_BATCH && columns) {
      batches.push(batchRows(columns, told.table(2), data.subarray(at, at + length)));
    } else {
      throw new Corrupt(`a message of kind ${told.i8(1)} at byte ${at}`);
    }
    at += length;
  }
  if (!columns) throw new Corrupt("a stream without a schema");
  return { columns, metadata, batches };
}
