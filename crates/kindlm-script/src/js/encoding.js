// TextEncoder and TextDecoder. Rust encodes and decodes UTF-8.
const bytesOf = (input) => {
  if (input === undefined) return new Uint8Array(0);
  if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  if (input instanceof ArrayBuffer) return new Uint8Array(input);
  throw new TypeError('The "input" argument must be an ArrayBuffer or a view of one.');
};
class TextEncoder {
  get encoding() { return "utf-8"; }
  encode(text = "") { return new Uint8Array(native.utf8Encode(String(text).toWellFormed())); }
  encodeInto(text, into) {
    let read = 0, written = 0;
    for (const char of String(text).toWellFormed()) {
      const bytes = this.encode(char);
      if (written + bytes.length > into.length) break;
      into.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }
}
const LABELS = { utf8: "utf-8", "utf-8": "utf-8", "unicode-1-1-utf-8": "utf-8", latin1: "latin1", ascii: "latin1", "iso-8859-1": "latin1", "windows-1252": "latin1", "utf-16le": "utf-16le", "utf-16": "utf-16le" };
class TextDecoder {
  #encoding; #fatal; #keepBom; #rest = [];
  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    const known = LABELS[String(label).trim().toLowerCase()];
    if (known === undefined) throw new RangeError(`The "${label}" encoding is not supported`);
    this.#encoding = known;
    this.#fatal = fatal;
    this.#keepBom = ignoreBOM;
  }
  get encoding() { return this.#encoding === "latin1" ? "windows-1252" : this.#encoding; }
  get fatal() { return this.#fatal; }
  get ignoreBOM() { return this.#keepBom; }
  decode(input, { stream = false } = {}) {
    let bytes = bytesOf(input);
    if (this.#rest.length) bytes = Uint8Array.from([...this.#rest, ...bytes]);
    this.#rest = [];
    if (this.#encoding === "latin1") return native.latin1Decode(exact(bytes));
    if (this.#encoding === "utf-16le") {
      let text = "";
      for (let at = 0; at + 1 < bytes.length; at += 2) text += String.fromCharCode(bytes[at] | (bytes[at + 1] << 8));
      return text;
    }
    if (stream) {
      // Keep an incomplete character for the next piece.
      let end = bytes.length;
      for (let back = 1; back <= 3 && back <= bytes.length; back++) {
        const byte = bytes[bytes.length - back];
        if ((byte & 0xc0) === 0x80) continue;
        const wants = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (wants > back) end = bytes.length - back;
        break;
      }
      this.#rest = [...bytes.subarray(end)];
      bytes = bytes.subarray(0, end);
    }
    const text = native.utf8Decode(exact(bytes), this.#fatal);
    if (text === undefined) {
      throw Object.assign(new TypeError("The encoded data was not valid for encoding utf-8"), { code: "ERR_ENCODING_INVALID_ENCODED_DATA" });
    }
    return !this.#keepBom && text.startsWith("\ufeff") ? text.slice(1) : text;
  }
}
// Returns an ArrayBuffer of exactly these bytes.
const exact = (bytes) =>
  bytes.byteLength === bytes.buffer.byteLength ? bytes.buffer : bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
module.exports = { TextEncoder, TextDecoder, exact, bytesOf };
