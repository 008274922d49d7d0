// inspect, format, isDeepStrictEqual, promisify and types.
const inspectable = Symbol.for("nodejs.util.inspect.custom");
const promisified = Symbol.for("nodejs.util.promisify.custom");
const tag = (value) => Object.prototype.toString.call(value).slice(8, -1);

const quote = (text) => {
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") ? "`" : "'";
  const escapes = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" };
  return mark + text.replace(/[\u0000-\u001f\\\u007f-\u009f]/g, (char) => escapes[char] ?? `\\x${char.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`).replaceAll(mark, (it) => `\\${it}`) + mark;
};
const LINE = 80;
const key = (name) =>
  typeof name === "symbol" ? `[${String(name)}]` : /^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name);

function inspect(value, options, depthOrNothing) {
  const given = typeof options === "object" && options !== null ? options : { showHidden: options, depth: depthOrNothing };
  const depth = given.depth === undefined ? 2 : given.depth ?? Infinity;
  const most = given.maxArrayLength === undefined ? 100 : given.maxArrayLength ?? Infinity;
  const longest = given.maxStringLength === undefined ? 10000 : given.maxStringLength ?? Infinity;
  const compact = given.breakLength === Infinity;
  const path = [];
  const circular = new Map();

  const text = (value, top) => {
    const cut = value.length > longest ? `... ${value.length - longest} more characters` : "";
    return quote(value.slice(0, longest)) + cut;
  };
  function show(value, level) {
    switch (typeof value) {
      case "string": return text(value);
      case "number": return Object.is(value, -0) ? "-0" : String(value);
      case "bigint": return `${value}n`;
      case "object": if (value === null) return "null"; break;
      case "function": break;
      default: return String(value);
    }
    const custom = value[inspectable];
    if (typeof custom === "function") {
      const shown = Reflect.apply(custom, value, [depth - level, given, inspect]);
      return typeof shown === "string" ? shown : show(shown, level);
    }
    if (path.includes(value)) {
      if (!circular.has(value)) circular.set(value, circular.size + 1);
      return `[Circular *${circular.get(value)}]`;
    }
    path.push(value);
    const shown = object(value, level);
    path.pop();
    return circular.has(value) ? `<ref *${circular.get(value)}> ${shown}` : shown;
  }
  let deepest = 0;
  function object(value, level) {
    deepest = level;
    const proto = Object.getPrototypeOf(value);
    const named = proto === null ? `[${tag(value)}: null prototype]` : proto.constructor?.name || tag(value);
    const own = Reflect.ownKeys(value).filter((it) => Object.getOwnPropertyDescriptor(value, it).enumerable);
    let [open, close, head, items, keys] = ["{", "}", "", [], own];
    const index = (it) => typeof it === "string" && /^(?:0|[1-9]\d*)$/.test(it);
    const deep = level > depth;
    if (Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof DataView))) {
      if (deep) return Array.isArray(value) && named === "Array" ? "[Array]" : `[${named}]`;
      [open, close] = ["[", "]"];
      if (named !== "Array") head = `${named}(${value.length}) `;
      keys = own.filter((it) => !index(it));
      let holes = 0;
      const flush = () => {
        if (holes) items.push(`<${holes} empty item${holes > 1 ? "s" : ""}>`);
        holes = 0;
      };
      const shown = Math.min(value.length, most);
      for (let at = 0; at < shown; at++) {
        if (at in value) {
          flush();
          items.push(show(value[at], level + 1));
        } else holes++;
      }
      flush();
      if (value.length > shown) items.push(`... ${value.length - shown} more item${value.length - shown > 1 ? "s" : ""}`);
    } else if (value instanceof Set) {
      head = `Set(${value.size}) `;
      if (deep) return "[Set]";
      for (const it of value) items.push(show(it, level + 1));
    } else if (value instanceof Map) {
      head = `Map(${value.size}) `;
      if (deep) return "[Map]";
      for (const [name, it] of value) items.push(`${show(name, level + 1)} => ${show(it, level + 1)}`);
    } else if (value instanceof Date) {
      head = Number.isNaN(value.getTime()) ? "Invalid Date" : value.toISOString();
      if (!keys.length) return head;
    } else if (value instanceof RegExp) {
      head = String(value);
      if (!keys.length) return head;
    } else if (value instanceof Error) {
      const line = value.message ? `${value.name}: ${value.message}` : String(value.name);
      const frames = typeof value.stack === "string" ? value.stack.trimEnd() : "";
      head = !frames ? `[${line}]` : frames.startsWith(value.name) ? frames : `${line}\n${frames}`;
      keys = keys.filter((it) => it !== "stack" && it !== "message");
      if (Object.hasOwn(value, "cause") && !keys.includes("cause")) keys.push("cause");
      if (!keys.length) return head;
      head += " ";
    } else if (value instanceof Promise) {
      head = "Promise ";
      items.push("<pending>");
    } else if (typeof value === "function") {
      const kind = /^class\b/.test(Function.prototype.toString.call(value)) ? "class" : tag(value);
      const parent = kind === "class" && typeof proto === "function" && proto.name ? ` extends ${proto.name}` : "";
      head = value.name ? `[${kind}${kind === "class" ? "" : ":"} ${value.name}${parent}]` : `[${kind} (anonymous)]`;
      if (!keys.length) return head;
      head += " ";
    } else if (["String", "Number", "Boolean", "Symbol", "BigInt"].includes(tag(value)) && typeof value.valueOf() !== "object") {
      keys = keys.filter((it) => !index(it));
      head = `[${tag(value)}: ${show(value.valueOf(), level)}]`;
      if (!keys.length) return head;
      head += " ";
    } else {
      if (deep) return `[${named}]`;
      const label = tag(value) === "Arguments" ? "[Arguments]" : named;
      head = label === "Object" ? "" : `${label} `;
    }
    for (const name of keys) {
      const { get, set, value: it } = Object.getOwnPropertyDescriptor(value, name);
      const shown = get ? (set ? "[Getter/Setter]" : "[Getter]") : set ? "[Setter]" : show(it, level + 1);
      items.push(`${name === "cause" && value instanceof Error ? "[cause]" : key(name)}: ${shown}`);
    }
    if (!items.length) return `${head}${open}${close}`;
    // As in Node, a value is on one line if it is short and contains fewer than three nested levels.
    const length = items.reduce((sum, it) => sum + it.length + 2, head.length + level * 2 + open.length + 10);
    if (compact || (length <= LINE && deepest - level < 3 && !items.some((it) => it.includes("\n")) && (items.length <= 6 || open === "{"))) {
      return `${head}${open} ${items.join(", ")} ${close}`;
    }
    const indent = "  ".repeat(level + 1);
    let rows = items;
    if (open === "[" && items.length > 6 && items.every((it) => it.length <= 6)) {
      rows = [];
      for (let at = 0; at < items.length; at += 12) rows.push(items.slice(at, at + 12).join(", "));
    }
    return `${head}${open}\n${indent}${rows.join(`,\n${indent}`)}\n${"  ".repeat(level)}${close}`;
  }
  return show(value, 0);
}
inspect.custom = inspectable;
inspect.defaultOptions = { depth: 2 };

function format(...values) {
  if (typeof values[0] !== "string") return values.map((it) => (typeof it === "string" ? it : inspect(it))).join(" ");
  let next = 1;
  const text = values[0].replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === "%%") return values.length > 1 ? "%" : "%%";
    if (next >= values.length) return mark;
    const value = values[next++];
    switch (mark) {
      case "%s": return typeof value === "string" ? value : typeof value === "bigint" ? `${value}n` : typeof value === "object" && value !== null ? inspect(value, { depth: 0 }) : String(value);
      case "%d": return typeof value === "bigint" ? `${value}n` : typeof value === "object" ? "NaN" : String(Number(value));
      case "%i": return typeof value === "object" ? "NaN" : String(parseInt(value, 10));
      case "%f": return String(parseFloat(value));
      case "%j": try { return JSON.stringify(value); } catch { return "[Circular]"; }
      case "%c": return "";
      default: return inspect(value, mark === "%o" ? { depth: 4 } : {});
    }
  });
  return [text, ...values.slice(next).map((it) => (typeof it === "string" ? it : inspect(it)))].join(" ");
}

// Deep equality. Strict: compares with Object.is, and compares prototypes. Loose: compares with ==.
function equal(a, b, strict, seen = new Map()) {
  if (strict ? Object.is(a, b) : a == b || (Number.isNaN(a) && Number.isNaN(b))) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (strict && Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (tag(a) !== tag(b) || Array.isArray(a) !== Array.isArray(b)) return false;
  if (seen.get(a) === b) return true;
  seen.set(a, b);
  if (a instanceof Date && !Object.is(a.getTime(), b.getTime())) return false;
  if (a instanceof RegExp && (String(a) !== String(b) || a.lastIndex !== b.lastIndex)) return false;
  if (a instanceof Error && (a.message !== b.message || a.name !== b.name)) return false;
  if (["Number", "String", "Boolean", "BigInt", "Symbol"].includes(tag(a)) && !Object.is(a.valueOf(), b.valueOf())) return false;
  if (ArrayBuffer.isView(a) && (a.byteLength !== b.byteLength || [...new Uint8Array(a.buffer, a.byteOffset, a.byteLength)].some((byte, at) => byte !== new Uint8Array(b.buffer, b.byteOffset, b.byteLength)[at]))) return false;
  if (Array.isArray(a) && a.length !== b.length) return false;
  if (a instanceof Set) {
    if (a.size !== b.size) return false;
    const rest = [...b];
    for (const it of a) {
      const at = rest.findIndex((other) => equal(it, other, strict, new Map(seen)));
      if (at < 0) return false;
      rest.splice(at, 1);
    }
  }
  if (a instanceof Map) {
    if (a.size !== b.size) return false;
    const rest = [...b];
    for (const entry of a) {
      const at = rest.findIndex((other) => equal(entry, other, strict, new Map(seen)));
      if (at < 0) return false;
      rest.splice(at, 1);
    }
  }
  const keys = (it) => Reflect.ownKeys(it).filter((name) => (strict || typeof name === "string") && Object.getOwnPropertyDescriptor(it, name).enumerable);
  const [left, right] = [keys(a), keys(b)];
  return left.length === right.length && left.every((name) => Object.hasOwn(b, name) && equal(a[name], b[name], strict, seen));
}

function promisify(fn) {
  if (typeof fn !== "function") throw new TypeError('The "original" argument must be of type function.');
  if (fn[promisified]) return fn[promisified];
  return function (...args) {
    return new Promise((resolve, reject) => {
      Reflect.apply(fn, this, [...args, (error, value) => (error ? reject(error) : resolve(value))]);
    });
  };
}
promisify.custom = promisified;
const is = (name) => (value) => tag(value) === name;
const types = {
  isDate: (it) => it instanceof Date, isRegExp: (it) => it instanceof RegExp, isPromise: (it) => it instanceof Promise,
  isMap: (it) => it instanceof Map, isSet: (it) => it instanceof Set, isWeakMap: (it) => it instanceof WeakMap, isWeakSet: (it) => it instanceof WeakSet,
  isNativeError: (it) => it instanceof Error, isArrayBuffer: (it) => it instanceof ArrayBuffer, isAnyArrayBuffer: (it) => it instanceof ArrayBuffer,
  isArrayBufferView: ArrayBuffer.isView, isTypedArray: (it) => ArrayBuffer.isView(it) && !(it instanceof DataView), isUint8Array: (it) => it instanceof Uint8Array,
  isAsyncFunction: is("AsyncFunction"), isGeneratorFunction: is("GeneratorFunction"), isGeneratorObject: is("Generator"), isArgumentsObject: is("Arguments"),
  isBoxedPrimitive: (it) => typeof it === "object" && ["Number", "String", "Boolean", "BigInt", "Symbol"].includes(tag(it)),
  isStringObject: (it) => it instanceof String, isNumberObject: (it) => it instanceof Number, isBooleanObject: (it) => it instanceof Boolean,
  isModuleNamespaceObject: is("Module"),
};
module.exports = {
  inspect, format, promisify, types, equal,
  isDeepStrictEqual: (a, b) => equal(a, b, true),
  callbackify: (fn) => (...args) => {
    const done = args.pop();
    Promise.resolve(fn(...args)).then((value) => done(null, value), (error) => done(error ?? new Error("rejected")));
  },
  deprecate: (fn) => fn,
  inherits(child, parent) {
    Object.defineProperty(child, "super_", { value: parent, writable: true, configurable: true });
    Object.setPrototypeOf(child.prototype, parent.prototype);
  },
  stripVTControlCharacters: (text) => String(text).replace(/[\u001b\u009b][[\]()#;?]*(?:\d{1,4}(?:;\d{0,4})*)?[\dA-PR-TZcf-nq-uy=><~]/g, ""),
  toUSVString: (text) => String(text).toWellFormed(),
  isArray: Array.isArray,
  get TextEncoder() { return require("encoding").TextEncoder; },
  get TextDecoder() { return require("encoding").TextDecoder; },
};
