// Compares the page of KindLM with those of promptfoo and Playwright in the same browser. It is not part of CI.
//
//   KINDLM_PAGES=/tmp/pages cargo nextest run -p kindlm-reporters -E 'test(writes_pages)' --run-ignored all
//   node peers.mjs <folder with node_modules> /tmp/pages
//   KINDLM_PAGES=/tmp/pages node bench.mjs [huge|wide]   (after `npm ci` in tests/browser)
//
// Each number is the best of three. A page that is missing is left out.
import { existsSync, statSync } from 'node:fs';
import { KINDLM, measure } from '../../tests/browser/budgets.mjs';
import { browser, folder } from '../../tests/browser/support.mjs';

const PEERS = {
  'KindLM': ['', KINDLM],
  // The page is a table without a filter.
  'promptfoo': ['promptfoo-', { row: 'table tbody tr' }],
  // Its filter is not measured.
  'Playwright': ['playwright-', { row: '.test-file-test' }],
};

const only = process.argv[2];
for (const [pages, title] of [['huge', '10,000 cases of 1.5 KB'], ['wide', '600 tests on 5 models, 1.5 KB each']]) {
  if (only && only !== pages) continue;
  console.log(`\n| ${title} | file | ready | ready, 4× slower | elements | filter | scroll p95 |\n|---|--:|--:|--:|--:|--:|--:|`);
  for (const [name, [prefix, parts]] of Object.entries(PEERS)) {
    const file = `${folder}/${prefix}${pages}.html`;
    if (!existsSync(file)) continue;
    const all = [];
    let slow = Infinity;
    try {
      for (let i = 0; i < 3; i++) all.push(await measure(file, parts));
      slow = (await measure(file, parts, 4)).ready;
    } catch (err) {
      console.error(`${name}: ${err.message.split('\n')[0]}`);
    }
    const best = (key) => (all[0]?.[key] == null ? '–' : Math.min(...all.map((it) => it[key])).toLocaleString('en'));
    const time = (key) => best(key) + (best(key) === '–' ? '' : ' ms');
    const size = (statSync(file).size / 1e6).toFixed(2);
    console.log(`| ${name} | ${size} MB | ${time('ready')} | ${Number.isFinite(slow) ? `${slow.toLocaleString('en')} ms` : '–'} | ${best('elements')} | ${time('filter')} | ${time('scroll')} |`);
  }
}
await browser.close();
