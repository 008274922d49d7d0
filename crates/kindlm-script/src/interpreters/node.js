// A worker that runs scripts in Node.js, without a sandbox. It uses the same frames as the sandbox's worker.
"use strict";
const { Module, createRequire, register } = require("node:module");
const { execFileSync } = require("node:child_process");
const { pathToFileURL } = require("node:url");
const path = require("node:path");
const fs = require("node:fs");
const util = require("node:util");

const LINES = 200, BYTES = 64 * 1024;
const raw = process.stdout.write.bind(process.stdout);
const reallyExit = process.exit.bind(process);
const AsyncFunction = (async () => {}).constructor;
const bodies = new Map();
const baseEnv = { ...process.env };
let root = process.cwd();
let typescript = [];
let current;

function send(header, part) {
  const head = Buffer.from(JSON.stringify(header));
  const size = 4 + head.length + (part ? 4 + part.length : 0);
  const frame = Buffer.alloc(4 + size);
  frame.writeUInt32LE(size, 0);
  frame.writeUInt32LE(head.length, 4);
  head.copy(frame, 8);
  if (part) {
    frame.writeUInt32LE(part.length, 8 + head.length);
    part.copy(frame, 12 + head.length);
  }
  raw(frame);
}

// Adds a line to the console of the current call, up to the limits.
function log(text) {
  if (!current) return;
  const line = text.replace(/\n$/, "");
  if (current.console.length >= LINES || current.room <= 0) return void current.dropped++;
  const bytes = Buffer.byteLength(line);
  current.console.push(bytes <= current.room ? line : `${Buffer.from(line).subarray(0, current.room).toString()}… (${bytes - current.room} bytes more)`);
  current.room -= bytes + 1;
}
for (const name of ["log", "info", "debug", "warn", "error", "trace"]) console[name] = (...values) => log(util.format(...values));
for (const stream of [process.stdout, process.stderr]) {
  stream.write = (chunk, encoding, done) => {
    log(typeof chunk === "string" ? chunk : Buffer.from(chunk).toString());
    (typeof encoding === "function" ? encoding : done)?.();
    return true;
  };
}

function finish(call, ending, part, retire = false) {
  if (call !== current) return;
  current = undefined;
  if (call.dropped) call.console.push(`… (${call.dropped} lines more)`);
  send({ t: "answer", id: call.id, ending, console: call.console, retire }, part);
  process.stdin.ref();
  next();
}
process.exit = (code) => {
  finish(current, { e: "stopped", why: "exited", message: `it called \`process.exit(${code ?? 0})\`: return a result, or throw an error` }, undefined, true);
  reallyExit(0);
};
process.on("uncaughtException", (error) => threw(current, error));
process.on("unhandledRejection", (error) => threw(current, error));
process.on("beforeExit", () => {
  if (!current) return;
  finish(current, { e: "stopped", why: "never_resolved", message: "its promise was never resolved: no timer, request or other work is left that could resolve it" });
});

function threw(call, error, loading = false) {
  if (!call) return;
  const object = (typeof error === "object" && error !== null) || typeof error === "function";
  const message = object && error.message !== undefined ? String(error.message) : null;
  const missing = ["ERR_SCRIPT_TYPESCRIPT", "ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND", "ERR_UNKNOWN_FILE_EXTENSION", "ERR_SCRIPT_EXPORT"].includes(error?.code);
  if (object && (missing || (loading && error instanceof SyntaxError))) {
    const where = error instanceof SyntaxError ? ` (${String(error.stack).split("\n")[0]})` : "";
    return finish(call, { e: "stopped", why: "load", message: `${error instanceof SyntaxError ? "SyntaxError: " : ""}${message}${where}` });
  }
  let thrown;
  try { thrown = object && !(error instanceof Error) ? util.inspect(error) : String(error); } catch { thrown = "something that cannot be described"; }
  finish(call, { e: "threw", message, stack: object && typeof error.stack === "string" ? error.stack : "", thrown });
}

