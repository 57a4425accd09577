// A skeleton of an adapter in Node.js, with nothing but its standard library.
//
//     pytest conformance/ --memwal-adapter "node conformance/skeletons/node/adapter.mjs"
//
// It has tier 0 (names, hashes, region values; manifests, hints and index details both ways) and tier 1 (`inspect`).
// Replace the functions by calls of your implementation, add the messages of the next tier, and name them in `hello`.

import { createInterface } from "node:readline";

import { hashOf, hashOfAll } from "./hash.mjs";
import * as objects from "./objects.mjs";
import { Refused } from "./refused.mjs";
import { inspect } from "./table.mjs";
import { nameOf, regionValues } from "./values.mjs";
import { Corrupt } from "./wire.mjs";

let revision = "";

const DECODE = {
  manifest: objects.manifest,
  hint: objects.hint,
  index_details: objects.indexDetails,
};
const ENCODE = {
  manifest: objects.encodedManifest,
  hint: objects.encodedHint,
  index_details: objects.encodedDetails,
};

const MESSAGES = {
  "hello": () => ({
    protocol: "1",
    implementation: "skeleton (Node.js)",
    version: "1",
    revisions: ["A", "B", "R"],
    roles: [],
    capabilities: ["eval.name", "eval.hash", "eval.region", "eval.decode", "eval.encode", "inspect"],
    without: ["eval.decode wal", "eval.encode wal"], // needs Arrow
  }),
  "configure": (params) => {
    revision = params.revision;
    return {};
  },
  "shutdown": () => ({}),
  "eval.name": (params) => ({ name: nameOf(params.kind, BigInt(params.number), revision) }),
  "eval.hash": (params) => ({
    hash: params.function === "murmur3" ? hashOf(params.values[0], revision) : hashOfAll(params.values, revision),
  }),
  "eval.region": (params) => ({ values: regionValues(params.spec, params.field_ids, params.rows, revision) }),
  "eval.decode": (params) => ({
    [params.kind]: DECODE[params.kind](Buffer.from(params.data, "base64"), params.path),
  }),
  "eval.encode": (params) => {
    const [[kind, view]] = Object.entries(params);
    return { data: ENCODE[kind](view).toString("base64") };
  },
  "inspect": (params) => inspect(params.table),
};

/** The error member of a reply. What fits no kind is `internal`: the suite lists these texts. */
function errorOf(error) {
  if (error instanceof Refused) return { kind: error.kind, message: error.message };
  if (error instanceof Corrupt) return { kind: "corrupt", message: error.message };
  return { kind: "internal", message: String(error) };
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { id, message, params } = JSON.parse(line);
  let answer;
  try {
    answer = { id, result: MESSAGES[message](params) };
  } catch (error) {
    answer = { id, error: errorOf(error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
  if (message === "shutdown") break;
}
process.stdin.destroy(); // otherwise Node.js waits until the suite closes it
