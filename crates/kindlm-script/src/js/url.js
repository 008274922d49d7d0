// URL and URLSearchParams. The `url` crate parses them by the WHATWG standard.
const PARTS = ["href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];
const invalid = (input) => Object.assign(new TypeError("Invalid URL"), { code: "ERR_INVALID_URL", input });
class URLSearchParams {
  #pairs = [];
  #changed = () => {};
  constructor(init = "") {
    if (typeof init === "object" && init !== null) {
      if (typeof init[Symbol.iterator] === "function") {
        for (const [name, value] of init) this.#pairs.push([String(name), String(value)]);
      } else {
        for (const name of Object.keys(init)) this.#pairs.push([name, String(init[name])]);
      }
    } else this.#pairs = native.queryParse(String(init).toWellFormed().replace(/^\?/, ""));
  }
  static of(text, changed) {
    const params = new URLSearchParams(text);
    params.#changed = changed;
    return params;
  }
  #update(pairs) { this.#pairs = pairs; this.#changed(this.toString()); }
  get size() { return this.#pairs.length; }
  append(name, value) { this.#update([...this.#pairs, [String(name), String(value)]]); }
  delete(name, value) { this.#update(this.#pairs.filter((it) => it[0] !== String(name) || (value !== undefined && it[1] !== String(value)))); }
  get(name) { return this.#pairs.find((it) => it[0] === String(name))?.[1] ?? null; }
  getAll(name) { return this.#pairs.filter((it) => it[0] === String(name)).map((it) => it[1]); }
  has(name, value) { return this.#pairs.some((it) => it[0] === String(name) && (value === undefined || it[1] === String(value))); }
  set(name, value) {
    const first = this.#pairs.findIndex((it) => it[0] === String(name));
    if (first < 0) return this.append(name, value);
    this.#update(this.#pairs.filter((it, at) => at === first || it[0] !== String(name)).map((it) => (it[0] === String(name) ? [it[0], String(value)] : it)));
  }
  sort() { this.#update(this.#pairs.toSorted((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0))); }
  forEach(fn, self) { for (const [name, value] of this.#pairs) Reflect.apply(fn, self, [value, name, this]); }
  *entries() { for (const [name, value] of this.#pairs) yield [name, value]; }
  *keys() { for (const [name] of this.#pairs) yield name; }
  *values() { for (const [, value] of this.#pairs) yield value; }
  [Symbol.iterator]() { return this.entries(); }
  toString() { return native.queryWrite(this.#pairs.map(([name, value]) => [name.toWellFormed(), value.toWellFormed()])); }
  get [Symbol.toStringTag]() { return "URLSearchParams"; }
  [Symbol.for("nodejs.util.inspect.custom")]() { return `URLSearchParams { ${this.#pairs.map(([name, value]) => `'${name}' => '${value}'`).join(", ")} }`; }
}
class URL {
  #parts; #params;
  constructor(input, base) {
    const parts = native.urlParse(String(input).toWellFormed(), base === undefined ? undefined : String(base).toWellFormed());
    if (parts === undefined) throw invalid(String(input));
    this.#parts = parts;
  }
  static canParse(input, base) { return native.urlParse(String(input), base === undefined ? undefined : String(base)) !== undefined; }
  static parse(input, base) { try { return new URL(input, base); } catch { return null; } }
  static at(url, part) { return url.#parts[part]; }
  static change(url, part, value) {
    const parts = native.urlSet(url.#parts.href, part, String(value).toWellFormed());
    if (parts === undefined) {
      if (part === "href") throw invalid(String(value));
      return;
    }
    url.#parts = parts;
    if (part === "search" || part === "href") url.#params = undefined;
  }
  get origin() { return this.#parts.origin; }
  get searchParams() {
    return (this.#params ??= of(this.#parts.search, (text) => {
      const params = this.#params;
      change(this, "search", text);
      this.#params = params;
    }));
  }
  toString() { return this.#parts.href; }
  toJSON() { return this.#parts.href; }
  get [Symbol.toStringTag]() { return "URL"; }
  [Symbol.for("nodejs.util.inspect.custom")]() { return `URL { href: '${this.#parts.href}' }`; }
}
const { at, change } = URL;
const { of } = URLSearchParams;
delete URL.at;
delete URL.change;
delete URLSearchParams.of;
for (const part of PARTS) {
  Object.defineProperty(URL.prototype, part, {
    configurable: true, enumerable: true,
    get() { return at(this, part); },
    set(value) { change(this, part, value); },
  });
}
const fileURLToPath = (url) => {
  const { protocol, pathname } = typeof url === "string" ? new URL(url) : url;
  if (protocol !== "file:") throw Object.assign(new TypeError("The URL must be of scheme file"), { code: "ERR_INVALID_URL_SCHEME" });
  return decodeURIComponent(pathname);
};
const pathToFileURL = (path) => new URL(`file://${encodeURI(require("path").resolve(path)).replaceAll("?", "%3F").replaceAll("#", "%23")}`);
const parse = (text, query = false) => {
  const found = URL.parse(text);
  const relative = found ?? new URL(text, "http://relative.invalid");
  const pick = (part) => (found && found[part]) || null;
  return {
    protocol: pick("protocol"), slashes: /^[a-z][a-z0-9+.-]*:\/\//i.test(text) || null,
    auth: found?.username ? `${found.username}${found.password ? `:${found.password}` : ""}` : null,
    host: pick("host"), port: pick("port"), hostname: pick("hostname"), hash: relative.hash || null, search: relative.search || null,
    query: query ? require("querystring").parse(relative.search.slice(1)) : relative.search.slice(1) || null,
    pathname: relative.pathname || null, path: relative.pathname + relative.search || null, href: found?.href ?? text,
  };
};
module.exports = {
  URL, URLSearchParams, fileURLToPath, pathToFileURL, parse,
  format: (url) => (url instanceof URL ? url.href : typeof url === "string" ? url : url.href ?? `${url.protocol ?? ""}//${url.host ?? url.hostname ?? ""}${url.pathname ?? ""}${url.search ?? ""}${url.hash ?? ""}`),
  resolve: (from, to) => new URL(to, new URL(from, "http://relative.invalid")).href.replace(/^http:\/\/relative\.invalid/, ""),
  domainToASCII: (name) => URL.parse(`http://${name}`)?.hostname ?? "",
};
