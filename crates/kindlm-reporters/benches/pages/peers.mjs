// Makes the pages of promptfoo and Playwright for `bench.mjs`: the same numbers of cases and bytes as KindLM's pages.
//
//   npm install --ignore-scripts promptfoo @playwright/test      (in a folder of its own)
//   node peers.mjs <that folder> <folder of the pages> [promptfoo|playwright]
//
// promptfoo runs its provider `echo`, and Playwright runs tests that print a text. Failed tests of Playwright each
// start a process, so only 1 % of them fail, instead of 5 %.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const [, , packages, pages, only] = process.argv;
if (!pages) throw new Error('usage: node peers.mjs <folder with node_modules> <folder of the pages>');

const SYLLABLES = 'the re in an der on ate no res tt ive ral ish les eth oan ara sei ero nde'.split(' ');
/** Returns a text of about `size` bytes, made of 2,000 different words. */
const words = (seed, size) => {
  let state = (seed * 2654435761) >>> 0 || 1;
  let text = '';
  while (text.length < size) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const rank = Math.floor(((state % 2000) * ((state >>> 11) % 2000)) / 2000);
    for (let at = 0, word = Math.imul(rank + 1, 40503) >>> 4; at <= rank % 3; at++, word >>>= 5) text += SYLLABLES[word % SYLLABLES.length];
    text += ' ';
  }
  return text;
};

const execute = (folder, program, args, env = {}) => {
  const { status, stderr, stdout, error } = spawnSync(join(packages, 'node_modules/.bin', program), args, { cwd: folder, env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 1 << 28 });
  // Both programs exit with another code than 0 when a test failed.
  if (error || status === null) throw error ?? new Error(stderr);
  console.log(`${program} ${args[0]}: exit code ${status}; ${(stdout + stderr).trim().split('\n').at(-1)?.slice(0, 120)}`);
};

const promptfoo = (name, tests, models) => {
  const folder = join(pages, `promptfoo-${name}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // The output of `echo` is the prompt, so both have half of the bytes.
  const cases = Array.from({ length: tests }, (_, at) => ({ vars: { text: `${at} ${words(at + 1, 750)}` }, assert: [{ type: at % 20 ? 'icontains' : 'equals', value: `${at}` }] }));
  const providers = Array.from({ length: models }, (_, at) => ({ id: 'echo', label: `model-${at}` }));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ prompts: ['{{text}}'], providers, tests: cases }));
  const env = { PROMPTFOO_CONFIG_DIR: join(folder, 'home'), PROMPTFOO_DISABLE_TELEMETRY: '1', PROMPTFOO_DISABLE_UPDATE: '1', PROMPTFOO_CACHE_ENABLED: 'false' };
  execute(folder, 'promptfoo', ['eval', '-c', 'config.json', '-o', `../promptfoo-${name}.html`, '--no-cache', '--no-progress-bar', '--no-table', '-j', '32'], env);
};

const playwright = (name, tests, models) => {
  const folder = join(packages, `playwright-${name}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  // Tests are divided into files, as a person would do it.
  for (let file = 0; file < tests; file += 100) {
    writeFileSync(join(folder, `part-${file}.spec.js`), `const { test, expect } = require('@playwright/test');
const words = ${words.toString()};
const SYLLABLES = ${JSON.stringify(SYLLABLES)};
for (let at = ${file}; at < ${Math.min(file + 100, tests)}; at++) test(at + ' ' + words(at + 1, 24), () => { console.log(words(at + 99, 1500)); expect(at % 100).not.toBe(0); });
`);
  }
  const projects = Array.from({ length: models }, (_, at) => ({ name: `model-${at}` }));
  writeFileSync(join(folder, 'playwright.config.js'), `module.exports = ${JSON.stringify({ testDir: '.', workers: 2, retries: 0, fullyParallel: false, reporter: [['html', { open: 'never', outputFolder: 'page' }]], projects })};`);
  execute(folder, 'playwright', ['test']);
  copyFileSync(join(folder, 'page/index.html'), join(pages, `playwright-${name}.html`));
};

for (const [program, make] of Object.entries({ promptfoo, playwright })) {
  if (only && only !== program) continue;
  make('huge', 10_000, 1);
  make('wide', 600, 5);
}
