// The host reads files in the folders of `scripts.read`. Files cannot be written.
const { Buffer } = require("buffer");
const path = (value) => (typeof value === "string" ? value : value?.protocol === "file:" ? require("url").fileURLToPath(value) : String(value));
const encoding = (options) => (typeof options === "string" ? options : options?.encoding ?? undefined);
const look = (op, file) => native.look(op, path(file));
const fs = {
  readFileSync(file, options) {
    const content = Buffer.from(look("read", file)[1]);
    return encoding(options) ? content.toString(encoding(options)) : content;
  },
  existsSync: (file) => look("stat", file)[0].exists,
  readdirSync(folder, options) {
    const { names } = look("list", folder)[0];
    if (!options?.withFileTypes) return names.map(([name]) => name);
    return names.map(([name, isFolder]) => ({ name, parentPath: path(folder), path: path(folder), isFile: () => !isFolder, isDirectory: () => isFolder, isSymbolicLink: () => false }));
  },
  statSync(file, options) {
    const facts = look("stat", file)[0];
    if (!facts.exists) {
      if (options?.throwIfNoEntry === false) return undefined;
      throw Object.assign(new Error(`ENOENT: no such file or directory, stat '${path(file)}'`), { code: "ENOENT", syscall: "stat", path: path(file) });
    }
    const mtime = new Date(facts.modified_ms);
    return { size: facts.size, mtime, mtimeMs: facts.modified_ms, isFile: () => facts.file, isDirectory: () => facts.folder, isSymbolicLink: () => false };
  },
  accessSync(file) { fs.statSync(file); },
  realpathSync: (file) => require("path").resolve(path(file)),
  constants: { F_OK: 0, R_OK: 4, W_OK: 2, X_OK: 1 },
};
fs.lstatSync = fs.statSync;
fs.promises = {};
for (const name of ["readFile", "readdir", "stat", "lstat", "access", "realpath"]) {
  fs.promises[name] = async (...args) => fs[`${name}Sync`](...args);
  fs[name] = (...args) => {
    const done = args.pop();
    fs.promises[name](...args).then((value) => done(null, value), done);
  };
}
for (const name of ["writeFile", "appendFile", "mkdir", "mkdtemp", "rm", "rmdir", "unlink", "rename", "copyFile", "cp", "chmod", "chown", "symlink", "link", "truncate", "utimes", "open", "opendir"]) {
  const refuse = () => {
    throw Object.assign(new Error(`fs.${name}: a script in the sandbox cannot write files; \`scripts.runtime: node\` runs it in Node.js, without a sandbox`), { code: "EPERM" });
  };
  fs[name] = fs[`${name}Sync`] = refuse;
  fs.promises[name] = async () => refuse();
}
for (const name of ["createReadStream", "createWriteStream", "watch", "watchFile"]) {
  fs[name] = () => {
    throw Object.assign(new Error(`fs.${name} does not exist in the sandbox; \`scripts.runtime: node\` runs the script in Node.js, without a sandbox`), { code: "EPERM" });
  };
}
module.exports = fs;
