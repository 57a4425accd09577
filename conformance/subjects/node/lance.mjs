// Lance files: written as version 2.0, one page a column; read as 2.0 and 2.1, as far as small tables need it.

import { Builder, Corrupt, Message } from "../../skeletons/node/wire.mjs";
import { bits, kindOf, packed, typeOfLance, unpacked } from "./kinds.mjs";

const MAGIC = Buffer.from("LANC");
const FOOTER = 40, ALIGNED = 64;
const COLUMN = "/lance.encodings.ColumnEncoding", ARRAY = "/lance.encodings.ArrayEncoding", PAGE = "/lance.encodings21.PageLayout";

const made = () => new Builder();
const direct = (url, value) =>
  made().blob(2, made().blob(1, made().text(1, url).blob(2, value).bytes()).bytes()).bytes();

/** A field of a schema, as files and table manifests have it. */
export function fieldMessage({ name, type, nullable }, id, key = false) {
  const field = made().uint(1, 2n).text(2, name).uint(3, BigInt(id)).uint(4, -1n).text(5, kindOf(type).lance)
    .uint(6, nullable ? 1n : 0n).uint(7, kindOf(type).bytes ? 2n : 1n);
  if (key) {
    field.blob(10, made().text(1, "lance-schema:unenforced-primary-key").text(2, "true").bytes()).uint(12, 1n);
  }
  return field.bytes();
}

export const columnOfField = (field) => ({
  name: field.text(2), type: typeOfLance(field.text(5)), nullable: field.uint(6) === 1n,
});

// --- writing --------------------------------------------------------------------------------------------------------

const flat = (width, buffer) => made().blob(1, made().uint(1, BigInt(width)).blob(2, made().uint(1, BigInt(buffer)).bytes()).bytes()).bytes();
const nullable = (number, inner) => made().blob(2, made().blob(number, inner).bytes()).bytes();
const noNulls = (values) => nullable(1, made().blob(1, values).bytes());
const someNulls = (validity, values) => nullable(2, made().blob(1, noNulls(validity)).blob(2, noNulls(values)).bytes());

/** The buffers of a page, and the encoding that describes them. */
function page(kind, values) {
  if (kind.bytes) {
    const parts = values.map((v) => (v === null ? Buffer.alloc(0) : kind.bytes(v)));
    const data = Buffer.concat(parts), adjustment = BigInt(data.length + 1);
    const ends = Buffer.alloc(8 * values.length);
    let end = 0n;
    values.forEach((v, i) => {
      end += BigInt(parts[i].length);
      ends.writeBigUInt64LE(v === null ? end + adjustment : end, 8 * i);
    });
    const binary = made().blob(1, noNulls(flat(64, 0))).blob(2, flat(8, 1)).uint(3, adjustment);
    return [[ends, data], made().blob(6, binary.bytes()).bytes()];
  }
  const validity = bits(values.map((v) => v !== null)), data = packed(kind, values);
  const listed = (items) => (kind.items ? made().blob(3, made().uint(1, BigInt(kind.count)).blob(2, noNulls(items)).bytes()).bytes() : items);
  const width = (kind.items ?? kind).width;
  if (!values.includes(null)) return [[data], noNulls(listed(flat(width, 0)))];
  return [[validity, data], someNulls(flat(1, 0), listed(flat(width, 1)))];
}

/** A Lance file of `rows`, which are at least one. */
export function encodedFile(columns, rows) {
  const parts = [];
  let end = 0;
  const add = (data, align) => {
    const gap = (align - (end % align)) % align;
    parts.push(Buffer.alloc(gap), data);
    end += gap + data.length;
    return end - data.length;
  };
  const described = columns.map(({ type }, i) => {
    const [buffers, encoding] = page(kindOf(type), rows.map((row) => row[i].v));
    const places = buffers.map((buffer) => add(buffer, ALIGNED));
    const told = made();
    const numbers = (values) => Buffer.concat(values.map((v) => made().optional(1, BigInt(v)).bytes().subarray(1)));
    told.blob(1, numbers(places)).blob(2, numbers(buffers.map((buffer) => buffer.length)));
    told.uint(3, BigInt(rows.length)).blob(4, direct(ARRAY, encoding));
    return made().blob(1, direct(COLUMN, made().blob(1, Buffer.alloc(0)).bytes())).blob(2, told.bytes()).bytes();
  });
  const fields = made();
  columns.forEach((column, i) => fields.blob(1, fieldMessage(column, i)));
  const schema = made().blob(1, fields.bytes()).uint(2, BigInt(rows.length)).bytes();
  const table = (pairs) => {
    const data = Buffer.alloc(16 * pairs.length);
    pairs.flat().forEach((v, i) => data.writeBigUInt64LE(BigInt(v), 8 * i));
    return data;
  };
  const global = [[add(schema, ALIGNED), schema.length]];
  const first = end;
  const metadata = described.map((data) => [add(data, 1), data.length]);
  const columnTable = add(table(metadata), 1), globalTable = add(table(global), 1);
  const footer = Buffer.alloc(FOOTER);
  [first, columnTable, globalTable].forEach((v, i) => footer.writeBigUInt64LE(BigInt(v), 8 * i));
  footer.writeUInt32LE(global.length, 24);
  footer.writeUInt32LE(columns.length, 28);
  footer.writeUInt16LE(0, 32); // version 2.0 calls itself 0.3
  footer.writeUInt16LE(3, 34);
  MAGIC.copy(footer, 36);
  return Buffer.concat([...parts, footer]);
}

