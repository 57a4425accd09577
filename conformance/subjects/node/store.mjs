// Where a table is: a folder, or a prefix at an S3 endpoint. Both know the same few requests.

import { createHash, createHmac, randomBytes } from "node:crypto";
import { promises as files } from "node:fs";
import { Agent, request } from "node:http";
import { dirname, join } from "node:path";

import { Refused } from "../../skeletons/node/refused.mjs";

/** A request whose outcome is not known. */
export class Unknown extends Refused {
  constructor(text) {
    super("storage", text);
  }
}

const absent = (error) => {
  if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
  throw new Refused("storage", error.message);
};

class Folder {
  constructor(root) {
    this.root = root;
  }

  get(path) {
    return files.readFile(join(this.root, path)).catch(absent);
  }

  head(path) {
    return files.stat(join(this.root, path)).then(() => true).catch((error) => absent(error) ?? false);
  }

  /** Put an object where none is; false if one is there. */
  async create(path, data) {
    const target = join(this.root, path), draft = join(dirname(target), `.${randomBytes(8).toString("hex")}.tmp`);
    await files.mkdir(dirname(target), { recursive: true });
    await files.writeFile(draft, data);
    try {
      await files.link(draft, target);
      return true;
    } catch (error) {
      if (error.code === "EEXIST") return false;
      throw new Refused("storage", error.message);
    } finally {
      await files.unlink(draft);
    }
  }

  async put(path, data) {
    const target = join(this.root, path), draft = join(dirname(target), `.${randomBytes(8).toString("hex")}.tmp`);
    await files.mkdir(dirname(target), { recursive: true });
    await files.writeFile(draft, data);
    await files.rename(draft, target);
  }

  /** Names of the objects and folders directly below a folder. */
  async list(folder) {
    const names = await files.readdir(join(this.root, folder)).catch(absent);
    return (names ?? []).filter((name) => !name.endsWith(".tmp"));
  }
}

const sha = (data) => createHash("sha256").update(data).digest("hex");
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const escaped = (text) => encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

class Bucket {
  constructor(url, storage) {
    const [, bucket, prefix] = /^s3:\/\/([^/]+)\/?(.*?)\/?$/.exec(url);
    Object.assign(this, { bucket, prefix, storage, endpoint: new URL(storage.endpoint), agent: new Agent({ keepAlive: true }) });
  }

  key(path) {
    return this.prefix ? `${this.prefix}/${path}` : path;
  }

  /** Status and body of one signed request; an answer that does not come is `Unknown`. */
  async ask(method, key, { query = {}, headers = {}, data = Buffer.alloc(0) } = {}) {
    const path = `/${this.bucket}${key ? `/${key.split("/").map(escaped).join("/")}` : ""}`;
    const search = Object.entries(query).map(([name, value]) => `${escaped(name)}=${escaped(value)}`).sort().join("&");
    const now = new Date().toISOString().replace(/[-:]|\.[0-9]+/g, ""), day = now.slice(0, 8);
    const signed = { ...headers, "host": this.endpoint.host, "x-amz-content-sha256": sha(data), "x-amz-date": now };
    const names = Object.keys(signed).sort();
    const canonical = [
      method, path, search, ...names.map((name) => `${name}:${signed[name]}`), "", names.join(";"), sha(data),
    ].join("\n");
    const scope = `${day}/${this.storage.region}/s3/aws4_request`;
    const key4 = [day, this.storage.region, "s3", "aws4_request"].reduce(hmac, `AWS4${this.storage.secret_access_key}`);
    const signature = hmac(key4, ["AWS4-HMAC-SHA256", now, scope, sha(canonical)].join("\n")).toString("hex");
    const authorization =
      `AWS4-HMAC-SHA256 Credential=${this.storage.access_key_id}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`;
    return new Promise((resolve, reject) => {
      const lost = (error) => reject(new Unknown(`${method} ${path}: ${error.message}`));
      const sent = request({
        agent: this.agent, host: this.endpoint.hostname, port: this.endpoint.port, method, path: search ? `${path}?${search}` : path,
        headers: { ...signed, authorization, "content-length": data.length },
      }, (reply) => {
        const parts = [];
        reply.on("data", (part) => parts.push(part)).on("error", lost).on("aborted", () => lost(new Error("cut off")));
        reply.on("end", () => {
          if (reply.statusCode >= 500 || reply.statusCode === 409) lost(new Error(`status ${reply.statusCode}`));
          else resolve({ status: reply.statusCode, body: Buffer.concat(parts) });
        });
      });
      sent.on("error", lost).end(data);
    });
  }

