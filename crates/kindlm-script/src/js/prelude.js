// The globals of Node that the engine does not have. This code runs once, before any script. The globals are a
// part of the state in which every call begins.
(function (native) {
  "use strict";
  const global = globalThis;
  const { stringify, parse } = JSON;
  const { freeze, defineProperty } = Object;
  const own = (object, name, value) =>
    defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false });

  // Built-in modules are compiled on first use.
  const builtins = new Map();
  function builtin(name) {
    let module = builtins.get(name);
    if (module === undefined) {
      const load = native.builtin(name);
      if (load === undefined) return undefined;
      module = { exports: {} };
      builtins.set(name, module);
      load(module, module.exports, builtin, native);
    }
    return module.exports;
  }
  for (const [module, names] of [
    ["url", ["URL", "URLSearchParams"]],
    ["buffer", ["Buffer", "atob", "btoa"]],
    ["encoding", ["TextEncoder", "TextDecoder"]],
    ["clone", ["structuredClone"]],
    ["web", ["fetch", "Headers", "Request", "Response", "AbortController", "AbortSignal", "Event", "EventTarget", "performance"]],
    ["crypto", ["crypto"]],
  ]) {
    for (const name of names) {
      defineProperty(global, name, {
        configurable: true,
        enumerable: false,
        get() {
          const value = name === "crypto" ? builtin(module).webcrypto : builtin(module)[name];
          own(global, name, value);
          return value;
        },
        set(value) {
          own(global, name, value);
        },
      });
    }
  }
  own(global, "global", global);

  // console
  const text = (values) => {
    if (values.length === 1 && typeof values[0] === "string") return values[0];
    return builtin("util").format(...values);
  };
  const groups = [];
  const counts = new Map();
  const timersOf = new Map();
  const log = (...values) => native.log(groups.join("") + text(values));
  const console = { log };
  for (const name of ["info", "debug", "warn", "error"]) console[name] = log;
  console.trace = (...values) => log(`Trace: ${text(values)}`);
  console.dir = (value) => log(builtin("util").inspect(value));
  console.table = (value) => log(builtin("util").inspect(value));
  console.assert = (held, ...values) => {
    if (!held) log(...(values.length ? ["Assertion failed:", ...values] : ["Assertion failed"]));
  };
  console.group = (...values) => {
    if (values.length) log(...values);
    groups.push("  ");
  };
  console.groupCollapsed = console.group;
  console.groupEnd = () => void groups.pop();
  console.count = (label = "default") => {
    counts.set(label, (counts.get(label) ?? 0) + 1);
    log(`${label}: ${counts.get(label)}`);
  };
  console.countReset = (label = "default") => void counts.delete(label);
  console.time = (label = "default") => void timersOf.set(label, native.now());
  console.timeEnd = console.timeLog = (label = "default") => {
    if (timersOf.has(label)) log(`${label}: ${(native.now() - timersOf.get(label)).toFixed(3)}ms`);
  };
  own(global, "console", console);

  // The timers, sorted by their due time.
  class Timeout {
    constructor(fn, delay, args, repeat) {
      if (typeof fn !== "function") {
        throw new TypeError('The "callback" argument must be of type function.');
      }
      this.delay = Math.max(1, Math.trunc(Number(delay)) || 1);
      Object.assign(this, { fn, args, repeat, due: 0 });
    }
    ref() { return this; }
    unref() { return this; }
    hasRef() { return true; }
    refresh() { clear(this); start(this); return this; }
    close() { clear(this); return this; }
    [Symbol.toPrimitive]() { return this.id; }
  }
  let timers = [];
  let lastId = 0;
  function start(timer) {
    timer.id ??= ++lastId;
    timer.due = native.now() + timer.delay;
    let at = timers.length;
    while (at > 0 && timers[at - 1].due > timer.due) at--;
    timers.splice(at, 0, timer);
    return timer;
  }
  function clear(timer) {
    const id = typeof timer === "object" && timer !== null ? timer.id : Number(timer);
    const at = timers.findIndex((it) => it.id === id);
    if (at >= 0) timers.splice(at, 1);
    if (timer instanceof Timeout) timer.repeat = false;
  }
  own(global, "setTimeout", (fn, delay, ...args) => start(new Timeout(fn, delay, args, false)));
  own(global, "setInterval", (fn, delay, ...args) => start(new Timeout(fn, delay, args, true)));
  own(global, "setImmediate", (fn, ...args) => start(new Timeout(fn, 1, args, false)));
  own(global, "clearTimeout", clear);
  own(global, "clearInterval", clear);
  own(global, "clearImmediate", clear);
  const resolved = Promise.resolve();
  const then = Promise.prototype.then;
  own(global, "queueMicrotask", (fn) => {
    if (typeof fn !== "function") {
      throw new TypeError('The "callback" argument must be of type function.');
    }
    Reflect.apply(then, resolved, [() => {
      try {
        fn();
      } catch (error) {
        native.uncaught(error);
      }
    }]);
  });

  Math.random = native.random;

  // process, without privileges
  const refuse = (what) => () => {
    throw Object.assign(new Error(`a script in the sandbox cannot ${what}; \`scripts.runtime: node\` runs it in Node.js, without a sandbox`), { code: "ERR_ACCESS_DENIED" });
  };
  const main = { children: [], paths: [], filename: "", id: ".", loaded: false, exports: {}, require: undefined };
  const process = {
    title: "kindlm", version: "v20.0.0", versions: { node: "20.0.0", quickjs: native.engine },
    platform: native.platform, arch: native.arch, argv: ["kindlm"], execArgv: [], pid: 1, ppid: 0, exitCode: undefined,
    env: {}, release: { name: "node" }, features: {}, mainModule: main,
    cwd: () => native.root(),
    exit: (code) => native.exit(Number(code ?? process.exitCode ?? 0) || 0),
    abort: () => native.exit(134),
    nextTick: (fn, ...args) => queueMicrotask(() => fn(...args)),
    uptime: () => native.now() / 1000,
    hrtime: Object.assign(
      (before) => {
        const now = native.now();
        const time = [Math.floor(now / 1000), Math.round((now % 1000) * 1e6)];
        if (!before) return time;
        const nanos = (time[0] - before[0]) * 1e9 + time[1] - before[1];
        return [Math.floor(nanos / 1e9), nanos % 1e9];
      },
      { bigint: () => BigInt(Math.round(native.now() * 1e6)) },
    ),
    memoryUsage: () => ({ rss: 0, heapTotal: 0, heapUsed: 0, external: 0, arrayBuffers: 0 }),
    emitWarning: (warning) => log(`Warning: ${warning?.message ?? warning}`),
    stdout: { isTTY: false, write: (chunk) => (native.log(String(chunk).replace(/\n$/, "")), true) },
    stderr: { isTTY: false, write: (chunk) => (native.log(String(chunk).replace(/\n$/, "")), true) },
    chdir: refuse("change the working folder"), kill: refuse("end other processes"),
    on: () => process, once: () => process, off: () => process, emit: () => false,
    addListener: () => process, removeListener: () => process, removeAllListeners: () => process,
    binding: refuse("load native code"), dlopen: refuse("load native code"),
  };
  defineProperty(process, Symbol.toStringTag, { value: "process" });
  own(global, "process", process);

  // CommonJS
  const folder = (path) => path.slice(0, Math.max(path.lastIndexOf("/"), 1));
  const modules = new Map();
  const namespaces = new WeakMap();
  function requireFrom(from) {
    function require(specifier) {
      if (typeof specifier !== "string") {
        throw new TypeError(`The "id" argument must be of type string. Received ${typeof specifier}`);
      }
      return load(native.resolve(from, specifier));
    }
    require.resolve = (specifier) => native.resolve(from, String(specifier)).replace(/^node:/, "");
    require.cache = {};
    require.main = main;
    require.extensions = {};
    return require;
  }
  // Loads a resolved file or built-in module.
  function load(path) {
    if (path.startsWith("node:")) return builtin(path.slice(5));
    const known = modules.get(path);
    if (known !== undefined) return known.exports;
    const format = native.format(path);
    if (format === "module") return native.importNow(path);
    const module = {
      id: path, path: folder(path), filename: path, loaded: false, exports: {}, children: [], paths: [],
    };
    modules.set(path, module);
    try {
      if (format === "json") {
        module.exports = json(path);
      } else {
        const require = requireFrom(path);
        module.require = require;
        const run = native.compile(path);
        Reflect.apply(run, module.exports, [module.exports, require, module, path, folder(path)]);
      }
    } catch (error) {
      modules.delete(path);
      throw error;
    }
    module.loaded = true;
    return module.exports;
  }
  function json(path) {
    try {
      return parse(native.source(path));
    } catch (error) {
      // If no memory is left for an error object, the engine throws `null`.
      if (error !== null) error.message = `${path}: ${error.message}`;
      throw error;
    }
  }
  main.require = (specifier) => requireFrom("")(specifier);

  // Selects the function of a file in the same way as promptfoo.
  function pick(exported, name, shown, use) {
    const module = exported?.default?.default ?? exported?.default ?? exported;
    const wrong = (message) => {
      throw Object.assign(new Error(message), { code: "ERR_SCRIPT_EXPORT" });
    };
    const there = (from) => {
      const names = from !== null && (typeof from === "object" || typeof from === "function") ? Object.keys(from) : [];
      return names.length ? `it exports ${names.map((it) => `\`${it}\``).join(", ")}` : "it exports nothing by name";
    };
    let chosen = module;
    if (name !== undefined) {
      chosen = module?.[name];
      if (chosen === undefined) {
        const hidden = module !== exported && exported?.[name] !== undefined && !("__cjs" in exported);
        wrong(hidden
          ? `\`${shown}\` has a default export, which hides its named export \`${name}\`: make \`${name}\` a property of the default export, or remove the default export`
          : `\`${shown}\` exports no function \`${name}\`; ${there(module)}`);
      }
    }
    if (use === "value") return typeof chosen === "function" ? chosen : () => chosen;
    if (use === "provider") {
      // The first argument is for the constructor, the others are for the call. A logger is added to the context.
      const told = ([prompt, context, ...rest]) => [prompt, context && { ...context, logger: globalThis.console }, ...rest];
      if (typeof chosen?.prototype?.callApi === "function") return (options, ...args) => new chosen(options).callApi(...told(args));
      if (typeof chosen?.callApi === "function") return (_, ...args) => chosen.callApi(...told(args));
      if (typeof chosen === "function") return (_, ...args) => chosen(...told(args));
      return wrong(`\`${shown}\` is no provider: it must export a class or an object with \`callApi\`, or a function; ${there(chosen)}`);
    }
    if (typeof chosen === "function") return chosen;
    if (typeof chosen?.default === "function") return chosen.default;
    return wrong(`${shown} must export a function or have a default export as a function; ${there(chosen)}`);
  }

  // Marks numbers that JSON cannot represent.
  const numbers = (_, value) =>
    typeof value === "number" && !Number.isFinite(value) ? { $num: String(value) } : value;

  const show = (value) => {
    try {
      return typeof value === "object" && value !== null && !(value instanceof Error)
        ? builtin("util").inspect(value)
        : String(value);
    } catch {
      return Object.prototype.toString.call(value);
    }
  };

  return freeze({
    // Returns the milliseconds until the next timer; -1 without a timer.
    wait: () => (timers.length === 0 ? -1 : Math.max(0, timers[0].due - native.now())),
    // Runs the next timer.
    fire() {
      const timer = timers.shift();
      if (timer === undefined) return;
      const { fn, args } = timer;
      Reflect.apply(fn, timer, args);
      if (timer.repeat) start(timer);
    },
    begin(env, root) {
      for (const name of Object.keys(env)) process.env[name] = env[name];
      main.filename = `${root}/[kindlm]`;
    },
    // Converts JSON to a context: a mark becomes undefined, and `provider.id` a function that returns the id.
    revive(value) {
      for (const key of ["prompt", "logProbs", "provider"]) {
        if (value[key]?.$undefined === true) value[key] = undefined;
      }
      const id = value?.provider?.id;
      if (typeof id === "object" && id !== null && typeof id.$returns === "string") {
        const returns = id.$returns;
        value.provider.id = () => returns;
      }
      return value;
    },
    global: (name) => global[name],
    numbers,
    text: show,
    describe(error) {
      const object = (typeof error === "object" && error !== null) || typeof error === "function";
      let message, stack = "", code = "", name = "";
      if (object) {
        try {
          const { message: said, stack: frames } = error;
          if (said !== undefined) message = String(said);
          if (typeof error.code === "string") code = error.code;
          name = String(error.name ?? "");
          if (typeof frames === "string") {
            const head = message ? `${name}: ${message}` : name;
            stack = frames.startsWith(name) ? frames : `${head}\n${frames}`;
          }
        } catch {
          // A getter threw, so the error has no more data.
        }
      }
      return [object && message !== undefined ? "1" : "0", message ?? "", stack.trimEnd(), show(error), code, name];
    },
    load: (path) => {
      const exports = load(path);
      return exports;
    },
    entry(path, name, shown, use) {
      // The import of an ES module returns a promise of its namespace.
      if (native.format(path) === "module") {
        return native.import(path).then((namespace) => pick(namespace, name, shown, use));
      }
      return pick({ default: load(path), __cjs: true }, name, shown, use);
    },
    // Returns the value and the export names of a module that is not an ES module, for `import`.
    exportsOf(path) {
      const exports = load(path);
      const names = exports !== null && (typeof exports === "object" || typeof exports === "function")
        ? Object.keys(exports).filter((name) => name !== "default" && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name))
        : [];
      namespaces.set(names, exports);
      return [exports, names];
    },
    settled: (...given) => builtin("web").settled(...given),
  });
})