// --- reading --------------------------------------------------------------------------------------------------------

const unknown = (what) => { throw new Corrupt(`a page of ${what}, which is not read here`); };

/** Values of a 2.0 array: `null` where there is none. */
function arrayValues(encoding, kind, count, buffers) {
  const nulls = encoding.message(2);
  if (nulls?.has(3)) return Array(count).fill(null);
  if (nulls?.has(1)) return arrayValues(nulls.message(1).message(1), kind, count, buffers);
  if (nulls?.has(2)) {
    const some = nulls.message(2);
    const valid = arrayValues(some.message(1), kindOf("bool"), count, buffers);
    return arrayValues(some.message(2), kind, count, buffers).map((v, i) => (valid[i] ? v : null));
  }
  const bufferOf = (told) => buffers[Number(told.message(2).uint(1))];
  if (encoding.has(1)) return Array.from({ length: count }, (_, i) => unpacked(kind, bufferOf(encoding.message(1)), i));
  if (encoding.has(3)) {
    const items = arrayValues(encoding.message(3).message(2), kind.items, count * kind.count, buffers);
    return Array.from({ length: count }, (_, i) => items.slice(i * kind.count, (i + 1) * kind.count));
  }
  if (!encoding.has(6)) return unknown("an unknown array encoding");
  const binary = encoding.message(6), adjustment = binary.uint(3);
  const ends = arrayValues(binary.message(1), kindOf("uint64"), count, buffers).map(BigInt);
  const data = bufferOf(binary.message(2).message(1));
  let start = 0n;
  return ends.map((end) => {
    if (end >= adjustment) return null;
    const value = kind.text(data.subarray(Number(start), Number(end)));
    start = end;
    return value;
  });
}

/** Values of a 2.1 page, which is a row of mini-blocks or all NULL. */
function layoutValues(layout, kind, count, buffers) {
  if (layout.has(2)) return Array(count).fill(null);
  const blocks = layout.message(1) ?? unknown("an unknown layout");
  const how = blocks.message(3);
  if (blocks.has(1) || blocks.has(4) || !(how.has(1) || how.has(2) || how.has(11))) unknown("compressed values");
  const [sizes, data] = buffers, values = [];
  for (let at = 0, i = 0; i < sizes.length / 2; i++) {
    const word = sizes.readUInt16LE(2 * i);
    const last = 2 * (i + 1) === sizes.length;
    const chunk = data.subarray(at, (at += 8 * ((word >> 4) + 1)));
    values.push(...chunkValues(blocks, kind, last ? count - values.length : 1 << (word & 15), chunk));
  }
  return values;
}

function chunkValues(blocks, kind, count, chunk) {
  const parts = (blocks.has(2) ? 1 : 0) + Number(blocks.uint(7));
  let at = Math.ceil((2 + 2 * parts) / 8) * 8;
  const [levels, ...found] = [...(blocks.has(2) ? [] : [null]), ...Array.from({ length: parts }, (_, i) => {
    const part = chunk.subarray(at, at + chunk.readUInt16LE(2 + 2 * i));
    at += Math.ceil(part.length / 8) * 8;
    return part;
  })];
  const there = (i) => !levels || levels.readUInt16LE(2 * i) === 0;
  const values = found.at(-1);
  const value = kind.bytes
    ? (i) => kind.text(values.subarray(values.readUInt32LE(4 * i), values.readUInt32LE(4 * (i + 1))))
    : (i) => unpacked(kind, values, i);
  return Array.from({ length: count }, (_, i) => (there(i) ? value(i) : null));
}

function pageValues(message, kind, file) {
  const numbers = (data) => (data ? new Message(Buffer.concat([Buffer.from([10, data.length]), data])).ints(1).map(Number) : []);
  const sizes = numbers(message.blob(2));
  const buffers = numbers(message.blob(1)).map((at, i) => file.subarray(at, at + sizes[i]));
  const any = new Message(message.message(4).message(2).blob(1));
  const [count, encoding] = [Number(message.uint(3)), any.message(2)];
  if (any.text(1) === ARRAY) return arrayValues(encoding, kind, count, buffers);
  return any.text(1) === PAGE ? layoutValues(encoding, kind, count, buffers) : unknown(any.text(1));
}

/** Columns and rows of a Lance file without nested columns. */
export function decodedFile(data) {
  if (data.length < FOOTER || !data.subarray(-4).equals(MAGIC)) throw new Corrupt("a Lance file ends with LANC");
  const footer = data.subarray(-FOOTER);
  const number = (at) => Number(data.readBigUInt64LE(at));
  const [columnTable, globalTable] = [Number(footer.readBigUInt64LE(8)), Number(footer.readBigUInt64LE(16))];
  const block = (table, i) => data.subarray(number(table + 16 * i), number(table + 16 * i) + number(table + 16 * i + 8));
  const columns = new Message(block(globalTable, 0)).message(1).messages(1).map(columnOfField);
  const cells = columns.map(({ type }, i) =>
    new Message(block(columnTable, i)).messages(2).flatMap((page) => pageValues(page, kindOf(type), data)).map((v) => ({ t: type, v })));
  return { columns, rows: (cells[0] ?? []).map((_, i) => cells.map((column) => column[i])) };
}
