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

/** Opens a page. `page.trouble` collects its console messages, errors, dialogs, and requests to origins other than `origin` and `others`. */
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

/** Makes rules of sentences. */
const rulesOf = (...sentences) => sentences.map((it) => ({ id: it.toLowerCase().replace('.', '').replaceAll(' ', '_'), instruction: it, criteria: [it] }));
const putSet = async (name, content) => {
  const stored = await fetch(`${home}/v1/assertion-sets/${name}`, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: JSON.stringify(content) });
  assert.ok(stored.ok, await stored.text());
};
const storedSet = async (name) => (await fetch(`${home}/v1/assertion-sets/${name}`)).json();
/** Opens the example of a builder. `page.messages` has the messages of the panel. */
const openBuilder = async (options = {}) => {
  // The set that the example names.
  await putSet('support', { assertions: rulesOf('The answer names the amount.', 'The answer is polite.') });
  const site = await serve(builder);
  const page = await open('/', options, builder, [home]);
  await page.evaluate(() => {
    window.messages = [];
    for (const type of ['verdict', 'result', 'error', 'highlight', 'edited']) document.querySelector('kindlm-panel').addEventListener(`kindlm:${type}`, ({ detail }) => window.messages.push(detail));
  });
  /** Sets the panel up if there are settings, evaluates an output, and returns the answer to the evaluation. */
  const answer = (record, settings) => page.evaluate(([record, settings]) => new Promise((done) => {
    const panel = document.querySelector('kindlm-panel');
    for (const type of ['kindlm:result', 'kindlm:error']) panel.addEventListener(type, ({ detail }) => detail.id === record.id && done(detail));
    if (settings) panel.init(settings);
    panel.evaluate({ agent_input: 'x', agent_output: 'y y', ...record });
  }), [record, settings]);
  const messages = (type) => page.evaluate((type) => window.messages.filter((it) => it.type === `kindlm:${type}`), type);
  return { site, page, panel: page.frameLocator('iframe'), answer, messages };
};

