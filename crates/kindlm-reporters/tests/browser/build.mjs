// Makes `NAME.min.js` of `NAME.js`. The first line names the source by its digest, which a Rust test compares.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { transformSync } from 'esbuild';

const folder = new URL('../../src/html/', import.meta.url);
/** The scripts of the page. Only `app` is a module. */
export const SCRIPTS = ['app', 'more'];
export const build = (name) => {
  const source = readFileSync(new URL(`${name}.js`, folder));
  const digest = createHash('sha256').update(source).digest('hex');
  const { code } = transformSync(source.toString(), { minify: true, format: name === 'app' ? 'esm' : undefined, target: 'es2022', charset: 'utf8', legalComments: 'none' });
  return `/* ${name}.js ${digest} */\n${code}`;
};
if (process.argv[1] === new URL(import.meta.url).pathname) {
  for (const name of SCRIPTS) {
    const script = build(name);
    writeFileSync(new URL(`${name}.min.js`, folder), script);
    console.log(`${name}.min.js: ${Buffer.byteLength(script)} bytes`);
  }
}
