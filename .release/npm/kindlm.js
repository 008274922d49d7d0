#!/usr/bin/env node
// Starts the binary of the package for this platform. npm installs that package as an optional dependency.
"use strict";

const { spawn } = require("node:child_process");

// A musl system has no glibc version. On glibc, the static musl binary works too.
const glibc = process.platform === "linux" && process.report.getReport().header.glibcVersionRuntime;
const suffixes = process.platform !== "linux" ? [""] : glibc ? ["-gnu", "-musl"] : ["-musl"];
const file = process.platform === "win32" ? "kindlm.exe" : "kindlm";
const names = suffixes.map((suffix) => `@kindlm/cli-${process.platform}-${process.arch}${suffix}`);

function findBinary() {
  for (const name of names) {
    try {
      return require.resolve(`${name}/${file}`);
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
    }
  }
  console.error(`kindlm: the package ${names.join(" or ")} is not installed`);
  console.error("help: install without `--omit=optional`, or see https://github.com/kindlm/kindlm/releases");
  process.exit(2);
}

const child = spawn(findBinary(), process.argv.slice(2), { stdio: "inherit" });
// The terminal sends SIGINT to both processes. If it were forwarded too, one Ctrl-C would count as two.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`kindlm: cannot start the binary: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
