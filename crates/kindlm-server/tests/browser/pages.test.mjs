// Tests of the pages in headless Chromium. `KINDLM_SERVER` is a server without tokens that has suites and samples,
// `KINDLM_CLOSED_SERVER` one whose token is `KINDLM_TOKEN`. `KINDLM_BUILDER` is the other site that may show the
// panel, and `KINDLM_MODEL` the address of the model of the suite `held.kindlm.yaml`. With `KINDLM_SHOTS`, pictures are
// written into this folder.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { chromium } from 'playwright-core';

const { KINDLM_SERVER: home, KINDLM_CLOSED_SERVER: closed, KINDLM_TOKEN: token, KINDLM_BUILDER: builder, KINDLM_MODEL: model, KINDLM_SHOTS: shots } = process.env;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** Opens a page. What it logs, violates, or requests from elsewhere than `origin` is collected in `page.trouble`. */
const open = async (path, options = {}, origin = home, others = []) => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  page.trouble = [];
  page.on('request', (it) => [origin, ...others].some((known) => it.url().startsWith(`${known}/`)) || page.trouble.push(`request ${it.url()}`));
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

/** Serves the example of an agent builder, which uses this server. */
const serve = async (origin) => {
  const types = { html: 'text/html', js: 'text/javascript' };
  const site = createServer((request, response) => {
    const name = request.url === '/' ? 'index.html' : request.url.slice(1);
    if (!['index.html', 'builder.js'].includes(name)) return response.writeHead(204).end();
    const text = readFileSync(new URL(`../../examples/agent-builder/${name}`, import.meta.url), 'utf8');
    response.writeHead(200, { 'content-type': types[name.split('.').pop()] }).end(text.replace('http://127.0.0.1:8477', home));
  });
  await new Promise((done) => site.listen(new URL(origin).port, '127.0.0.1', done));
  return { close: () => (site.closeAllConnections(), site.close()) };
};

