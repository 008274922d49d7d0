// structuredClone
const failure = (value) =>
  Object.assign(new Error(`${typeof value === "symbol" ? "Symbol()" : String(value)} could not be cloned.`), { name: "DataCloneError", code: 25 });
const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
function clone(value, seen) {
  if (typeof value === "function" || typeof value === "symbol") throw failure(value);
  if (value === null || typeof value !== "object") return value;
  if (seen.has(value)) return seen.get(value);
  const keep = (copy) => (seen.set(value, copy), copy);
  const fill = (copy) => {
    for (const key of Object.keys(value)) copy[key] = clone(value[key], seen);
    return copy;
  };
  if (Array.isArray(value)) return fill(keep(new Array(value.length)));
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof Map) {
    const copy = keep(new Map());
    for (const [key, it] of [...value]) copy.set(clone(key, seen), clone(it, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set());
    for (const it of [...value]) copy.add(clone(it, seen));
    return copy;
  }
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const buffer = clone(value.buffer, seen);
    const kind = globalThis[Object.prototype.toString.call(value).slice(8, -1)] ?? Uint8Array;
    return keep(new kind(buffer, value.byteOffset, value.length ?? value.byteLength));
  }
  if (value instanceof Error) {
    const copy = keep(new (ERRORS[value.name] ?? Error)(value.message));
    copy.stack = value.stack;
    if ("cause" in value) copy.cause = clone(value.cause, seen);
    return copy;
  }
  if (value instanceof Boolean || value instanceof Number || value instanceof String) return keep(Object(value.valueOf()));
  if (value instanceof Promise || value instanceof WeakMap || value instanceof WeakSet) throw failure(Object.prototype.toString.call(value));
  return fill(keep({}));
}
exports.structuredClone = (...args) => {
  if (args.length === 0) throw new TypeError('The "value" argument must be specified');
  return clone(args[0], new Map());
};