  async expect(statuses, method, path, options) {
    const reply = await this.ask(method, this.key(path), options);
    if (!statuses.includes(reply.status)) throw new Refused("storage", `${method} ${path}: status ${reply.status}`);
    return reply;
  }

  async get(path) {
    const { status, body } = await patient(() => this.expect([200, 404], "GET", path));
    return status === 404 ? null : body;
  }

  async head(path) {
    return (await patient(() => this.expect([200, 404], "HEAD", path))).status === 200;
  }

  async create(path, data) {
    return (await this.expect([200, 412], "PUT", path, { data, headers: { "if-none-match": "*" } })).status === 200;
  }

  async put(path, data) {
    await this.expect([200], "PUT", path, { data });
  }

  async list(folder) {
    const prefix = `${this.key(folder)}/`, names = [];
    for (let token = null; ;) {
      const query = { "list-type": "2", prefix, "delimiter": "/", ...(token ? { "continuation-token": token } : {}) };
      const { status, body } = await patient(() => this.ask("GET", "", { query }));
      if (status !== 200) throw new Refused("storage", `LIST ${prefix}: status ${status}`);
      const text = body.toString("utf-8");
      const found = [...text.matchAll(/<(?:Key|CommonPrefixes><Prefix)>([^<]*)</g)].map((match) => match[1]);
      names.push(...found.map((key) => key.slice(prefix.length).replace(/\/$/, "")).filter(Boolean));
      token = /<NextContinuationToken>([^<]*)</.exec(text)?.[1] ?? null;
      if (!token) return names;
    }
  }
}

/** Ask what changes nothing up to five times. */
export async function patient(ask, tries = 5) {
  for (let left = tries; ; left--) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Unknown) || left <= 1) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

/** A store whose requests are told, and which ends the process at the change that `crash` names. */
class Watched {
  constructor(inner, watch) {
    Object.assign(this, { inner, watch });
  }

  get(path) { return this.told("get", path, () => this.inner.get(path)); }
  head(path) { return this.told("head", path, () => this.inner.head(path)); }
  list(path) { return this.told("list", path, () => this.inner.list(path)); }
  create(path, data) { return this.changed("put_if_absent", path, () => this.inner.create(path, data)); }
  put(path, data) { return this.changed("put", path, () => this.inner.put(path, data)); }

  async told(operation, path, ask) {
    let outcome = "failed";
    try {
      const answer = await ask();
      outcome = answer === null || answer === false ? (operation === "put_if_absent" ? "exists" : "absent") : "ok";
      return answer;
    } finally {
      this.watch.tell?.({ operation, path, outcome });
    }
  }

  async changed(operation, path, ask) {
    const { crash } = this.watch;
    const due = crash && crash.class === classOf(path) && (crash.occurrence -= 1) === 0;
    if (due && crash.moment === "before") process.kill(process.pid, "SIGKILL");
    try {
      return await this.told(operation, path, ask);
    } finally {
      if (due && crash.moment === "after") process.kill(process.pid, "SIGKILL");
    }
  }
}

function classOf(path) {
  const [, , folder, name] = path.split("/");
  if (!path.startsWith("_mem_wal/")) return "base";
  if (folder === "manifest") return name === "version_hint.json" ? "hint" : "manifest";
  return folder === "wal" ? "wal" : "generation";
}

/** The store of a table: a path, or an s3:// URL where `storage` leads. */
export function storeOf(table, { storage, watch }) {
  if (!table.startsWith("s3://")) return new Watched(new Folder(table), watch);
  if (!storage) throw new Refused("invalid_argument", "there is no storage to look for s3:// URLs in");
  return new Watched(new Bucket(table, storage), watch);
}
