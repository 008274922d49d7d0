// The browser, the pages and the runner of the tests.
//
// `KINDLM_PAGES` is the folder of the pages that the Rust test `pages::writes_pages` wrote; `CHROMIUM` is the browser.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

export const folder = process.env.KINDLM_PAGES ?? '/tmp/pages';
export const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
export const url = (name, hash = '') => pathToFileURL(`${folder}/${name}.html`).href + hash;

/** Opens a blank page. What it logs, violates, or requests from elsewhere than `home` is collected in `page.trouble`. */
export const blank = async (options = {}, home = /^(file|about):/) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.trouble = [];
  page.on('request', (it) => home.test(it.url()) || page.trouble.push(`request ${it.url()}`));
  page.on('console', (it) => page.trouble.push(`console ${it.text()}`));
  page.on('pageerror', (it) => page.trouble.push(`error ${it.message}`));
  page.on('dialog', (it) => (page.trouble.push(`dialog ${it.message()}`), it.dismiss()));
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (it) => console.log('violation', it.violatedDirective)));
  return page;
};
/** Opens a report. */
export const open = async (name, hash = '', options = {}) => {
  const page = await blank(options);
  await page.goto(url(name, hash));
  if (options.javaScriptEnabled !== false) await page.waitForSelector('html[data-ready]', { state: 'attached' });
  if (hash.includes('case=')) await page.waitForSelector('#detail .timeline');
  return page;
};
/** Returns the violations of WCAG 2.2 AA and of good practice. */
export const violations = async (page) => {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations, incomplete } = await axe.run(document, { resultTypes: ['violations', 'incomplete'] });
    const words = (it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`;
    // Reviewed by hand: axe cannot decide the contrast of texts in some virtual rows, and takes signs such as `✓` for
    // words that the label must repeat.
    const reviewed = ['color-contrast', 'label-content-name-mismatch'];
    return [...violations.map(words), ...incomplete.filter((it) => !reviewed.includes(it.id)).map((it) => 'undecided ' + words(it))];
  });
};

/** Runs the tests whose names contain the first argument, one after the other, and ends the process. */
export const run = async (tests) => {
  let failed = 0;
  const wanted = process.argv[2] ?? '';
  for (const [name, test] of Object.entries(tests).filter(([name]) => name.includes(wanted))) {
    const start = Date.now();
    try {
      await test();
      console.log(`ok ${name} (${Date.now() - start} ms)`);
    } catch (err) {
      failed++;
      console.log(`FAILED ${name}\n${err.stack}`);
    }
    for (const it of browser.contexts()) await it.close();
  }
  await browser.close();
  process.exit(failed ? 1 : 0);
};
