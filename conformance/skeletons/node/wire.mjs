// Protobuf wire format: fields by number, varints of 64 bits as BigInt.

export class Corrupt extends Error {}

const VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5;
const LARGEST = (1n << 64n) - 1n;

function varint(data, at) {
  let value = 0n;
  for (let i = 0; i < 10; i++) {
    if (at + i >= data.length) throw new Corrupt(`a varint is cut at byte ${at}`);
    const byte = data[at + i];
    value |= BigInt(byte & 0x7f) << BigInt(7 * i);
    if (byte < 0x80) {
      if (value > LARGEST) throw new Corrupt(`a varint has more than 64 bits at byte ${at}`);
      return [value, at + i + 1];
    }
  }
  throw new Corrupt(`a varint is longer than 10 bytes at byte ${at}`);
}

/** A decoded message: what is asked for is checked, unknown fields are passed over. */
export class Message {
  constructor(data) {
    this.fields = [];
    let at = 0;
    while (at < data.length) {
      const start = at;
      let key, value;
      [key, at] = varint(data, at);
      const number = Number(key >> 3n), type = Number(key & 7n);
      if (number === 0) throw new Corrupt(`field number 0 at byte ${start}`);
      if (type === VARINT) {
        [value, at] = varint(data, at);
      } else {
        let size;
        if (type === LENGTH) [size, at] = varint(data, at);
        else if (type === FIXED64) size = 8n;
        else if (type === FIXED32) size = 4n;
        else throw new Corrupt(`wire type ${type} at byte ${start}`);
        const end = at + Number(size);
        if (end > data.length) throw new Corrupt(`field ${number} is cut at byte ${start}`);
        value = data.subarray(at, end);
        at = end;
      }
      this.fields.push({ number, type, value });
    }
  }

  all(number, type) {
    const found = this.fields.filter((field) => field.number === number);
    for (const field of found) {
      if (field.type !== type) throw new Corrupt(`field ${number} has wire type ${field.type}`);
    }
    return found.map((field) => field.value);
  }

  has(number) {
    return this.fields.some((field) => field.number === number);
  }

  uint(number, bits = 64n) {
    const value = this.all(number, VARINT).at(-1) ?? 0n;
    if (value >> bits) throw new Corrupt(`field ${number} does not fit ${bits} bits`);
    return value;
  }

  int(number) {
    return BigInt.asIntN(64, this.uint(number));
  }

  blobs(number) {
    return this.all(number, LENGTH);
  }

  blob(number) {
    return this.blobs(number).at(-1) ?? null;
  }

  texts(number) {
    return this.blobs(number).map(text);
  }

  text(number) {
    return text(this.blob(number) ?? Buffer.alloc(0));
  }

  messages(number) {
    return this.blobs(number).map((blob) => new Message(blob));
  }

  message(number) {
    const blob = this.blob(number);
    return blob === null ? null : new Message(blob);
  }

  /** A repeated signed field, packed or not. */
  ints(number) {
    const found = [];
    for (const field of this.fields.filter((one) => one.number === number)) {
      if (field.type === VARINT) found.push(field.value);
      else {
        let at = 0, value;
        while (at < field.value.length) {
          [value, at] = varint(field.value, at);
          found.push(value);
        }
      }
    }
    return found.map((value) => BigInt.asIntN(64, value));
  }

  /** A map of text to text. */
  map(number) {
    return Object.fromEntries(this.messages(number).map((entry) => [entry.text(1), entry.text(2)]));
  }
}

function text(blob) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(blob);
  } catch {
    throw new Corrupt("a string is not UTF-8");
  }
}

function encodedVarint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, value);
  while (rest >= 0x80n) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}

/** Builds a message; zero and absent values are left out, as proto3 does. */
export class Builder {
  constructor() {
    this.parts = [];
  }

  uint(number, value) {
    if (value !== 0n) this.optional(number, value);
    return this;
  }

  optional(number, value) {
    if (value !== undefined && value !== null) {
      this.parts.push(encodedVarint(BigInt(number << 3 | VARINT)), encodedVarint(value));
    }
    return this;
  }

  blob(number, value) {
    if (value !== undefined && value !== null) {
      const data = Buffer.from(value);
      this.parts.push(encodedVarint(BigInt(number << 3 | LENGTH)), encodedVarint(BigInt(data.length)), data);
    }
    return this;
  }

  text(number, value) {
    return value === "" ? this : this.blob(number, Buffer.from(value, "utf-8"));
  }

  bytes() {
    return Buffer.concat(this.parts);
  }
}
