// fetch and its classes. The host sends the requests, if `scripts.net` permits their hosts.
const { bytesOf } = require("encoding");
const waiting = new Map();

class Event {
  constructor(type, init = {}) { this.type = String(type); Object.assign(this, init); this.defaultPrevented = false; }
  preventDefault() { this.defaultPrevented = true; }
}
class EventTarget {
  #listeners = [];
  addEventListener(type, listener, options) { this.#listeners.push({ type, listener, once: options?.once === true }); }
  removeEventListener(type, listener) { this.#listeners = this.#listeners.filter((it) => it.type !== type || it.listener !== listener); }
  dispatchEvent(event) {
    event.target = this;
    this[`on${event.type}`]?.(event);
    for (const it of this.#listeners.filter(({ type }) => type === event.type)) {
      if (it.once) this.removeEventListener(it.type, it.listener);
      (it.listener.handleEvent ?? it.listener).call(this, event);
    }
    return !event.defaultPrevented;
  }
}
const abortError = (message = "This operation was aborted", name = "AbortError") => Object.assign(new Error(message), { name, code: name === "AbortError" ? 20 : 23 });
class AbortSignal extends EventTarget {
  aborted = false; reason = undefined; onabort = null;
  throwIfAborted() { if (this.aborted) throw this.reason; }
  static abort(reason) { const it = new AbortController(); it.abort(reason); return it.signal; }
  static timeout(ms) { const it = new AbortController(); setTimeout(() => it.abort(abortError("The operation was aborted due to timeout", "TimeoutError")), ms); return it.signal; }
  static any(signals) {
    const it = new AbortController();
    for (const signal of signals) {
      if (signal.aborted) it.abort(signal.reason);
      else signal.addEventListener("abort", () => it.abort(signal.reason), { once: true });
    }
    return it.signal;
  }
}
class AbortController {
  signal = new AbortSignal();
  abort(reason = abortError()) {
    if (this.signal.aborted) return;
    this.signal.aborted = true;
    this.signal.reason = reason;
    this.signal.dispatchEvent(new Event("abort"));
  }
}
class Headers {
  #map = new Map();
  constructor(init = {}) {
    const pairs = init === null || init === undefined ? [] : typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }
  append(name, value) {
    const key = Headers.#name(name);
    const text = String(value).trim();
    this.#map.set(key, this.#map.has(key) ? `${this.#map.get(key)}, ${text}` : text);
  }
  static #name(name) {
    const key = String(name).toLowerCase();
    if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(key)) throw new TypeError(`Headers: ${name} is an invalid header name.`);
    return key;
  }
  set(name, value) { this.#map.set(Headers.#name(name), String(value).trim()); }
  get(name) { return this.#map.get(Headers.#name(name)) ?? null; }
  has(name) { return this.#map.has(Headers.#name(name)); }
  delete(name) { this.#map.delete(Headers.#name(name)); }
  forEach(fn, self) { for (const [name, value] of this) Reflect.apply(fn, self, [value, name, this]); }
  *entries() { yield* [...this.#map].sort(([a], [b]) => (a < b ? -1 : 1)); }
  *keys() { for (const [name] of this.entries()) yield name; }
  *values() { for (const [, value] of this.entries()) yield value; }
  [Symbol.iterator]() { return this.entries(); }
}
// Returns a body as bytes, and its content type.
function bodyOf(body) {
  if (body === null || body === undefined) return [new Uint8Array(0), null];
  if (body instanceof URLSearchParams) return [new TextEncoder().encode(String(body)), "application/x-www-form-urlencoded;charset=UTF-8"];
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return [bytesOf(body), null];
  return [new TextEncoder().encode(String(body)), "text/plain;charset=UTF-8"];
}
class Body {
  #bytes; bodyUsed = false;
  constructor(bytes) { this.#bytes = bytes; }
  static bytes(it) { return it.#bytes; }
  async #take() {
    if (this.bodyUsed) throw new TypeError("Body is unusable: Body has already been read");
    this.bodyUsed = true;
    return this.#bytes;
  }
  async arrayBuffer() { return Uint8Array.from(await this.#take()).buffer; }
  async bytes() { return Uint8Array.from(await this.#take()); }
  async text() { return new TextDecoder().decode(await this.#take()); }
  async json() { return JSON.parse(await this.text()); }
}
class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : undefined;
    const [bytes, type] = init.body !== undefined || !from ? bodyOf(init.body) : [Body.bytes(from), null];
    super(bytes);
    this.url = from ? from.url : new URL(input).href;
    this.method = String(init.method ?? from?.method ?? "GET").toUpperCase();
    this.headers = new Headers(init.headers ?? from?.headers);
    if (type && !this.headers.has("content-type")) this.headers.set("content-type", type);
    this.signal = init.signal ?? from?.signal;
    if (bytes.length && ["GET", "HEAD"].includes(this.method)) throw new TypeError("Request with GET/HEAD method cannot have body.");
  }
}
class Response extends Body {
  constructor(body, { status = 200, statusText = "", headers = {}, url = "", redirected = false } = {}) {
    const [bytes, type] = bodyOf(body);
    super(bytes);
    Object.assign(this, { status, statusText, url, redirected, type: "basic", headers: new Headers(headers) });
    if (type && !this.headers.has("content-type")) this.headers.set("content-type", type);
  }
  get ok() { return this.status >= 200 && this.status <= 299; }
  clone() { return new Response(Body.bytes(this), this); }
  static json(value, init = {}) {
    return new Response(JSON.stringify(value), { ...init, headers: { "content-type": "application/json", ...init.headers } });
  }
  static error() { return new Response(null, { status: 0 }); }
}
// `refused` is the host that the script may not reach.
function failed(message, refused) {
  return Object.assign(new TypeError(message), refused ? { code: "ERR_ACCESS_DENIED", host: refused } : {});
}
async function fetch(input, init) {
  const request = new Request(input, init);
  if (!native.may("net")) {
    const { host } = new URL(request.url);
    throw failed(`fetch of ${host} is not permitted: a script has no network unless \`scripts.net\` names its hosts`, host);
  }
  request.signal?.throwIfAborted();
  const id = native.fetch(request.url, request.method, [...request.headers], Uint8Array.from(Body.bytes(request)).buffer);
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    request.signal?.addEventListener("abort", () => reject(request.signal.reason), { once: true });
  });
}
function settled(id, error, facts, body, refused) {
  const call = waiting.get(id);
  waiting.delete(id);
  if (call === undefined) return;
  if (error !== undefined && error !== null) return call.reject(failed(error, refused));
  const { status, status_text: statusText, url, redirected, headers } = facts;
  call.resolve(new Response(body, { status, statusText, url, redirected, headers }));
}
const began = native.now();
module.exports = {
  fetch, settled, Headers, Request, Response, AbortController, AbortSignal, Event, EventTarget,
  performance: { now: () => native.now() - began, timeOrigin: Date.now(), mark() {}, measure() {} },
};
