// POSIX paths: scripts use `/` on every system.
const text = (value, name = "path") => {
  if (typeof value !== "string") {
    throw Object.assign(
      new TypeError(`The "${name}" argument must be of type string. Received ${value === null ? "null" : typeof value}`),
      { code: "ERR_INVALID_ARG_TYPE" },
    );
  }
  return value;
};
const clean = (path, absolute) => {
  const out = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part !== "..") out.push(part);
    else if (out.length && out.at(-1) !== "..") out.pop();
    else if (!absolute) out.push("..");
  }
  return out.join("/");
};
const path = {
  sep: "/",
  delimiter: ":",
  isAbsolute: (path) => text(path).startsWith("/"),
  normalize(path) {
    if (text(path) === "") return ".";
    const absolute = path.startsWith("/");
    const cleaned = clean(path, absolute);
    const tail = cleaned && path.endsWith("/") ? "/" : "";
    return (absolute ? "/" : "") + (cleaned || (absolute ? "" : path.endsWith("/") ? "./" : ".")) + tail;
  },
  join(...parts) {
    const joined = parts.map((part) => text(part)).filter((part) => part !== "").join("/");
    return joined === "" ? "." : path.normalize(joined);
  },
  resolve(...parts) {
    let whole = "";
    for (const part of [process.cwd(), ...parts]) {
      if (text(part) === "") continue;
      whole = part.startsWith("/") ? part : `${whole}/${part}`;
    }
    return `/${clean(whole, true)}`;
  },
  relative(from, to) {
    const a = path.resolve(text(from, "from")).split("/").filter(Boolean);
    const b = path.resolve(text(to, "to")).split("/").filter(Boolean);
    let same = 0;
    while (same < a.length && same < b.length && a[same] === b[same]) same++;
    return [...a.slice(same).map(() => ".."), ...b.slice(same)].join("/");
  },
  dirname(path) {
    const trimmed = text(path).replace(/\/+$/, "");
    const at = trimmed.lastIndexOf("/");
    if (at < 0) return trimmed === "" && path.startsWith("/") ? "/" : ".";
    return trimmed.slice(0, at).replace(/\/+$/, "") || "/";
  },
  basename(path, suffix) {
    const name = text(path).replace(/\/+$/, "").replace(/^.*\//s, "");
    return suffix !== undefined && name !== suffix && name.endsWith(text(suffix, "suffix"))
      ? name.slice(0, name.length - suffix.length)
      : name;
  },
  extname(path) {
    const name = module.exports.basename(path);
    const at = name.lastIndexOf(".");
    return at <= 0 || name === ".." ? "" : name.slice(at);
  },
  parse(whole) {
    const root = text(whole).startsWith("/") ? "/" : "";
    const base = path.basename(whole);
    const ext = path.extname(whole);
    const dir = base === whole ? "" : path.dirname(whole);
    return { root, dir: dir === "." && !whole.startsWith(".") ? "" : dir, base, ext, name: ext ? base.slice(0, -ext.length) : base };
  },
  format({ root = "", dir, base, name = "", ext = "" }) {
    const file = base ?? name + (ext && !ext.startsWith(".") ? `.${ext}` : ext);
    if (!dir) return root + file;
    return dir === root ? dir + file : `${dir}/${file}`;
  },
  toNamespacedPath: (path) => path,
};
path.posix = path;
module.exports = path;