/** The walk of a newcomer, with or without a script. Returns the path of the run. */
const walk = async (options, set) => {
  const page = await open('/', options);
  await shot(page, `1-playground-${set}`);
  await page.getByRole('button', { name: 'Evaluate' }).click();
  const first = await page.locator('.verdict .line').textContent();
  assert.match(first, /✓ passed/, first);
  await shot(page, `2-evaluated-${set}`);

  // Break a rule, and see which one fell.
  await page.getByLabel('Rules').fill('The answer names the amount.\nThe answer is polite.');
  await page.getByRole('button', { name: 'Evaluate' }).click();
  await page.locator('.result', { hasText: 'It says sorry.' }).waitFor();
  assert.equal(await page.locator('.result.tone-bad').count(), 0);
  await page.getByLabel('Rules').fill('The answer names the amount.\nThe answer offers a voucher.');
  await page.getByRole('button', { name: 'Evaluate' }).click();
  await page.locator('.result.tone-bad').waitFor();
  assert.match(await page.locator('.result.tone-bad').textContent(), /the_answer_offers_a_voucher.*It has no voucher/s);
  await shot(page, `3-rule-${set}`);
  await page.getByLabel('Rules').fill('');
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
  for (const part of ['✗ failed', '1 of 2 cases held', 'greets', 'strict.kindlm.yaml:10', 'violated']) assert.ok(text.includes(part), `${part}: ${text}`);
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

  async 'the page of a run follows it'() {
    // The model answers when the test says so.
    const waiting = [];
    const held = createServer((request, response) => (request.resume(), waiting.push(response)));
    await new Promise((done) => held.listen(new URL(model).port, '127.0.0.1', done));
    const answer = (response) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({
      id: '1', object: 'chat.completion', model: 'm', usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
      choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'we refund you' } }],
    }));
    const page = await open('/runs');
    await page.getByLabel('Suite').selectOption('held.kindlm.yaml');
    await page.getByRole('button', { name: 'Start' }).click();
    await page.getByText('0 of 2 executions ended').waitFor();
    assert.deepEqual(await violations(page), []);
    await shot(page, '6-live');
    await page.evaluate(() => (window.isFirst = true));
    while (!waiting.length) await new Promise(setImmediate);
    answer(waiting.shift());
    await page.getByText('1 of 2 executions ended').waitFor();
    while (!waiting.length) await new Promise(setImmediate);
    answer(waiting.shift());
    await page.locator('.verdict[data-over]').waitFor();
    assert.ok(await page.evaluate(() => window.isFirst), 'the page was loaded again');
    assert.equal(await page.getByRole('button', { name: 'Cancel the run' }).count(), 0);
    assert.match(await page.locator('#live').textContent(), /1 of 2 cases held.*greets/s);

    await page.goto(`${home}/runs`);
    await page.getByLabel('Suite').selectOption('held.kindlm.yaml');
    await page.getByRole('button', { name: 'Start' }).click();
    // The first cancellation lets running executions end, and the second one aborts them.
    await page.getByRole('button', { name: 'Cancel the run' }).click();
    await page.getByRole('button', { name: 'Cancel the run' }).click();
    await page.locator('.word', { hasText: '! cancelled' }).waitFor();
    assert.deepEqual(page.trouble, []);
    held.closeAllConnections();
    held.close();
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

  async 'a builder on another origin shows the panel'() {
    const rules = ['The answer names the amount.', 'The answer is polite.'].map((it) => ({ id: it.toLowerCase().replace('.', '').replaceAll(' ', '_'), instruction: it, criteria: [it] }));
    const stored = await fetch(`${home}/v1/assertion-sets/support`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ assertions: rules }) });
    assert.ok(stored.ok, await stored.text());
    const site = await serve(builder);
    const page = await open('/', {}, builder, [home]);
    const panel = page.frameLocator('iframe');
    await panel.getByLabel('Rule the_answer_is_polite').waitFor();
    await page.getByRole('button', { name: 'Check the answer' }).click();
    await page.getByText('2 of 2 rules passed.').waitFor();
    await panel.getByText('It says sorry.').waitFor();
    await shot(page, '8-panel');
    // The product manager's loop: edit a rule, see the verdict.
    const start = Date.now();
    await panel.getByLabel('Rule the_answer_is_polite').fill('The answer includes a coupon.');
    await panel.getByRole('button', { name: 'Evaluate again' }).click();
    await page.getByText('1 of 2 rules passed.').waitFor();
    console.log(`edit to verdict: ${Date.now() - start} ms`);
    await panel.getByText('It has no coupon.').waitFor();
    await shot(page, '9-panel-edited');
    await panel.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByText(/^Version \d+ of the rules is saved/).waitFor();
    const set = await (await fetch(`${home}/v1/assertion-sets/support`)).json();
    assert.equal(set.content.assertions[1].criteria[0], 'The answer includes a coupon.');
    // Messages of unknown types, and with a wrong target, change nothing.
    await page.evaluate((home) => {
      const frame = document.querySelector('iframe').contentWindow;
      for (const type of ['kindlm:nothing', 'constructor', 'toString']) frame.postMessage({ type }, home);
      frame.postMessage('kindlm:init', home);
    }, home);
    assert.deepEqual(page.trouble, []);
    const frame = page.frames().find((it) => it.url().startsWith(home));
    assert.deepEqual(await violations(frame), []);
    site.close();
  },

  async 'the panel needs rules and forgets the set before'() {
    const rules = ['The answer names the amount.', 'The answer is polite.'].map((it) => ({ id: it.toLowerCase().replace('.', '').replaceAll(' ', '_'), instruction: it, criteria: [it] }));
    const content = { assertions: rules, expect: { output: { maxLength: 1 } } };
    const stored = await fetch(`${home}/v1/assertion-sets/short`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(content) });
    assert.ok(stored.ok, await stored.text());
    const site = await serve(builder);
    const page = await open('/', {}, builder, [home]);
    /** Sets the panel up, evaluates an output, and returns the answer to the evaluation. */
    const answer = (id, settings) => page.evaluate(([id, settings]) => new Promise((done) => {
      const panel = document.querySelector('kindlm-panel');
      for (const type of ['kindlm:result', 'kindlm:error']) panel.addEventListener(type, ({ detail }) => detail.id === id && done(detail));
      panel.init(settings);
      panel.evaluate({ id, agent_input: 'x', agent_output: 'y y' });
    }), [id, settings]);
    const unknown = await answer('1', { set: 'unknown' });
    assert.deepEqual([unknown.type, unknown.problem], ['kindlm:error', 'urn:kindlm:problem:no-checks']);
    const short = await answer('2', { set: 'short' });
    assert.deepEqual([short.type, short.outcome, short.passed, short.total], ['kindlm:result', 'failed', 2, 3]);
    const own = await answer('3', { assertions: rules });
    assert.deepEqual([own.type, own.outcome, own.passed, own.total], ['kindlm:result', 'passed', 2, 2]);
    site.close();
  },

  async 'a wrong origin gets no panel'() {
    // The same files on another host name: another origin.
    const wrong = builder.replace('localhost', '127.0.0.1');
    const site = await serve(builder);
    const page = await open('/', {}, wrong, [home]);
    await page.getByRole('button', { name: 'Check the answer' }).click();
    assert.equal((await fetch(`${home}/embed/panel?origin=${wrong}`)).status, 403);
    // The browser refuses a frame that names the permitted origin, because the page around it has another one.
    const refused = page.waitForEvent('console', (it) => it.text().includes(`frame-ancestors ${builder}`));
    await page.evaluate((src) => Object.assign(document.querySelector('iframe'), { src }), `${home}/embed/panel?origin=${builder}`);
    await refused;
    const frames = page.frames().filter((it) => it !== page.mainFrame());
    for (const it of frames) assert.equal(await it.locator('#panel').count(), 0);
    assert.equal(await page.locator('#verdict').textContent(), 'Checking …');
    site.close();
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
