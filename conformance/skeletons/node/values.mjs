// Names of numbered objects, and region values under a region spec.

import { hashOf, hashOfAll } from "./hash.mjs";
import { Refused } from "./refused.mjs";

export const SUFFIX = { A: "lance", B: "arrow", R: "arrow" };
const LARGEST = (1n << 64n) - 1n;

/** 64 binary digits, least significant first. */
export const digits = (number) => [...number.toString(2).padStart(64, "0")].reverse().join("");

/** The number in a name of `digits`; null for any other name. */
export function numberOf(name, suffix) {
  const dot = name.indexOf(".");
  const stem = name.slice(0, dot);
  if (dot < 0 || name.slice(dot + 1) !== suffix || !/^[01]{64}$/.test(stem)) return null;
  return BigInt(`0b${[...stem].reverse().join("")}`);
}

export const tableManifest = (version) => `${(LARGEST - version).toString().padStart(20, "0")}.manifest`;

export function tableVersion(name) {
  return /^[0-9]{20}\.manifest$/.test(name) ? LARGEST - BigInt(name.slice(0, 20)) : null;
}

export function nameOf(kind, number, revision) {
  if (kind === "table_manifest") return tableManifest(number);
  return `${digits(number)}.${kind === "manifest" ? "binpb" : SUFFIX[revision]}`;
}

function bucket(hash, buckets, revision) {
  if (hash === null) return revision === "R" ? "0" : null;
  const positive = revision === "R" ? BigInt(hash & 0x7fffffff) : BigInt(Math.abs(hash));
  return (positive % buckets).toString();
}

const PART = {
  year: (at) => at.getUTCFullYear(),
  month: (at) => at.getUTCMonth() + 1,
  day: (at) => at.getUTCDate(),
  hour: (at) => at.getUTCHours(),
};

/** A point in time as a Date; microseconds are rounded down, also before 1970. */
function dateOf(cell) {
  const number = BigInt(cell.v);
  if (cell.t === "date32") return new Date(Number(number) * 86_400_000);
  return new Date(Number((number - (((number % 1000n) + 1000n) % 1000n)) / 1000n));
}

function truncated(cell, width) {
  if (cell.t === "utf8") return [...cell.v].slice(0, Number(width)).join("");
  const number = BigInt(cell.v);
  return (number - (number % width)).toString(); // the remainder has the sign of the number, as in SQL
}

/** One region value from the cells of its source columns, as text. */
function valueOf(field, cells, revision) {
  const [first] = cells;
  const parameter = (name) => BigInt(field.parameters[name]);
  switch (field.transform) {
    case "identity": return first.v;
    case "bucket": return bucket(hashOf(first, revision), parameter("num_buckets"), revision);
    case "multi_bucket": return bucket(hashOfAll(cells, revision), parameter("num_buckets"), revision);
    case "truncate": return first.v === null ? null : truncated(first, parameter("width"));
    case "year": case "month": case "day": case "hour":
      return first.v === null ? null : PART[field.transform](dateOf(first)).toString();
    default: throw new Refused("invalid_argument", `there is no transform ${field.transform}`);
  }
}

/** The region values of each row. A source field that no column has counts as NULL. */
export function regionValues(spec, fieldIds, rows, revision) {
  return rows.rows.map((row) => spec.fields.map((field) => {
    const cells = field.source_ids.map((id) => row[fieldIds.indexOf(id)] ?? { t: field.result_type, v: null });
    return { t: field.result_type, v: valueOf(field, cells, revision) };
  }));
}