const numbers = (_, value) => (typeof value === "number" && !Number.isFinite(value) ? { $num: String(value) } : value);
function returned(call, value) {
  switch (typeof value) {
    case "undefined": return finish(call, { e: "undefined" });
    case "number": return finish(call, { e: "number", text: Object.is(value, -0) ? "-0" : String(value).replace("Infinity", "inf") });
    case "function": case "symbol": case "bigint":
      return finish(call, { e: "opaque", type_name: typeof value, text: String(value) });
  }
  let text;
  try {
    text = JSON.stringify(value);
    if (text?.includes("null") && typeof value === "object") text = JSON.stringify(value, numbers);
  } catch (error) {
    return threw(call, error);
  }
  if (text === undefined) return finish(call, { e: "undefined" });
  // `new Boolean(true)` and objects with such a `toJSON` are still objects, so they are not verdicts.
  if (typeof value === "object" && value !== null && /^[tf0-9-]/.test(text)) {
    return finish(call, { e: "opaque", type_name: "object", text });
  }
  const part = Buffer.from(text);
  if (part.length > call.most) {
    return finish(call, { e: "stopped", why: "memory", message: `its result is ${part.length >> 20} MiB of JSON; at most ${call.most >> 20} MiB are taken: return less` });
  }
  finish(call, { e: "json" }, part);
}

function revive(value) {
  for (const key of ["prompt", "logProbs", "provider"]) {
    if (value?.[key]?.$undefined === true) value[key] = undefined;
  }
  const returns = value?.provider?.id?.$returns;
  if (typeof returns === "string") value.provider.id = () => returns;
  return value;
}

