// Hashes and random bytes, which Rust computes.
const { Buffer } = require("buffer");
const { exact, bytesOf } = require("encoding");
const NAMES = { md5: "md5", sha1: "sha1", sha256: "sha256", sha512: "sha512", sha384: "sha384", sha224: "sha224" };
const known = (name) => {
  const found = NAMES[String(name).toLowerCase().replace("-", "").replace(/^rsa/, "")];
  if (found === undefined) throw Object.assign(new Error(`Digest method not supported: ${name}; the sandbox has ${Object.keys(NAMES).join(", ")}`), { code: "ERR_CRYPTO_INVALID_DIGEST" });
  return found;
};
const bytes = (data, encoding) => (typeof data === "string" ? Buffer.from(data, encoding) : bytesOf(data));
class Hash {
  #name; #key; #parts = []; #done = false;
  constructor(name, key, parts = []) {
    this.#name = known(name);
    this.#key = key;
    this.#parts = parts;
  }
  update(data, encoding) {
    if (this.#done) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    this.#parts.push(Buffer.from(bytes(data, encoding)));
    return this;
  }
  copy() { return new Hash(this.#name, this.#key, [...this.#parts]); }
  digest(encoding) {
    if (this.#done) throw Object.assign(new Error("Digest already called"), { code: "ERR_CRYPTO_HASH_FINALIZED" });
    this.#done = true;
    const digest = Buffer.from(native.hash(this.#name, this.#key, exact(Buffer.concat(this.#parts))));
    return encoding === undefined || encoding === "buffer" ? digest : digest.toString(encoding);
  }
}
const randomBytes = (size) => Buffer.from(native.randomBytes(size));
const randomUUID = () => {
  const bytes = randomBytes(16);
  bytes[6] = (bytes[6] & 15) | 64;
  bytes[8] = (bytes[8] & 63) | 128;
  return bytes.toString("hex").replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
};
const getRandomValues = (array) => {
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(randomBytes(array.byteLength));
  return array;
};
module.exports = {
  createHash: (name) => new Hash(name),
  createHmac: (name, key) => new Hash(name, exact(Buffer.from(bytes(key)))),
  hash: (name, data, encoding = "hex") => new Hash(name).update(data).digest(encoding),
  getHashes: () => Object.keys(NAMES),
  randomBytes, randomUUID, getRandomValues,
  randomInt: (low, high) => {
    if (high === undefined) [low, high] = [0, low];
    return low + Math.floor((randomBytes(6).reduce((sum, byte) => sum * 256 + byte, 0) / 2 ** 48) * (high - low));
  },
  timingSafeEqual(a, b) {
    const [left, right] = [bytesOf(a), bytesOf(b)];
    if (left.length !== right.length) throw Object.assign(new RangeError("Input buffers must have the same byte length"), { code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH" });
    let different = 0;
    for (let at = 0; at < left.length; at++) different |= left[at] ^ right[at];
    return different === 0;
  },
  webcrypto: { getRandomValues, randomUUID },
};
