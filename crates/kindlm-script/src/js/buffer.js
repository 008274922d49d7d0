// The parts of Buffer that scripts use to check text: a Uint8Array with encodings.
const { exact } = require("encoding");
const HEX = "0123456789abcdef";
const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Map([...ALPHABET].map((char, value) => [char, value]));
VALUES.set("-", 62).set("_", 63);

const name = (encoding = "utf8") => {
  const lower = String(encoding).toLowerCase();
  const known = { utf8: "utf8", "utf-8": "utf8", hex: "hex", base64: "base64", base64url: "base64url", latin1: "latin1", binary: "latin1", ascii: "ascii", utf16le: "utf16le", "utf-16le": "utf16le", ucs2: "utf16le", "ucs-2": "utf16le" }[lower];
  if (known === undefined) throw Object.assign(new TypeError(`Unknown encoding: ${encoding}`), { code: "ERR_UNKNOWN_ENCODING" });
  return known;
};
function encode(text, encoding) {
  switch (name(encoding)) {
    case "utf8": return new Uint8Array(native.utf8Encode(text.toWellFormed()));
    case "latin1": case "ascii": return Uint8Array.from(text, (char) => char.charCodeAt(0) & 255);
    case "utf16le": {
      const out = new Uint8Array(text.length * 2);
      for (let at = 0; at < text.length; at++) {
        const unit = text.charCodeAt(at);
        out[2 * at] = unit & 255;
        out[2 * at + 1] = unit >> 8;
      }
      return out;
    }
    case "hex": {
      const pairs = text.match(/^(?:[0-9a-f]{2})*/i)[0];
      return Uint8Array.from({ length: pairs.length / 2 }, (_, at) => parseInt(pairs.slice(2 * at, 2 * at + 2), 16));
    }
    default: {
      const out = [];
      let bits = 0, held = 0;
      for (const char of text) {
        if (char === "=") break;
        const value = VALUES.get(char);
        if (value === undefined) continue;
        held = ((held << 6) | value) & 0xfffff;
        bits += 6;
        if (bits >= 8) out.push((held >> (bits -= 8)) & 255);
      }
      return Uint8Array.from(out);
    }
  }
}
function decode(bytes, encoding) {
  switch (name(encoding)) {
    case "utf8": return native.utf8Decode(exact(bytes), false);
    case "latin1": return native.latin1Decode(exact(bytes));
    case "ascii": return native.latin1Decode(exact(bytes.map((byte) => byte & 127)));
    case "hex": { let out = ""; for (const byte of bytes) out += HEX[byte >> 4] + HEX[byte & 15]; return out; }
    case "utf16le": {
      let out = "";
      for (let at = 0; at + 1 < bytes.length; at += 2) out += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8));
      return out;
    }
    default: {
      let out = "";
      for (let at = 0; at < bytes.length; at += 3) {
        const [a, b, c] = [bytes[at], bytes[at + 1], bytes[at + 2]];
        out += ALPHABET[a >> 2] + ALPHABET[((a & 3) << 4) | ((b ?? 0) >> 4)];
        out += b === undefined ? "=" : ALPHABET[((b & 15) << 2) | ((c ?? 0) >> 6)];
        out += c === undefined ? "=" : ALPHABET[c & 63];
      }
      return name(encoding) === "base64" ? out : out.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
    }
  }
}
class Buffer extends Uint8Array {
  static poolSize = 0;
  static from(value, encodingOrOffset, length) {
    if (typeof value === "string") return wrap(encode(value, encodingOrOffset));
    if (value instanceof ArrayBuffer) return new Buffer(value, encodingOrOffset, length);
    if (value?.type === "Buffer" && Array.isArray(value.data)) return wrap(Uint8Array.from(value.data));
    if (value !== null && typeof value === "object") return wrap(Uint8Array.from(value));
    throw Object.assign(new TypeError("The first argument must be of type string or an instance of Buffer, ArrayBuffer, or Array or an Array-like Object."), { code: "ERR_INVALID_ARG_TYPE" });
  }
  static alloc(size, fill, encoding) {
    const buffer = new Buffer(size);
    return fill === undefined ? buffer : buffer.fill(fill, encoding);
  }
  static allocUnsafe(size) { return new Buffer(size); }
  static allocUnsafeSlow(size) { return new Buffer(size); }
  static isBuffer(value) { return value instanceof Buffer; }
  static isEncoding(encoding) { try { name(encoding); return true; } catch { return false; } }
  static byteLength(value, encoding) { return typeof value === "string" ? encode(value, encoding).length : value.byteLength; }
  static concat(list, total = list.reduce((sum, it) => sum + it.length, 0)) {
    const out = new Buffer(total);
    let at = 0;
    for (const part of list) {
      out.set(part.subarray(0, Math.max(0, total - at)), at);
      at += part.length;
      if (at >= total) break;
    }
    return out;
  }
  static compare(a, b) {
    for (let at = 0; at < Math.min(a.length, b.length); at++) {
      if (a[at] !== b[at]) return a[at] < b[at] ? -1 : 1;
    }
    return Math.sign(a.length - b.length);
  }
  toString(encoding, start = 0, end = this.length) { return decode(this.subarray(start, end), encoding); }
  toJSON() { return { type: "Buffer", data: [...this] }; }
  equals(other) { return Buffer.compare(this, other) === 0; }
  compare(other) { return Buffer.compare(this, other); }
  slice(start, end) { return this.subarray(start, end); }
  write(text, offset = 0, length = this.length - offset, encoding = "utf8") {
    if (typeof offset === "string") return this.write(text, 0, this.length, offset);
    const bytes = encode(text, encoding).subarray(0, Math.min(length, this.length - offset));
    this.set(bytes, offset);
    return bytes.length;
  }
  copy(target, targetStart = 0, start = 0, end = this.length) {
    const part = this.subarray(start, Math.min(end, start + target.length - targetStart));
    target.set(part, targetStart);
    return part.length;
  }
  fill(value, start = 0, end = this.length, encoding = "utf8") {
    if (typeof start === "string") return this.fill(value, 0, this.length, start);
    if (typeof value !== "string") return super.fill(value, start, end);
    const bytes = encode(value, encoding);
    for (let at = start; at < end; at++) this[at] = bytes.length ? bytes[(at - start) % bytes.length] : 0;
    return this;
  }
  indexOf(value, from = 0, encoding = "utf8") {
    if (typeof value === "number") return super.indexOf(value & 255, from);
    const wanted = typeof value === "string" ? encode(value, encoding) : value;
    for (let at = Math.max(0, from < 0 ? this.length + from : from); at + wanted.length <= this.length; at++) {
      if (wanted.every((byte, index) => this[at + index] === byte)) return at;
    }
    return -1;
  }
  includes(value, from, encoding) { return this.indexOf(value, from, encoding) >= 0; }
}
for (const [kind, size] of [["Int8", 1], ["Uint8", 1], ["Int16", 2], ["Uint16", 2], ["Int32", 4], ["Uint32", 4], ["Float32", 4], ["Float64", 8], ["BigInt64", 8], ["BigUint64", 8]]) {
  const called = { Float32: "Float", Float64: "Double", BigUint64: "BigUInt64" }[kind] ?? kind.replace("Uint", "UInt");
  for (const end of size === 1 ? [""] : ["LE", "BE"]) {
    const view = (buffer) => new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
    const read = function (offset = 0) { return view(this)[`get${kind}`](offset, end === "LE"); };
    const write = function (value, offset = 0) { view(this)[`set${kind}`](offset, value, end === "LE"); return offset + size; };
    for (const alias of new Set([called, called.replace("UInt", "Uint")])) {
      Object.defineProperty(Buffer.prototype, `read${alias}${end}`, { value: read, writable: true, configurable: true });
      Object.defineProperty(Buffer.prototype, `write${alias}${end}`, { value: write, writable: true, configurable: true });
    }
  }
}
const wrap = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const invalid = () => Object.assign(new Error("The string contains invalid characters."), { name: "InvalidCharacterError" });
const atob = (text) => {
  const packed = String(text).replace(/[\t\n\f\r ]/g, "").replace(/={1,2}$/, "");
  if (packed.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(packed)) throw invalid();
  return decode(encode(packed, "base64"), "latin1");
};
const btoa = (text) => {
  if (/[^\0-\xff]/.test(String(text))) throw invalid();
  return decode(encode(String(text), "latin1"), "base64");
};
module.exports = { Buffer, atob, btoa, SlowBuffer: Buffer, kMaxLength: 2 ** 31 - 1, constants: { MAX_LENGTH: 2 ** 31 - 1, MAX_STRING_LENGTH: 2 ** 29 - 24 } };
