// Packs the npm packages from the archives of a release:
//
//   node build.mjs ARCHIVES OUT [--only TARGET]
//
// ARCHIVES is the folder with `kindlm-cli-TARGET.tar.gz` and its `.sha256`. OUT receives one tarball for each platform,
// and the tarball of `kindlm`, which depends on them. `--only` packs one platform, for tests.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const root = resolve(here, "../..");

const PLATFORMS = {
  "aarch64-apple-darwin": { os: "darwin", cpu: "arm64" },
  "aarch64-unknown-linux-gnu": { os: "linux", cpu: "arm64", libc: "glibc" },
  "aarch64-unknown-linux-musl": { os: "linux", cpu: "arm64", libc: "musl" },
  "x86_64-apple-darwin": { os: "darwin", cpu: "x64" },
  "x86_64-pc-windows-msvc": { os: "win32", cpu: "x64" },
  "x86_64-unknown-linux-gnu": { os: "linux", cpu: "x64", libc: "glibc" },
  "x86_64-unknown-linux-musl": { os: "linux", cpu: "x64", libc: "musl" },
};
const LIBC = { glibc: "-gnu", musl: "-musl" };

const [archives, out, ...rest] = process.argv.slice(2);
const only = rest[0] === "--only" ? rest[1] : undefined;
if (!archives || !out || (rest.length > 0 && !PLATFORMS[only])) {
  console.error("usage: node build.mjs ARCHIVES OUT [--only TARGET]");
  process.exit(2);
}

const version = readFileSync(join(root, "Cargo.toml"), "utf8").match(/^version = "(.*)"$/m)[1];
const common = {
  version,
  license: "MIT OR Apache-2.0",
  homepage: "https://github.com/kindlm/kindlm",
  repository: { type: "git", url: "git+https://github.com/kindlm/kindlm.git" },
};
const packageName = ({ os, cpu, libc }) => `@kindlm/cli-${os}-${cpu}${LIBC[libc] ?? ""}`;

/** Checks the digest of an archive, unpacks it into `folder`, and returns the path of the binary. */
function unpack(target, windows, folder) {
  const name = `kindlm-cli-${target}`;
  const archive = resolve(archives, windows ? `${name}.zip` : `${name}.tar.gz`);
  const expected = readFileSync(`${archive}.sha256`, "utf8").split(/\s/)[0];
  const found = createHash("sha256").update(readFileSync(archive)).digest("hex");
  if (found !== expected) throw new Error(`wrong checksum of ${archive}: expected ${expected}, got ${found}`);
  if (windows) execFileSync("unzip", ["-q", archive, "-d", folder]);
  else execFileSync("tar", ["-xzf", archive, "-C", folder]);
  const binary = windows ? "kindlm.exe" : "kindlm";
  // A tar archive of dist has a folder, a zip archive has none.
  const paths = [join(folder, name, binary), join(folder, binary)];
  const path = paths.find((it) => existsSync(it));
  if (!path) throw new Error(`no ${binary} in ${archive}`);
  return path;
}

/** Writes `package.json` and the licences into `folder`, and packs it. */
function pack(folder, manifest) {
  for (const file of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(join(root, file), join(folder, file));
  copyFileSync(join(here, "README.md"), join(folder, "README.md"));
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ ...manifest, ...common }, null, 2)}\n`);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", resolve(out)], {
    cwd: folder,
    stdio: ["ignore", "inherit", "inherit"],
    shell: process.platform === "win32",
  });
}

mkdirSync(out, { recursive: true });
const work = mkdtempSync(join(tmpdir(), "kindlm-npm-"));
try {
  for (const [target, platform] of Object.entries(PLATFORMS)) {
    if (only && target !== only) continue;
    const { os, cpu, libc } = platform;
    const [unpacked, folder] = [join(work, target), join(work, `${target}-package`)];
    mkdirSync(unpacked);
    mkdirSync(folder);
    const file = os === "win32" ? "kindlm.exe" : "kindlm";
    copyFileSync(unpack(target, os === "win32", unpacked), join(folder, file));
    chmodSync(join(folder, file), 0o755);
    pack(folder, {
      name: packageName(platform),
      description: `The binary of kindlm for ${target}`,
      os: [os],
      cpu: [cpu],
      ...(libc && { libc: [libc] }),
      preferUnplugged: true,
      files: [file, "LICENSE-*"],
    });
  }
  const folder = join(work, "kindlm");
  mkdirSync(folder);
  copyFileSync(join(here, "kindlm.js"), join(folder, "kindlm.js"));
  pack(folder, {
    name: "kindlm",
    description: "Tests for prompts and AI agents",
    keywords: ["llm", "agents", "testing", "evaluation"],
    bin: { kindlm: "kindlm.js" },
    files: ["kindlm.js", "LICENSE-*"],
    engines: { node: ">=18" },
    // npm installs those for this platform only: `os`, `cpu` and `libc` of each say which.
    optionalDependencies: Object.fromEntries(Object.values(PLATFORMS).map((it) => [packageName(it), version])),
  });
} finally {
  rmSync(work, { recursive: true });
}
