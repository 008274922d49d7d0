const unescape = (text) => {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch {
    return text.replaceAll("+", " ");
  }
};
const escape = (value) =>
  encodeURIComponent(value).replace(/%(?:20|7E)/g, (it) => (it === "%20" ? "%20" : "~"));
const plain = (value) =>
  ["string", "boolean", "bigint"].includes(typeof value) || Number.isFinite(value) ? String(value) : "";
exports.parse = exports.decode = (text, between = "&", equals = "=", options = {}) => {
  const out = Object.create(null);
  if (typeof text !== "string" || text === "") return out;
  const decode = options.decodeURIComponent ?? unescape;
  const most = options.maxKeys ?? 1000;
  const pairs = text.split(between);
  for (const pair of most > 0 ? pairs.slice(0, most) : pairs) {
    if (pair === "") continue;
    const at = pair.indexOf(equals);
    const key = decode(at < 0 ? pair : pair.slice(0, at));
    const value = at < 0 ? "" : decode(pair.slice(at + equals.length));
    if (!(key in out)) out[key] = value;
    else if (Array.isArray(out[key])) out[key].push(value);
    else out[key] = [out[key], value];
  }
  return out;
};
exports.stringify = exports.encode = (object, between = "&", equals = "=", options = {}) => {
  const encode = options.encodeURIComponent ?? escape;
  if (object === null || typeof object !== "object") return "";
  return Object.entries(object)
    .flatMap(([key, value]) => (Array.isArray(value) ? value : [value]).map((it) => encode(key) + equals + encode(plain(it))))
    .join(between);
};
exports.escape = escape;
exports.unescape = unescape;