/** The walk of a newcomer, with or without a script. Returns the path of the run. */
const walk = async (options, set) => {
  const page = await open('/', options);
  await shot(page, `1-playground-${set}`);
  await page.getByRole('button', { name: 'Evaluate' }).click();
  const first = await page.locator('.verdict .line').textContent();
  assert.match(first, /✓ passed/, first);
  await shot(page, `2-evaluated-${set}`);

  // Evaluate rules that hold, then a rule that is violated. The page must name the violated one.
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
    // The model answers only when the test calls `answer`.
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
    const { site, page, panel } = await openBuilder();
    await panel.getByLabel('Rule the_answer_is_polite').waitFor();
    await page.getByRole('button', { name: 'Check the answer' }).click();
    await page.getByText('2 of 2 rules passed.').waitFor();
    await panel.getByText('It says sorry.').waitFor();
    await shot(page, '8-panel');
    await panel.getByLabel('Rule the_answer_is_polite').fill('The answer includes a coupon.');
    await panel.getByText('The rules have changed since the evaluation.').waitFor();
    await panel.getByRole('button', { name: 'Evaluate again' }).click();
    await page.getByText('1 of 2 rules passed.').waitFor();
    await panel.getByText('It has no coupon.').waitFor();
    await shot(page, '9-panel-edited');
    await panel.getByRole('button', { name: 'Save as a new version' }).click();
    await page.getByText(/^Version \d+ of the rules is saved/).waitFor();
    assert.equal((await storedSet('support')).content.assertions[1].criteria[0], 'The answer includes a coupon.');
    // Messages of unknown types, and with a wrong target, change nothing.
    await page.evaluate((home) => {
      const frame = document.querySelector('iframe').contentWindow;
      for (const type of ['kindlm:nothing', 'constructor', 'toString']) frame.postMessage({ type }, home);
      frame.postMessage('kindlm:init', home);
    }, home);
    assert.deepEqual(page.trouble, []);
    site.close();
  },

  async 'the panel edits rules and their criteria'() {
    const rules = [
      { id: 'sources', instruction: 'Cite sources.', criteria: ['Does it cite sources?', 'Are they right?'], weight: 2 },
      ...rulesOf('The answer is polite.'),
    ];
    await putSet('criteria', { assertions: rules, threshold: 0.9 });
    const { site, page, panel, answer } = await openBuilder();
    await answer({ id: '1' }, { set: 'criteria', locale: 'de' });
    assert.equal(await panel.getByLabel('Criteria of sources').inputValue(), 'Does it cite sources?\nAre they right?');
    await panel.getByText(/weight 2 · \d+(,\d)? s/).waitFor();
    // Criteria that repeat the words are hidden until they are needed.
    assert.ok(await panel.getByLabel('Criteria of the_answer_is_polite').isHidden());
    await panel.getByRole('button', { name: 'Write criteria' }).nth(0).click();
    await panel.getByLabel('Criteria of the_answer_is_polite').fill('Does it say please?\n\nDoes it say thanks?');

    // After a change of the words, a hint says that the criteria are still the old ones.
    const hint = panel.getByText('The criteria have not changed.').nth(0);
    assert.ok(await hint.isHidden());
    await panel.getByLabel('Rule sources').fill('Never cite sources.');
    await hint.waitFor();
    await panel.getByLabel('Criteria of sources').fill('Is it free of sources?');
    assert.ok(await hint.isHidden());
    assert.match(await panel.locator('.diff').nth(0).textContent(), /−Cite sources\..*−Are they right\?.*\+Never cite sources\..*\+Is it free of sources\?/);
    await shot(page, '10-panel-criteria');

    await panel.getByRole('button', { name: 'Add a rule' }).click();
    await panel.getByLabel('Rule without an id').fill('The answer is polite!');
    await panel.getByRole('button', { name: 'Add a rule' }).click();
    await panel.getByRole('button', { name: 'Evaluate again' }).click();
    await panel.getByText(/3 of 3 passed/).waitFor();
    const { digest } = await storedSet('criteria');
    const put = page.waitForRequest((it) => it.method() === 'PUT');
    await panel.getByRole('button', { name: 'Save as a new version' }).click();
    assert.equal((await put).headers()['if-match'], `"${digest}"`);
    await panel.getByText('Saved as version').waitFor();
    const { content, version } = await storedSet('criteria');
    assert.deepEqual(content, {
      assertions: [
        { id: 'sources', instruction: 'Never cite sources.', criteria: ['Is it free of sources?'], weight: 2 },
        { id: 'the_answer_is_polite', instruction: 'The answer is polite.', criteria: ['Does it say please?', 'Does it say thanks?'] },
        { id: 'the_answer_is_polite_2', instruction: 'The answer is polite!', criteria: ['The answer is polite!'] },
      ],
      threshold: 0.9,
    });
    assert.equal(await panel.locator('.tag:visible').count(), 1, 'only the rule without words is not saved');
    for (const it of [3, 2, 0]) await panel.getByRole('button', { name: 'Remove' }).nth(it).click();
    await panel.getByRole('button', { name: 'Save as a new version' }).click();
    await panel.getByText(`Saved as version ${version + 1}.`).waitFor();
    assert.deepEqual((await storedSet('criteria')).content.assertions.map((it) => it.id), ['the_answer_is_polite']);
    assert.deepEqual(page.trouble, []);
    const frame = page.frames().find((it) => it.url().startsWith(home));
    assert.deepEqual(await violations(frame), []);
    site.close();
  },

  async 'every result has a card, and rule checks come before the judge'() {
    await putSet('mixed', { assertions: rulesOf('The answer names the amount.'), expect: { output: { contains: ['refund'], maxLength: 10 } } });
    const { site, page, panel, answer, messages } = await openBuilder();
    const record = { id: '1', agent_input: 'the slow agent', agent_output: 'A refund of 24.90 EUR, that is "24.90 EUR".' };
    await page.getByLabel('Answer of the agent').fill(record.agent_output);
    const result = await answer(record, { set: 'mixed' });
    assert.deepEqual([result.outcome, result.passed, result.failed, result.total], ['failed', 2, 1, 3]);
    const verdicts = await messages('verdict');
    // The judged rule is the first of the record, and the last one that is decided.
    assert.deepEqual(verdicts.map((it) => it.status), ['passed', 'failed', 'passed']);
    assert.equal(verdicts[2].assertion, 'the_answer_names_the_amount');
    assert.ok(verdicts[2].ms >= 1000 && verdicts[1].ms < verdicts[2].ms, JSON.stringify(verdicts));
    assert.deepEqual(verdicts[2].quotes, ['24.90 EUR']);
    assert.equal(await panel.locator('.result').count(), 3);
    assert.equal(await panel.locator('#checks .result.tone-bad').count(), 1);
    await panel.getByText(/✗ 2 of 3 passed/).waitFor();

    // A quote in a reason marks the passages of the output.
    await panel.getByRole('button', { name: '“24.90 EUR”' }).hover();
    await page.locator('#quoted mark').nth(1).waitFor();
    assert.deepEqual(await page.locator('#quoted mark').allTextContents(), ['24.90 EUR', '24.90 EUR']);
    await panel.locator('#score').hover();
    await page.locator('#quoted').waitFor({ state: 'hidden' });
    const highlights = await messages('highlight');
    assert.deepEqual(highlights.map((it) => [it.id, it.ranges]), [['1', [[12, 21], [32, 41]]], ['1', []]]);

    // A set without rules has cards too.
    const only = await answer({ id: '2', agent_output: 'y' }, { assertions: [], set: 'nothing' });
    assert.equal(only.problem, 'urn:kindlm:problem:no-checks');
    await putSet('expect', { expect: { output: { contains: ['refund'] } } });
    const failed = await answer({ id: '3', agent_output: 'y' }, { set: 'expect', readOnly: true });
    assert.deepEqual([failed.passed, failed.total], [0, 1]);
    assert.equal(await panel.locator('.result.tone-bad').count(), 1);
    for (const name of ['Add a rule', 'Save as a new version']) assert.ok(await panel.getByRole('button', { name }).isHidden());
    const frame = page.frames().find((it) => it.url().startsWith(home));
    assert.deepEqual(await violations(frame), []);
    assert.deepEqual(page.trouble.filter((it) => !it.includes('404')), []);
    site.close();
  },

  async 'the loop of a product manager is fast'() {
    // The judge answers after a second.
    await putSet('loop', { assertions: rulesOf('The answer names the amount.', 'The answer is polite.') });
    const samples = Array.from({ length: 10 }, (_, index) => JSON.stringify({ agent: 'desk', agent_input: 'the slow agent', agent_output: `Answer ${index} of ${Date.now()}` }));
    const stored = await fetch(`${home}/v1/samples`, { method: 'POST', headers: { 'content-type': 'application/x-ndjson' }, body: samples.join('\n') });
    assert.ok(stored.ok, await stored.text());
    const { site, page, panel, answer } = await openBuilder();
    await answer({ id: '1', agent_input: 'the slow agent' }, { set: 'loop', agent: 'desk' });
    let start = Date.now();
    await panel.getByLabel('Rule the_answer_is_polite').fill('The answer includes a coupon.');
    await panel.getByRole('button', { name: 'Evaluate again' }).click();
    await panel.getByText('It has no coupon.').waitFor();
    const single = Date.now() - start;
    start = Date.now();
    await panel.getByRole('button', { name: 'Try on the newest outputs' }).click();
    await panel.getByText('0 of the newest 10 outputs passed').waitFor();
    const ten = Date.now() - start;
    await panel.getByText('passed on 10 of 10 outputs').waitFor();
    await panel.getByText('passed on 0 of 10 outputs').waitFor();
    await shot(page, '11-panel-tried');
    console.log(`edit to verdict: ${single} ms, ten cases: ${ten} ms`);
    assert.ok(single >= 1000 && single < 30_000, `edit to verdict: ${single} ms`);
    assert.ok(ten >= 1000 && ten < 5_000, `ten cases after a changed rule: ${ten} ms`);
    assert.deepEqual(page.trouble, []);
    site.close();
  },

  async 'a cancelled evaluation sends no result'() {
    const { site, page, panel, answer, messages } = await openBuilder();
    await page.evaluate((assertions) => {
      const panel = document.querySelector('kindlm-panel');
      panel.init({ assertions });
      panel.evaluate({ id: 'slow', agent_input: 'the slow agent', agent_output: 'y' });
      panel.cancel('slow');
    }, rulesOf('The answer is polite.'));
    await panel.getByText('Cancelled.').waitFor();
    await panel.getByText('… not evaluated').waitFor();
    const next = await answer({ id: 'next' });
    assert.equal(next.passed, 1);
    assert.deepEqual((await messages('result')).map((it) => it.id), ['next']);
    assert.deepEqual(await messages('error'), []);
    site.close();
  },

  async 'the panel needs rules and forgets the set before'() {
    const rules = rulesOf('The answer names the amount.', 'The answer is polite.');
    await putSet('short', { assertions: rules, expect: { output: { maxLength: 1 } } });
    const { site, answer } = await openBuilder();
    const unknown = await answer({ id: '1' }, { set: 'unknown' });
    assert.deepEqual([unknown.type, unknown.problem], ['kindlm:error', 'urn:kindlm:problem:no-checks']);
    const short = await answer({ id: '2' }, { set: 'short' });
    assert.deepEqual([short.type, short.outcome, short.passed, short.total], ['kindlm:result', 'failed', 2, 3]);
    const own = await answer({ id: '3' }, { assertions: rules });
    assert.deepEqual([own.type, own.outcome, own.passed, own.total], ['kindlm:result', 'passed', 2, 2]);
    site.close();
  },

  async 'the panel fits and is accessible in every look'() {
    await putSet('looks', {
      assertions: [{ id: 'sources', instruction: 'Cite sources.', criteria: ['Does it cite sources?', 'Are they right?'] }, ...rulesOf('The answer names the amount.', 'The answer offers a voucher.')],
      expect: { output: { contains: ['refund'] }, latency: { maxMs: 10 } },
    });
    for (const colorScheme of ['light', 'dark']) {
      for (const width of [1280, 360]) {
        const { site, page, panel, answer } = await openBuilder({ colorScheme, viewport: { width, height: 2400 } });
        await answer({ id: '1', agent_output: 'We refund 24.90 EUR to your card today.' }, { set: 'looks', agent: 'shop' });
        await panel.getByLabel('Rule sources').fill('Never cite sources.');
        await panel.getByRole('button', { name: 'Add a rule' }).click();
        const frame = page.frames().find((it) => it.url().startsWith(home));
        const look = `${colorScheme} ${width}`;
        assert.deepEqual(await violations(frame), [], look);
        const over = await frame.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${look}: ${over} px too wide`);
        await shot(page, `12-panel-${colorScheme}-${width}`);
        site.close();
        await page.context().close();
      }
    }
  },

  async 'times are in the time zone of the reader'() {
    const page = await open('/monitor', { timezoneId: 'Asia/Tokyo' });
    const time = page.locator('main time').first();
    await page.locator('main time[title]').first().waitFor();
    const [iso, text, title] = await time.evaluate((it) => [it.dateTime, it.textContent, it.title]);
    const tokyo = new Date(Date.parse(iso) + 9 * 60 * 60 * 1000).toISOString();
    assert.equal(text, `${tokyo.slice(0, 10)} ${tokyo.slice(11, 16)} GMT+9`);
    assert.equal(title, `${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC`);
    const plain = await open('/monitor', { javaScriptEnabled: false, timezoneId: 'Asia/Tokyo' });
    assert.match(await plain.locator('main time').first().textContent(), / UTC$/);
  },

  async 'a wrong origin gets no panel'() {
    // Under another host name, the same site has another origin.
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
