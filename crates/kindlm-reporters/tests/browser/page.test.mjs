// Tests of the HTML report in headless Chromium.
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { KINDLM, measure } from './budgets.mjs';
import { SCRIPTS, build } from './build.mjs';
import { blank, folder, open, run, url, violations } from './support.mjs';

const REFUND = '#cases&case=refunds%20what%20the%20mug%20cost&model=gpt-4o';
const shown = (page) => page.locator('#status').textContent();
/** Opens all folded texts. */
const unfold = (page) => page.evaluate(() => document.querySelectorAll('#detail details').forEach((it) => (it.open = true)));

const tests = {
  async 'the minified scripts are fresh'() {
    for (const name of SCRIPTS) assert.equal(readFileSync(new URL(`../../src/html/${name}.min.js`, import.meta.url), 'utf8'), build(name));
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

  async '10,000 cases stay within the budgets of time'() {
    // Other work on the machine makes a measurement longer, never shorter. So one good measurement is enough.
    for (const [rate, budget] of [[1, { ready: 2000, filter: 100, scroll: 25 }], [4, { ready: 4000 }]]) {
      const best = {};
      // With more work than processors, a page gets about half of one.
      const limit = (it) => budget[it] * (loadavg()[0] > cpus().length ? 2 : 1);
      const over = () => Object.keys(budget).filter((it) => !(best[it] <= limit(it)));
      for (let i = 0; i < 5 && over().length; i++) {
        const found = await measure(`${folder}/huge.html`, KINDLM, rate);
        for (const it in found) best[it] = Math.min(best[it] ?? Infinity, found[it]);
      }
      console.log(`${rate}x ${JSON.stringify(best)}`);
      assert.deepEqual(over(), [], `${rate}x: ${JSON.stringify(best)}`);
    }
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

  async 'an invalid term of a filter is named'() {
    const page = await open('sample', '#cases');
    for (const [query, problem] of [
      ['foo:bar', '“foo:bar” is no filter'], ['s:unknown', '“s:unknown” is no filter'], ['in:nowhere a', '“in:nowhere” is no filter'],
      ['s:failed ms>abc', '“ms>abc” needs a number'], ['cost>', '“cost>” needs a number'], ['s:flaky ms<100 cost=0 cause:0 !m:gpt a=b', ''],
    ]) {
      await page.fill('#query', query);
      const [count, words = ''] = (await shown(page)).split('; ');
      assert.match(count, /^\d of 9 tests$/);
      assert.equal(words, problem, query);
    }
    assert.deepEqual(page.trouble, []);
  },

  async 'the skipped tests of the overview lead to their list'() {
    const page = await open('sample');
    await page.locator('.tiles a', { hasText: 'skipped' }).click();
    assert.ok(await page.locator('h2#skipped').isVisible());
    assert.deepEqual(page.trouble, []);
  },

  async 'the matrix fits a phone'() {
    for (const name of ['sample', 'rich', 'wide', 'compared']) {
      const page = await open(name, '#cases', { viewport: { width: 390, height: 800 } });
      const clipped = await page.locator('.row:visible').evaluateAll((rows) => rows.filter((row) => {
        const { bottom, right } = row.getBoundingClientRect();
        return [...row.querySelectorAll('.test, .cell, .pill, .n, .delta')].some((it) => it.getBoundingClientRect().bottom > bottom || it.getBoundingClientRect().right > right);
      }).map((row) => row.textContent));
      assert.deepEqual(clipped, [], name);
      // A cell stands below the name of its model.
      const lefts = (selector) => page.locator(selector).evaluateAll((all) => all.map((it) => Math.round(it.getBoundingClientRect().left)));
      const heads = (await lefts('.heads > div')).slice(1);
      const cells = await lefts('.row:visible:nth-child(1) .cell');
      assert.ok(heads.every((left, i) => Math.abs(left - cells[i]) <= 14), `${name}: ${heads} ${cells}`);
      assert.ok((await page.locator('.heads').boundingBox()).height > 20);
    }
  },

  async 'a judge is shown in words'() {
    const page = await open('conversations', '#cases&case=asks%2C%20then%20answers&model=gpt-4o');
    const text = await page.locator('#detail').innerText();
    assert.ok(!text.includes('"kind"') && !text.includes('5f1d7a84db00d2fc'), text);
    assert.equal(text.split('It does not say when.').length, 2, text);
    assert.ok(text.includes('0.40 (wants 0.8)') && text.includes('1 of 2 pass'), text);
    assert.equal(await page.locator('.strip .limit').count(), 1);
    assert.deepEqual(page.trouble, []);
  },

  async 'rows are grouped by file, tag and cause'() {
    const page = await open('sample', '#cases');
    const headings = () => page.locator('.row:visible .test b').allTextContents();
    assert.deepEqual(await headings(), []);
    await page.selectOption('#group', 'tag');
    assert.deepEqual(await headings(), ['privacy (1)', 'format (1)', 'tools (2)', 'no tag (1)', 'refunds (1)', 'tone (3)']);
    assert.equal(await shown(page), '9 of 9 tests');
    assert.equal(new URL(page.url()).hash, '#cases&group=tag');
    await page.selectOption('#group', 'cause');
    assert.equal((await headings())[0], 'PII: card number (1)');
    // A heading is no case: the keys pass over it.
    await page.keyboard.press('j');
    await page.waitForSelector('#detail .timeline');
    const opened = await page.locator('#detail h2').textContent();
    assert.ok(!(await headings()).includes(opened), opened);
    await page.reload();
    await page.waitForSelector('#detail .timeline');
    assert.equal(await page.inputValue('#group'), 'cause');
    assert.deepEqual(await violations(page), []);
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
    await page.keyboard.press('d');
    assert.equal(await page.getByText('8 equal lines').count(), 0);
    assert.equal(await page.locator('.diff div').count(), 17);
    assert.deepEqual(page.trouble, []);
  },

  async 'calls of several answers may have the same id'() {
    const page = await open('conversations', '#cases&case=refunds%20in%20several%20answers&model=gpt-4o');
    const calls = page.locator('#detail .call');
    const responses = await calls.locator('details').allTextContents();
    assert.deepEqual(responses.map((it) => it.match(/delivered|first|second/)?.[0]), ['delivered', 'first', 'second']);
    assert.deepEqual(await calls.evaluateAll((all) => all.map((it) => it.matches('.failed'))), [false, true, false]);
    assert.deepEqual(await calls.locator('summary').allTextContents(), Array(3).fill('simulated response'));
    assert.deepEqual(page.trouble, []);
    const program = await open('rich', '#cases&case=keeps%20the%20order%20of%20its%20steps&model=gpt-4o');
    assert.deepEqual(await program.locator('#detail .call summary').allTextContents(), ['response', 'response']);
  },

  async 'each message is shown once'() {
    for (const [name, messages] of [
      ['refunds in several answers', ['Hi, I ordered a mug and a teapot, order 777. The mug came broken.', 'I refunded 249 EUR.']],
      ['asks, then answers', ['Hello', 'Which order?', 'It is 12345.', 'One moment.', 'No idea, sorry.']],
    ]) {
      const page = await open('conversations', '#cases&' + new URLSearchParams({ case: name, model: 'gpt-4o' }).toString().replaceAll('+', '%20'));
      const texts = await page.locator('#detail :is(.user, .assistant, .output) pre').allTextContents();
      assert.deepEqual(texts, messages);
      const plain = await open('conversations', '', { javaScriptEnabled: false });
      const written = await plain.locator('details.case', { hasText: name }).first().locator('pre.said').evaluateAll((all) => all.map((it) => it.textContent));
      assert.deepEqual(written.filter((it) => messages.includes(it)), messages.filter((it) => it !== 'One moment.'));
    }
  },

  async 'a long list of matches names the rest'() {
    const page = await open('conversations', '#cases&case=lists%20the%20customers&model=gpt-4o');
    assert.equal(await page.locator('.found li').count(), 20);
    assert.ok((await page.locator('#detail .evidence').innerText()).includes('… 580 more places'));
    // The excerpts are masked, and the page says so.
    assert.deepEqual([...new Set(await page.locator('.found mark').allTextContents())], ['a••••••']);
    assert.ok((await page.locator('#detail .headline').first().innerText()).includes('matches are masked here, not in the output'));
    assert.deepEqual(page.trouble, []);
  },

  async 'schema errors stand in a table'() {
    const page = await open('rich', '#cases&case=sorts%20the%20ticket%20by%20the%20schema&model=gpt-4o');
    const cells = await page.locator('.evidence tbody tr').evaluateAll((all) => all.map((it) => [...it.children].map((cell) => cell.textContent)));
    assert.deepEqual(cells, [['/priority', 'one of "low", "high"', '"urgent"'], ['(all)', 'the property customer', 'nothing']]);
    // A place such as `/priority` is not broken.
    assert.ok((await page.locator('.evidence tbody th code').first().boundingBox()).height < 24);
    assert.deepEqual(page.trouble, []);
  },

  async 'the worst tests stand first'() {
    const page = await open('rich', '#cases');
    // Two models fail, one model fails, three of five repeats held, one check could not be judged.
    assert.deepEqual(await page.locator('.row:visible .test').allTextContents(), [
      'prints the exact receipt', 'keeps the order of its steps', 'repairs the cart', 'refunds what the mug cost', 'sorts the ticket by the schema',
    ]);
    await page.fill('#query', 'nothing-like-this');
    const empty = () => page.locator('#port').evaluate((it) => getComputedStyle(it, '::before').content);
    assert.equal(await empty(), '"No tests to show."');
    await page.fill('#query', '');
    assert.equal(await empty(), 'none');
  },

  async 'the answers of all models stand side by side'() {
    const page = await open('sample', '#cases');
    await page.evaluate(() => (location.hash = [...document.querySelectorAll('.row')].find((it) => it.querySelectorAll('.cell a')[1]).querySelector('.cell a').getAttribute('href')));
    await page.waitForSelector('#detail .timeline');
    const models = await page.locator('#detail .tabs .chip').count();
    assert.ok(models > 1);
    await page.getByText('All models side by side').click();
    await page.locator('#detail .sides > div').nth(models - 1).waitFor();
    assert.equal(await page.locator('#detail .sides > div pre').count(), models);
    assert.deepEqual(await violations(page), []);
    assert.deepEqual(page.trouble, []);
  },

  async 'a cell has its score, which its label repeats'() {
    const page = await open('sample', '#cases');
    const cells = await page.locator('.cell a:has(.mean)').evaluateAll((all) => all.map((it) => [it.querySelector('.mean').textContent.trim(), it.ariaLabel]));
    assert.ok(cells.length > 0);
    for (const [score, label] of cells) assert.ok(/^0\.\d\d$/.test(score) && label.endsWith(' ' + score) && label.includes('score'), `${score}: ${label}`);
  },

  async 'an open case leaves the names of models readable'() {
    const page = await open('rich', REFUND);
    const cut = await page.locator('.heads span').evaluateAll((all) => all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent));
    assert.deepEqual(cut, []);
  },

  async 'a report with a comparison shows it'() {
    const page = await open('compared', '#compare');
    await page.waitForSelector('#compare .changes');
    const text = await page.locator('#compare').innerText();
    for (const part of ['Regression: the pass rate fell', '90% → 40%: −50 percentage points (95% interval −70 to −30; p = 0.00040)', 'prompt support', 'sha256:aa → none', '9 of 10 → 4 of 10', '</script><img src=x']) assert.ok(text.includes(part), `${part}: ${text}`);
    const pills = () => page.locator('#compare .change .pill').allTextContents();
    assert.deepEqual(await pills(), ['✗ regression', '↓ fell', '✓ fix', '↑ rose', '+ new', '− gone']);
    await page.getByRole('button', { name: 'Not compared 2' }).click();
    assert.deepEqual(await pills(), ['! not judged', '≠ not comparable']);
    assert.ok((await page.locator('#compare').innerText()).includes('the prompt is another one'));
    await page.getByRole('button', { name: 'Worse 2' }).click();
    assert.equal(await page.locator('#compare .change').count(), 2);
    await page.locator('#compare .change summary').first().click();
    await page.getByText('All checks of this case').click();
    await page.waitForSelector('#detail .timeline');
    assert.deepEqual(page.trouble, []);
  },

  async 'the matrix shows the changes of a comparison'() {
    const page = await open('compared', '#cases');
    assert.deepEqual((await page.locator('.delta').allTextContents()).sort(), ['+50', '+50', 'new', '−50', '−50']);
    const labels = await page.locator('.cell:has(.delta) > a, .cell > a:has(.delta)').evaluateAll((all) => all.map((it) => it.ariaLabel));
    assert.equal(labels.filter((it) => /^[^:]+: \w+.*, [+−]50 percentage points against run `20261101`/.test(it)).length, 4, labels.join());
    await page.selectOption('#sort', 'changed');
    assert.equal(await page.locator('.row:visible').first().locator('.delta').count(), 2);
    await page.fill('#query', 's:changed');
    assert.equal(await shown(page), '3 of 9 tests');
    assert.deepEqual(page.trouble, []);
    const plain = await open('few', '#cases');
    assert.equal(await plain.locator('.delta, option[value=changed]').count(), 0);
    await plain.fill('#query', 's:changed');
    assert.match(await shown(plain), /“s:changed” is no filter/);
  },

  async 'a comparison shows where the prompts of models differ'() {
    const page = await open('compared', '#compare');
    await page.getByText('The prompts and outputs before are not in this file').waitFor();
    await page.getByRole('button', { name: /^Unchanged/ }).click();
    const row = page.locator('#compare .change', { hasText: 'looks up the order before it answersgemini-2.5-pro' });
    await row.locator('summary').click();
    await row.locator('.diff').waitFor();
    assert.match(await row.textContent(), /Difference of the prompts of gpt-4o and gemini-2\.5-pro.*\+Answer in one sentence\./s);
    assert.deepEqual(page.trouble, []);
  },

  async 'the page of the run shows distributions without its script'() {
    const page = await open('sample', '#run', { javaScriptEnabled: false });
    const found = page.locator('#run .spread');
    assert.ok((await found.count()) > 3);
    for (const it of await found.all()) {
      assert.equal(await it.locator('.limit').count(), 2);
      assert.match(await it.getAttribute('aria-label'), /^Executions in 24 equal ranges from 0 to [^:]+ and above: \d+(, \d+){23}$/);
    }
  },

  async 'keys walk through the cases'() {
    const page = await open('rich', '#cases&sort=plan');
    const name = () => page.locator('#detail h2').textContent();
    await page.keyboard.press('j');
    await page.waitForSelector('#detail .timeline');
    assert.equal(await name(), 'refunds what the mug cost');
    await page.keyboard.press(']');
    await page.waitForFunction(() => document.querySelector('#detail').textContent.includes('repeat 2 of 5'));
    await page.keyboard.press('m');
    await page.waitForFunction(() => document.querySelector('#detail .tabs [aria-current]').textContent.includes('claude'));
    await page.keyboard.press('n');
    await page.waitForFunction(() => document.querySelector('#detail h2').textContent.startsWith('sorts'));
    await page.keyboard.press('Escape');
    await page.waitForSelector('#detail', { state: 'hidden' });
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'sorts the ticket by the schema');
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
    const printed = await open('hostile', '#cases');
    await printed.waitForTimeout(800);
    await printed.evaluate(() => dispatchEvent(new Event('beforeprint')));
    assert.ok((await printed.locator('#print section').count()) > 3);
    for (const query of ['in:output script', 'in:prompt a', 'in:reason a', '/(/', '"<img']) {
      await printed.fill('#query', query);
      await printed.waitForFunction(() => !document.querySelector('#status').textContent.includes('searched'));
    }
    assert.deepEqual(printed.trouble, []);
    assert.equal(await printed.locator('img, iframe, object').count(), 0);
    const page = await open('hostile', '', { javaScriptEnabled: false });
    await page.evaluate(() => document.querySelectorAll('details').forEach((it) => (it.open = true)));
    assert.equal(await page.locator('img, iframe, object').count(), 0);
    assert.deepEqual(page.trouble.filter((it) => !it.includes('Blocked script')), []);
  },

  async 'axe finds nothing'() {
    const looks = [];
    for (const colorScheme of ['light', 'dark']) for (const width of [1440, 390]) looks.push({ colorScheme, viewport: { width, height: 900 } });
    // 1280 px at 400 % zoom are 320 px.
    looks.push({ forcedColors: 'active' }, { viewport: { width: 320, height: 640 } });
    for (const look of looks) {
      for (const [name, hash] of [['sample', ''], ['sample', '#cases'], ['sample', '#cases&q=m:claude'], ['sample', '#run'], ['compared', '#compare'], ['rich', REFUND], ['rich', '#cases&case=repairs%20the%20cart'], ['rich', '#cases&case=keeps%20the%20order%20of%20its%20steps'], ['green', ''], ['empty', '']]) {
        const page = await open(name, hash, look);
        await unfold(page);
        assert.deepEqual(await violations(page), [], `${name}${hash} ${JSON.stringify(look)}`);
        await page.context().close();
      }
      const page = await open('sample', '#cases', look);
      await page.keyboard.press('?');
      assert.deepEqual(await violations(page), [], `help ${JSON.stringify(look)}`);
      await page.context().close();
    }
  },

  async 'axe finds nothing in the part without script'() {
    // axe needs a script, so the part is taken out of its element.
    const html = readFileSync(`${folder}/sample.html`, 'utf8').replace(/<script type="module">.*/s, '').replace(/<noscript>|<\/noscript>/g, '');
    for (const colorScheme of ['light', 'dark']) {
      const page = await blank({ colorScheme, bypassCSP: true });
      await page.setContent(html);
      await page.evaluate(() => document.querySelectorAll('details').forEach((it) => (it.open = true)));
      assert.ok((await page.locator('details.case').count()) > 9);
      assert.deepEqual(await violations(page), [], colorScheme);
    }
  },

  async 'Tab reaches everything and shows where it is'() {
    for (const [name, hash] of [['sample', ''], ['sample', '#cases'], ['rich', REFUND], ['sample', '#run'], ['compared', '#compare']]) {
      const page = await open(name, hash);
      await unfold(page);
      await page.evaluate(() => {
        document.activeElement.blur();
        window.reached = new Set();
      });
      const step = () => page.evaluate(() => {
        const it = document.activeElement;
        const isNew = it !== document.body && !window.reached.has(it);
        window.reached.add(it);
        const { outlineStyle, outlineWidth } = getComputedStyle(it);
        return { isNew, what: it.outerHTML.slice(0, 80), isSeen: outlineStyle !== 'none' && outlineWidth !== '0px' };
      });
      // The walk begins at the target of the link. After the last element it goes on at the start of the page.
      for (let ends = 0; ends < 2; ) {
        await page.keyboard.press('Tab');
        const { isNew, what, isSeen } = await step();
        if (!isNew) {
          ends++;
          continue;
        }
        assert.ok(isSeen, `${name}${hash}: no outline at ${what}`);
      }
      const missed = await page.evaluate(() => {
        const all = [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex="0"]')];
        return all.filter((it) => it.tabIndex >= 0 && it.checkVisibility({ visibilityProperty: true }) && !window.reached.has(it)).map((it) => it.outerHTML.slice(0, 120));
      });
      assert.deepEqual(missed, [], `${name}${hash}`);
    }
  },

  async 'a narrow window needs no sideways scrolling'() {
    // 1280 px at 400 % zoom are 320 px.
    for (const [name, hash] of [['sample', ''], ['sample', '#cases'], ['sample', '#run'], ['compared', '#compare'], ['rich', REFUND], ['rich', '#cases&case=prints%20the%20exact%20receipt'], ['hostile', ''], ['huge', '#cases']]) {
      const page = await open(name, hash, { viewport: { width: 320, height: 640 } });
      await unfold(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= 320, `${name}${hash}: ${wide} px`);
      await page.context().close();
    }
  },

  async 'the compliance document breaks no word of a heading'() {
    for (const [width, media] of [[1200, 'screen'], [673, 'print'], [390, 'screen'], [320, 'screen']]) {
      const page = await blank({ viewport: { width, height: 900 } });
      await page.goto(url('compliance'));
      await page.emulateMedia({ media });
      const broken = await page.locator('thead th').evaluateAll((all) => all.flatMap((it) => {
        const text = it.firstChild;
        const words = [...text.data.matchAll(/[^\s-]+/g)];
        return words.filter((word) => {
          const range = document.createRange();
          range.setStart(text, word.index);
          range.setEnd(text, word.index + word[0].length);
          return range.getClientRects().length > 1;
        }).map((word) => word[0]);
      }));
      assert.deepEqual(broken, [], `${width} ${media}`);
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `${width} ${media}`);
      await page.context().close();
    }
  },

  async 'the page reads without its script'() {
    const page = await open('sample', '', { javaScriptEnabled: false });
    const text = await page.locator('body').innerText();
    for (const part of ['4 of 13 cases held', 'passRateMin', 'What did not hold, by cause', 'never shows a card number', 'Found 1 PII match', 'Run']) assert.ok(text.includes(part), part);
    assert.ok(!(await page.locator('#query').isVisible()));
  },

  async '25 cases with 2 failures print on 4 pages'() {
    const print = async (name) => {
      const page = await open(name);
      await page.waitForTimeout(800);
      const pdf = (await page.pdf({ format: 'A4' })).toString('latin1');
      const pages = pdf.match(/\/Type\s*\/Page\b/g).length;
      assert.ok(pages <= 4, `${name}: ${pages} pages`);
      return page;
    };
    await print('batch');
    const page = await print('few');
    await page.emulateMedia({ media: 'print' });
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    const text = await page.locator('#print').innerText();
    assert.equal(await page.locator('#print table').first().locator('tr').count(), 26);
    assert.equal(await page.locator('#print section').count(), 2);
    assert.ok(text.includes('What happened'), text);
  },
};

await run(tests);
