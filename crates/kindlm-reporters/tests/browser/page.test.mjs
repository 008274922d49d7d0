// Tests of the HTML report in headless Chromium. `KINDLM_PAGES` is the folder of the pages that the Rust test
// `pages::writes_pages` wrote; `CHROMIUM` is the browser.
//
// The budgets asserted here do not depend on the speed of the machine; `bench.mjs` measures times.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { build } from './build.mjs';

const folder = process.env.KINDLM_PAGES ?? '/tmp/pages';
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const url = (name, hash = '') => pathToFileURL(`${folder}/${name}.html`).href + hash;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const REFUND = '#cases&case=refunds%20what%20the%20mug%20cost&model=gpt-4o';

/** Opens a page. Everything that it requests, logs or violates is collected in `page.trouble`. */
const open = async (name, hash = '', options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.trouble = [];
  page.on('request', (it) => it.url().startsWith('file:') || page.trouble.push(`request ${it.url()}`));
  page.on('console', (it) => page.trouble.push(`console ${it.text()}`));
  page.on('pageerror', (it) => page.trouble.push(`error ${it.message}`));
  page.on('dialog', (it) => (page.trouble.push(`dialog ${it.message()}`), it.dismiss()));
  await page.addInitScript(() => addEventListener('securitypolicyviolation', (it) => console.log('violation', it.violatedDirective)));
  await page.goto(url(name, hash));
  if (options.javaScriptEnabled !== false) await page.waitForSelector('html[data-ready]', { state: 'attached' });
  if (hash.includes('case=')) await page.waitForSelector('#detail .timeline');
  return page;
};
const shown = (page) => page.locator('#status').textContent();
/** Opens all folded texts. */
const unfold = (page) => page.evaluate(() => document.querySelectorAll('#detail details').forEach((it) => (it.open = true)));
/** Returns the violations of WCAG 2.2 AA and of good practice. */
const violations = async (page) => {
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

const tests = {
  async 'the minified script is fresh'() {
    assert.equal(readFileSync(new URL('../../src/html/app.min.js', import.meta.url), 'utf8'), build());
  },

  async '10,000 cases stay within the budgets of elements and bytes'() {
    const size = statSync(`${folder}/huge.html`).size;
    assert.ok(size <= 8_000_000, `${size} bytes`);
    const page = await open('huge', '#cases');
    const count = () => page.evaluate(() => document.querySelectorAll('*').length);
    assert.ok((await count()) <= 1500, `${await count()} elements`);
    for (const top of [5000, 180000, 359000]) {
      await page.locator('#port').evaluate((it, top) => (it.scrollTop = top), top);
      await page.waitForTimeout(60);
      assert.ok((await page.locator('.row:visible').count()) <= 60);
      assert.ok((await count()) <= 1500, `${await count()} elements at ${top}`);
    }
    await page.fill('#query', 's:failed !00020');
    assert.match(await shown(page), /^499 of 10,000 tests/);
    await page.keyboard.press('Escape');
    await page.keyboard.press('n');
    await page.waitForSelector('#detail .timeline');
    assert.ok((await count()) <= 1500, `${await count()} elements with a case`);
    assert.deepEqual(page.trouble, []);
  },

  async 'queries find cases'() {
    const page = await open('sample', '#cases');
    for (const [query, tests] of [
      ['', 9], ['refunds', 2], ['"refunds above"', 1], ['/^answers/', 2], ['!answers', 6], ['s:failed', 5], ['s:flaky', 1], ['s:open', 8],
      ['s:different', 3], ['m:gemini s:failed', 1], ['t:privacy', 1], ['code:PII', 1], ['rule:formal', 1], ['tool:issue_refund', 1],
      ['cost>0.01', 2], ['ms<100', 2], ['turns>1', 1], ['cause:0', 1], ['nothing-like-this', 0],
    ]) {
      await page.fill('#query', query);
      const text = await shown(page);
      assert.ok(text.startsWith(`${tests} of 9 tests`), `${query}: ${text}`);
    }
    await page.fill('#query', 'in:output shipped');
    await page.waitForFunction(() => document.querySelector('#status').textContent === '1 of 9 tests');
    assert.equal(new URL(page.url()).hash, '#cases&q=in%3Aoutput%20shipped');
    assert.deepEqual(page.trouble, []);
  },

  async 'links open what they name'() {
    const page = await open('rich', `${REFUND}&repeat=3`);
    assert.equal(await page.locator('#detail h2').textContent(), 'refunds what the mug cost');
    assert.match(await page.locator('#detail').textContent(), /repeat 3 of 5; 3 held/);
    await page.goto(url('sample'));
    await page.locator('.cause a').first().click();
    await page.waitForFunction(() => document.querySelector('#status').textContent.startsWith('1 of 9 tests'));
    await page.goBack();
    await page.waitForSelector('#overview', { state: 'visible' });
  },

  async 'a case shows its evidence'() {
    const page = await open('rich', REFUND);
    const text = await page.locator('#detail').textContent();
    for (const part of ["kindlm test --test 'refunds what the mug cost'", '0.57 (wants 0.8)', '1 of 3 pass', 'never notices', 'simulated response', 'system prompt', '✗ expected 24.9', 'REF-777', 'kindlm.yaml:41']) {
      assert.ok(text.includes(part), part);
    }
    assert.equal(await page.locator('.strip circle').count(), 4);
    assert.deepEqual(await page.locator('.assistant mark').allTextContents(), ['refunded 249 EUR', '4242']);
    await page.goto(url('rich', '#cases&case=prints%20the%20exact%20receipt&model=gpt-4o'));
    await page.waitForSelector('.diff');
    assert.deepEqual(await page.locator('.diff mark').allTextContents(), ['90', '80']);
    await page.getByText('8 equal lines').click();
    assert.equal(await page.locator('.diff div').count(), 17);
    assert.deepEqual(page.trouble, []);
  },

  async 'keys walk through the cases'() {
    const page = await open('rich', '#cases');
    const name = () => page.locator('#detail h2').textContent();
    await page.keyboard.press('j');
    await page.waitForSelector('#detail .timeline');
    assert.equal(await name(), 'refunds what the mug cost');
    await page.keyboard.press(']');
    await page.waitForFunction(() => document.querySelector('#detail').textContent.includes('repeat 2 of 5'));
    await page.keyboard.press('m');
    await page.waitForFunction(() => document.querySelector('#detail .tabs [aria-current]').textContent.includes('claude'));
    await page.keyboard.press('n');
    await page.waitForFunction(() => document.querySelector('#detail h2').textContent.startsWith('prints'));
    await page.keyboard.press('Escape');
    await page.waitForSelector('#detail', { state: 'hidden' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'prints the exact receipt');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'query');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    assert.ok(await page.locator('#help').isVisible());
    await page.uncheck('#keys');
    await page.keyboard.press('Escape');
    await page.keyboard.press('j');
    assert.ok(!(await page.locator('#detail').isVisible()));
  },

  async 'hostile texts do nothing'() {
    for (const [hash, selector] of [['', '#overview'], ['#cases', '.row'], ['#run', '#run']]) {
      const page = await open('hostile', hash);
      await page.waitForSelector(selector);
      if (hash === '#cases') {
        for (let i = 0; i < 14; i++) {
          await page.keyboard.press('j');
          await page.waitForTimeout(30);
          await unfold(page);
        }
        assert.ok(await page.locator('#detail .timeline').isVisible());
      }
      assert.deepEqual(page.trouble, [], hash);
      assert.ok(!(await page.title()).startsWith('hit'));
      assert.equal(await page.locator('img, iframe, object').count(), 0);
    }
    const page = await open('hostile', '', { javaScriptEnabled: false });
    assert.deepEqual(page.trouble.filter((it) => !it.includes('Blocked script')), []);
  },

  async 'axe finds nothing'() {
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [1440, 390]) {
        for (const [name, hash] of [['sample', ''], ['sample', '#cases'], ['sample', '#cases&q=m:claude'], ['sample', '#run'], ['rich', REFUND], ['rich', '#cases&case=repairs%20the%20cart'], ['rich', '#cases&case=keeps%20the%20order%20of%20its%20steps'], ['green', ''], ['empty', '']]) {
          const page = await open(name, hash, { colorScheme, viewport: { width, height: 900 } });
          await unfold(page);
          assert.deepEqual(await violations(page), [], `${name}${hash} ${colorScheme} ${width}`);
          await page.context().close();
        }
      }
    }
    const page = await open('sample', '#cases', { forcedColors: 'active' });
    await page.keyboard.press('?');
    assert.deepEqual(await violations(page), []);
  },

  async 'a narrow window needs no sideways scrolling'() {
    // 1280 px at 400 % zoom are 320 px.
    for (const [name, hash] of [['sample', ''], ['sample', '#cases'], ['sample', '#run'], ['rich', REFUND], ['rich', '#cases&case=prints%20the%20exact%20receipt'], ['hostile', ''], ['huge', '#cases']]) {
      const page = await open(name, hash, { viewport: { width: 320, height: 640 } });
      await unfold(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 320, `${name}${hash}: ${wide} px`);
      await page.context().close();
    }
  },

  async 'the page reads without its script'() {
    const page = await open('sample', '', { javaScriptEnabled: false });
    const text = await page.locator('body').innerText();
    for (const part of ['4 of 13 cases held', 'passRateMin', 'What failed, by cause', 'never shows a card number', 'Found 1 PII match(es)', 'Run']) assert.ok(text.includes(part), part);
    assert.ok(!(await page.locator('#query').isVisible()));
  },

  async '25 cases with 2 failures print on 4 pages'() {
    const page = await open('few');
    await page.waitForTimeout(800);
    const pdf = (await page.pdf({ format: 'A4' })).toString('latin1');
    const pages = pdf.match(/\/Type\s*\/Page\b/g).length;
    assert.ok(pages <= 4, `${pages} pages`);
    await page.emulateMedia({ media: 'print' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    const text = await page.locator('#print').innerText();
    assert.equal(await page.locator('#print table').first().locator('tr').count(), 26);
    assert.equal(await page.locator('#print section').count(), 2);
    assert.ok(text.includes('What happened'), text);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
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
