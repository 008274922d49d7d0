// Tests of the pages in headless Chromium. `KINDLM_SERVER` is a server without tokens that has suites and samples,
// `KINDLM_CLOSED_SERVER` one whose token is `KINDLM_TOKEN`. With `KINDLM_SHOTS`, pictures are written into this folder.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const { KINDLM_SERVER: home, KINDLM_CLOSED_SERVER: closed, KINDLM_TOKEN: token, KINDLM_SHOTS: shots } = process.env;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Opens a page. What it logs, violates, or requests from elsewhere than `origin` is collected in `page.trouble`. */
const open = async (path, options = {}, origin = home) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.trouble = [];
  page.on('request', (it) => it.url().startsWith(`${origin}/`) || page.trouble.push(`request ${it.url()}`));
  page.on('console', (it) => page.trouble.push(`console ${it.text()}`));
  page.on('pageerror', (it) => page.trouble.push(`error ${it.message}`));
  page.on('dialog', (it) => (page.trouble.push(`dialog ${it.message()}`), it.dismiss()));
  await page.goto(origin + path);
  return page;
};
const shot = async (page, name) => shots && page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
/** Returns the violations of WCAG 2.2 AA and of good practice. */
const violations = async (page) => {
  await page.evaluate(axe);
  return page.evaluate(async () => {
    const { violations } = await axe.run(document, { resultTypes: ['violations'] });
    return violations.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`);
  });
};

/** The walk of a newcomer, with or without a script. Returns the path of the run. */
const walk = async (options, set) => {
  const page = await open('/', options);
  await shot(page, `1-playground-${set}`);
  await page.getByRole('button', { name: 'Evaluate' }).click();
  const first = await page.locator('.verdict .line').textContent();
  assert.match(first, /✓ passed/, first);
  await shot(page, `2-evaluated-${set}`);

  // Break a rule, and see which check fell.
  await page.getByLabel('Checks').fill('output:\n  contains: ["refund", "voucher"]\n');
  await page.getByRole('button', { name: 'Evaluate' }).click();
  const failed = page.locator('.result.tone-bad');
  await failed.first().waitFor();
  assert.equal(await failed.count(), 1);
  assert.match(await failed.textContent(), /voucher/);
  await shot(page, `3-broken-${set}`);

  await page.getByLabel('Name of the set').fill(set);
  await page.getByRole('button', { name: 'Save as set' }).click();
  await page.getByRole('heading', { name: `${set}, version 1` }).waitFor();
  await page.getByLabel('Checks').fill('output:\n  contains: ["refund"]\n  maxLength: 200\n');
  await page.getByRole('button', { name: 'Save as a new version' }).click();
  await page.getByRole('heading', { name: `${set}, version 2` }).waitFor();
  assert.match(await page.locator('.diff').textContent(), /voucher/);
  await page.getByLabel('Agent').fill('shop');
  await page.getByRole('button', { name: 'Try on its last 10 samples' }).click();
  await page.getByText('of the newest 4 samples').waitFor();
  await shot(page, `4-set-${set}`);

  await page.getByRole('link', { name: 'Runs', exact: true }).click();
  await page.getByLabel('Suite').selectOption('team/strict.kindlm.yaml');
  await shot(page, `5-runs-${set}`);
  await page.getByRole('button', { name: 'Start' }).click();
  // With the script the page follows the run, and without it the page reloads.
  await page.locator('.verdict[data-over]').waitFor();
  const run = new URL(page.url()).pathname;
  const text = await page.locator('main').textContent();
  for (const part of ['✗ failed', '1 of 2 cases held', 'greets', 'strict.kindlm.yaml:11', 'violated']) assert.ok(text.includes(part), `${part}: ${text}`);
  await shot(page, `6-run-${set}`);
  assert.deepEqual(page.trouble, []);
  return run;
};

const tests = {
  async 'a newcomer checks an output, saves a set and runs a suite'() {
    const run = await walk({}, 'walk');
    const page = await open(run);
    await page.getByRole('link', { name: 'Open the report' }).click();
    await page.waitForSelector('html[data-ready]', { state: 'attached' });
    assert.deepEqual(page.trouble, []);
  },

  async 'the walk needs no script'() {
    await walk({ javaScriptEnabled: false }, 'no-script');
  },

  async 'every page is accessible and fits'() {
    const [run] = (await (await fetch(`${home}/v1/runs`)).json()).items;
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [1280, 360]) {
        for (const path of ['/', '/sets', '/sets/walk', '/runs', `/runs/${run.id}`, '/monitor', '/sets/none']) {
          const page = await open(path, { colorScheme, viewport: { width, height: 900 } });
          const look = `${path} ${colorScheme} ${width}`;
          assert.deepEqual(await violations(page), [], look);
          const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
          assert.ok(over <= 0, `${look}: ${over} px too wide`);
          await shot(page, `page-${path.split('/')[1] || 'home'}${path.split('/').length}-${colorScheme}-${width}`);
          await page.context().close();
        }
      }
    }
  },

  async 'a token opens the pages'() {
    const page = await open('/sets', {}, closed);
    assert.deepEqual(await violations(page), []);
    await shot(page, '7-login');
    await page.getByLabel('Token').fill('kindlm_0_0');
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByText('unknown or revoked').waitFor();
    await page.getByLabel('Token').fill(token);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByRole('heading', { name: 'Assertion sets' }).waitFor();
    assert.equal(await page.evaluate(() => document.cookie), '');
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Token').waitFor();
    await page.goto(`${closed}/sets`);
    await page.getByLabel('Token').waitFor();
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests).filter(([name]) => name.includes(process.argv[2] ?? ''))) {
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
