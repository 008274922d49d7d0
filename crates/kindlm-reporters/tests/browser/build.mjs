// Makes `app.min.js` of `app.js`. The first line names the source by its digest, which a Rust test compares.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { transformSync } from 'esbuild';

const folder = new URL('../../src/html/', import.meta.url);
export const build = () => {
  const source = readFileSync(new URL('app.js', folder));
  const digest = createHash('sha256').update(source).digest('hex');
  const { code } = transformSync(source.toString(), { minify: true, format: 'esm', target: 'es2022', charset: 'utf8', legalComments: 'none' });
  return `/* app.js ${digest} */\n${code}`;
};
if (process.argv[1] === new URL(import.meta.url).pathname) {
  const script = build();
  writeFileSync(new URL('app.min.js', folder), script);
  console.log(`app.min.js: ${Buffer.byteLength(script)} bytes`);
}
