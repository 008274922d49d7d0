// Tests of the page of `kindlm view` in headless Chromium. `KINDLM_VIEW` is the link that a server printed, which serves
// the runs of `view/tests.rs` of `kindlm-run`. With `KINDLM_SHOTS`, pictures are written into this folder.
import assert from 'node:assert/strict';
import { blank, run, violations } from './support.mjs';

const link = process.env.KINDLM_VIEW;
const home = new URL(link).origin;
const shots = process.env.KINDLM_SHOTS;

const open = async (options = {}) => {
  const page = await blank(options, new RegExp(`^${home}/`));
  await page.goto(link);
  await page.waitForSelector('html[data-ready]', { state: 'attached' });
  return page;
};
const shot = async (page, name) => shots && page.screenshot({ path: `${shots}/${name}.png`, fullPage: true });
const toCompare = async (page) => {
  await page.click('nav a[href="#compare"]');
  await page.waitForSelector('#compare .changes');
};
const openRow = async (page, name) => {
  const row = page.locator('#compare .change', { hasText: name }).first();
  await row.locator('summary').first().click();
  await row.locator('.sides').waitFor();
  return row;
};

const tests = {
  async 'the walk from the overview to a case'() {
    const page = await open();
    assert.ok(!page.url().includes('token'), page.url());
    assert.match(await page.title(), /^FAILED|^failed|: /i);
    assert.equal(await page.locator('.trend circle').count(), 8);
    await page.getByText('All 8 runs').click();
    assert.equal(await page.locator('#overview tbody').first().locator('tr').count(), 8);

    await toCompare(page);
    assert.match(await page.locator('#compare .verdict').textContent(), /^Not enough data to exclude a regression.*95% interval/);
    const chips = await page.locator('#compare .bar-row .chip').allTextContents();
    assert.deepEqual(chips.map((it) => it.replace(/ \d+$/, '')).sort(), ['Better', 'Changed', 'Gone', 'New', 'Not compared', 'Unchanged', 'Worse']);
    const kinds = await page.locator('#compare .change .pill').allTextContents();
    assert.ok(!kinds.some((it) => it.includes('unchanged')), kinds.join());
    const row = await openRow(page, 'hostile');
    const text = await row.textContent();
    for (const part of ['Before ✓ passed', 'After ✗ failed', '−run 6+run 7', 'Difference of the outputs', '− before  + after', '<img src=x onerror=alert(1)>', '\\x1b']) assert.ok(text.includes(part), `${part}: ${text}`);
    await shot(page, 'compare');
    await row.getByText('All checks of this case').click();
    await page.waitForSelector('#detail .timeline');
    await page.getByText('In the last runs').waitFor();
    assert.equal(await page.locator('#detail .tabs').last().locator('.mini').count(), 7);
    await shot(page, 'case');
    assert.deepEqual(page.trouble, []);
  },

  async 'another run opens and compares'() {
    const page = await open();
    await page.getByText('All 8 runs').click();
    await page.locator('#overview tbody tr').nth(3).locator('th a').click();
    await page.waitForSelector('html[data-ready]', { state: 'attached' });
    const run = new URL(page.url()).searchParams.get('run');
    assert.ok((await page.locator('#run').textContent()).includes(run), run);
    await toCompare(page);
    const options = await page.locator('#base option').allTextContents();
    assert.equal(options.length, 7);
    await page.selectOption('#base', { index: 6 });
    await page.waitForFunction(() => location.hash.includes('base='));
    await page.waitForSelector('#compare .changes');
    // The view is in the URL, so it survives a reload.
    const url = page.url();
    await page.reload();
    await page.waitForSelector('#compare .changes');
    assert.equal(page.url(), url);
    assert.equal(await page.locator('#base').inputValue(), decodeURIComponent(url.split('base=')[1]));
    assert.deepEqual(page.trouble, []);
  },

  async 'a rate just below 1 is not shown as 100%'() {
    const page = await blank({}, new RegExp(`^${home}/`));
    await page.route('**/wire/heads**', async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      for (const [at, it] of json.entries()) Object.assign(it.held, { rate: at ? 0.9996 : 1, low: 0.9, high: 1 });
      await route.fulfill({ response, json });
    });
    await page.goto(link);
    await page.waitForSelector('.trend');
    assert.match(await page.locator('.trend').getAttribute('aria-label'), /: 100%(, 99\.9%){7}$/);
    assert.deepEqual(page.trouble, []);
  },

  async 'without its token the page has no data'() {
    for (const hash of ['', '#token=' + '0'.repeat(64)]) {
      const page = await blank();
      await page.goto(home + '/' + hash);
      await page.getByText('Open the link that').waitFor();
      assert.equal(await page.locator('nav').count(), 0);
      await page.close();
    }
  },

  async 'axe finds nothing'() {
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [1440, 390, 320]) {
        const look = `${colorScheme} ${width}`;
        const page = await open({ colorScheme, viewport: { width, height: 900 } });
        await page.getByText('All 8 runs').click();
        assert.deepEqual(await violations(page), [], `overview ${look}`);
        await shot(page, `overview-${colorScheme}-${width}`);
        await toCompare(page);
        await openRow(page, 'hostile');
        assert.deepEqual(await violations(page), [], `compare ${look}`);
        await shot(page, `compare-${colorScheme}-${width}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${look}: ${wide} px`);
        await page.locator('#compare .change[open]').getByText('All checks').click();
        await page.getByText('In the last runs').waitFor();
        assert.deepEqual(await violations(page), [], `case ${look}`);
        await shot(page, `case-${colorScheme}-${width}`);
        assert.deepEqual(page.trouble, [], look);
        await page.context().close();
      }
    }
  },
};

await run(tests);