// TypeScript: the program of the sandbox's workers converts it to JavaScript. No file is written.
const isTypeScript = (file) => /\.[mc]?ts$/i.test(file);
function strip(file, command, run, read) {
  try {
    return run(command[0], [...command.slice(1), file], { input: read(file), encoding: "utf8", maxBuffer: 64 << 20, stdio: "pipe" });
  } catch (error) {
    throw Object.assign(new Error(String(error.stderr || error.message).trim()), { code: "ERR_SCRIPT_TYPESCRIPT" });
  }
}
const isModule = (file, code) => /\.mts$/i.test(file) || /^(import [^(]|export )/m.test(code);
const made = new Map();
function javascript(file) {
  if (!made.has(file)) made.set(file, strip(file, typescript, execFileSync, fs.readFileSync));
  return made.get(file);
}
for (const ending of [".ts", ".cts"]) {
  Module._extensions[ending] = (module, file) => {
    const code = javascript(file);
    if (isModule(file, code)) throw Object.assign(new Error(`\`${file}\` is an ES module, which CommonJS cannot \`require\`: write \`import\` instead`), { code: "ERR_SCRIPT_TYPESCRIPT" });
    module._compile(code, file);
  };
}
// Node runs these hooks for ES modules in a separate thread, so the functions are copied into their source.
const hooks = `
import { existsSync, readFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";
let command;
export async function initialize(data) { command = data; }
${strip}
const isModule = ${isModule};
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!/^[.][.]?[/]/.test(specifier) || !context.parentURL?.startsWith("file:")) throw error;
    const path = fileURLToPath(new URL(specifier, context.parentURL));
    const found = [path.replace(/[.]([mc]?)js$/, ".$1ts"), path + ".ts", path + ".js", path + "/index.ts", path + "/index.js"];
    const there = found.find((it) => it !== path && existsSync(it));
    if (!there) throw error;
    return next(pathToFileURL(there).href, context);
  }
}
export async function load(url, context, next) {
  if (!/^file:.*[.][mc]?ts$/i.test(url)) return next(url, context);
  const file = fileURLToPath(url);
  const source = strip(file, command, execFileSync, readFileSync);
  return { format: isModule(file, source) ? "module" : "commonjs", source, shortCircuit: true };
}
`;
let hooked = false;
function hook() {
  if (hooked) return;
  hooked = true;
  register(`data:text/javascript,${encodeURIComponent(hooks)}`, { data: typescript });
}

async function load(file) {
  if (isTypeScript(file)) {
    if (!fs.existsSync(file)) throw Object.assign(new Error(`Cannot find module '${file}'`), { code: "MODULE_NOT_FOUND" });
    hook();
    if (!isModule(file, javascript(file))) return { default: createRequire(path.join(root, "kindlm"))(file) };
  }
  try {
    return await import(pathToFileURL(file).href);
  } catch (error) {
    // The file is CommonJS, although its package declares ES modules. So it is loaded as CommonJS.
    if (!/(module|exports|require) is not defined/.test(error?.message ?? "")) throw error;
    const module = new Module(file);
    module.filename = file;
    module.paths = Module._nodeModulePaths(path.dirname(file));
    module._compile(fs.readFileSync(file, "utf8"), file);
    return { default: module.exports };
  }
}
function pick(exported, name, shown, use) {
  const module = exported.default?.default || exported.default || exported;
  const chosen = name === null || name === undefined ? module : module[name];
  if (use === "value" && (chosen !== undefined || !name)) return typeof chosen === "function" ? chosen : () => chosen;
  if (use === "provider") {
    const told = ([prompt, context, ...rest]) => [prompt, context && { ...context, logger: console }, ...rest];
    if (typeof chosen?.prototype?.callApi === "function") return (options, ...args) => new chosen(options).callApi(...told(args));
    if (typeof chosen?.callApi === "function") return (_, ...args) => chosen.callApi(...told(args));
    if (typeof chosen === "function") return (_, ...args) => chosen(...told(args));
  }
  if (typeof chosen === "function") return chosen;
  if (typeof chosen?.default === "function") return chosen.default;
  const names = Object.keys(module ?? {}).map((it) => `\`${it}\``).join(", ") || "nothing by name";
  throw Object.assign(
    new Error(name && chosen === undefined ? `\`${shown}\` exports no function \`${name}\`; it exports ${names}` : `${shown} must export a function or have a default export as a function; it exports ${names}`),
    { code: "ERR_SCRIPT_EXPORT" },
  );
}

async function run(call, parts) {
  for (const name of Object.keys(process.env)) if (!(name in baseEnv)) delete process.env[name];
  Object.assign(process.env, call.env);
  let fn, params = [];
  try {
    if (call.what.w === "body") {
      params = call.what.params;
      const code = parts.shift().toString();
      const key = JSON.stringify([params, code]);
      fn = bodies.get(key);
      if (!fn) bodies.set(key, (fn = new AsyncFunction(...params, code)));
    } else {
      fn = pick(await load(path.resolve(root, call.what.path)), call.what.function, call.what.path, call.what.use);
    }
  } catch (error) {
    return threw(call, error, true);
  }
  try {
    const args = parts.map((part) => revive(JSON.parse(part)));
    for (const name of params.slice(args.length)) args.push(globalThis[name]);
    returned(call, await fn(...args));
  } catch (error) {
    threw(call, error);
  }
}

const queue = [];
function next() {
  if (current || !queue.length) return;
  const { header, parts } = queue.shift();
  if (header.t === "hello") {
    root = header.root;
    typescript = header.typescript ?? [];
    if (!process.mainModule) process.mainModule = { require: createRequire(path.join(root, "kindlm")) };
    return next();
  }
  if (header.t !== "call") return next();
  current = Object.assign(header, { console: [], room: BYTES, dropped: 0, most: 16 << 20 });
  // Without stdin, the event loop ends if no timer or other work is left that could resolve the promise.
  process.stdin.unref();
  run(current, parts);
}
let pending = Buffer.alloc(0);
process.stdin.on("data", (chunk) => {
  pending = pending.length ? Buffer.concat([pending, chunk]) : chunk;
  while (pending.length >= 4) {
    const size = pending.readUInt32LE(0);
    if (pending.length < 4 + size) break;
    const frame = pending.subarray(4, 4 + size);
    pending = pending.subarray(4 + size);
    const parts = [];
    for (let at = 0; at < frame.length; ) {
      const length = frame.readUInt32LE(at);
      parts.push(frame.subarray(at + 4, at + 4 + length));
      at += 4 + length;
    }
    queue.push({ header: JSON.parse(parts.shift()), parts });
  }
  next();
});
process.stdin.on("end", () => reallyExit(0));
send({ t: "ready" });
