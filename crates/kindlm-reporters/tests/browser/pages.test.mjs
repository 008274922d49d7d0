// Tests of the pages as documents: valid HTML, and the same facts with and without the script.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { HtmlValidate } from 'html-validate';
import { folder, open, run } from './support.mjs';

const PAGES = ['sample', 'rich', 'conversations', 'compared', 'green', 'empty', 'hostile', 'few'];

const validator = new HtmlValidate({
  root: true,
  extends: ['html-validate:recommended'],
  rules: {
    'aria-label-misuse': ['error', { allowAnyNamable: true }],
    'doctype-style': ['error', { style: 'lowercase' }],
    // Names of suites and texts of models are as they are.
    'long-title': 'off',
    'no-trailing-whitespace': 'off',
    // The table of cases has only its visible rows, at places that a native table cannot have.
    'prefer-native-element': ['error', { exclude: ['table'] }],
  },
});

/** The words of the part without script for outcomes of checks, where they differ from those of the script. */
const WORDS = { 'low score': 'scored', 'could not be judged': 'errored', 'not checked': 'skipped', score: 'passed' };

/** Returns the facts of a case as the page shows them without script, one list for each repeat. */
const written = (page) =>
  page.evaluate(() => {
    const text = (node, selector) => node.querySelector(selector)?.textContent.trim() ?? '';
    const own = (item, selector) => text({ querySelector: (it) => [...item.children].map((child) => (child.matches(it) ? child : child.querySelector(`:scope > ${it}`))).find(Boolean) }, selector);
    const facts = (list) => [...list.querySelectorAll('li.check')].map((it) => ({
      word: own(it, '.off').replace(':', ''), label: own(it, '.label'), code: own(it, '.code'), score: own(it, '.score'),
      says: [...it.children].filter((child) => child.matches('.say')).map((child) => child.textContent),
    }));
    return [...document.querySelectorAll('noscript details.case')].map((it) => {
      const parts = [...it.querySelectorAll('.repeat .inner')];
      const repeats = (parts[0] ? parts : [it.querySelector('.body')]).map((part) => {
        const titles = [...part.children].filter((child) => child.matches('h4'));
        const under = (title) => titles.find((child) => child.textContent === title)?.nextElementSibling;
        const checks = under('Checks');
        // An execution error has a heading of its own, and its code as label.
        const errors = titles.filter((child) => child.nextElementSibling?.matches('ul.checks') && !child.nextElementSibling.querySelector('.off'));
        const failed = errors.map((child) => ({ ...facts(child.nextElementSibling)[0], label: child.textContent, code: text(child.nextElementSibling, '.label') }));
        const skipped = part.querySelector(':scope > p.empty');
        if (skipped) failed.push({ word: '', label: 'Not run', code: '', score: '', says: [skipped.textContent.replace(/^Not run: /, '')] });
        return { checks: [...failed, ...(checks ? facts(checks) : [])], output: under('Output')?.textContent ?? null };
      });
      return { name: text(it, 'h3'), model: text(it, '.meta span'), word: text(it, '.pill').replace(/^\S+ /, ''), repeats, diffs: [...it.querySelectorAll('.diff > :is(.added, .removed)')].map((line) => line.textContent) };
    });
  });

/** Returns the same facts of the open case. */
const drawn = (page) =>
  page.evaluate(() => {
    const own = (item, selector) => item.querySelector(`:scope > .headline > ${selector}`)?.textContent.trim() ?? '';
    const detail = document.querySelector('#detail');
    for (const it of detail.querySelectorAll('button')) if (/^(Show all|\d+ equal)/.test(it.textContent)) it.click();
    const checks = [...detail.querySelectorAll('li.check')].map((it) => ({
      word: own(it, '.off').replace(':', ''), label: own(it, '.label'), code: own(it, '.code'), score: own(it, '.score'),
      says: [...it.children].filter((child) => child.matches('.says')).map((child) => child.textContent),
    }));
    return { diffs: [...detail.querySelectorAll('.evidence > .diff > :is(.added, .removed)')].map((it) => it.textContent), word: detail.querySelector('.pill').textContent.replace(/^\S+ /, ''), checks, outputs: [...detail.querySelectorAll('.output pre, .assistant pre')].map((it) => it.textContent) };
  });

const tests = {
  async 'every page is valid HTML'() {
    for (const name of PAGES) {
      const report = await validator.validateString(readFileSync(`${folder}/${name}.html`, 'utf8'));
      const found = report.results.flatMap((it) => it.messages.map((one) => `${one.line}:${one.column} ${one.ruleId}: ${one.message}`));
      assert.deepEqual(found, [], name);
    }
  },

  async 'cases have the same facts with and without script'() {
    let cases = 0;
    let checks = 0;
    for (const name of ['sample', 'rich', 'conversations', 'green', 'few', 'huge']) {
      const expected = await written(await open(name, '', { javaScriptEnabled: false }));
      const page = await open(name, '#cases');
      for (const it of expected) {
        cases++;
        const diffs = new Set();
        for (const [at, repeat] of it.repeats.entries()) {
          const hash = new URLSearchParams({ case: it.name, model: it.model, repeat: `${at + 1}` }).toString().replaceAll('+', '%20');
          await page.evaluate((hash) => (location.hash = hash), 'cases&' + hash);
          await page.waitForFunction((name) => document.querySelector('#detail h2')?.textContent === name && document.querySelector('#detail .timeline'), it.name);
          if (it.repeats[1]) await page.waitForFunction((at) => document.querySelector('#detail .tabs .soft')?.textContent.startsWith(`repeat ${at + 1} of`), at);
          const found = await drawn(page);
          // The part without script uses the escapes of terminals, which also replace tabs and commands of CI systems.
          const plain = (text) => text.replaceAll('\t', '    ').replaceAll('\\x23', '#').trim();
          const sorted = (list) => list.map((one) => JSON.stringify({ ...one, says: one.says.map(plain) })).sort();
          assert.equal(found.word, it.word, `${name}: ${it.name}`);
          assert.deepEqual(sorted(found.checks), sorted(repeat.checks.map((one) => ({ ...one, word: WORDS[one.word] ?? one.word }))), `${name}: ${it.name}, repeat ${at + 1}`);
          if (repeat.output) assert.ok(found.outputs.map(plain).includes(plain(repeat.output)), `${name}: ${it.name}: ${repeat.output}`);
          found.diffs.forEach((one) => diffs.add(one));
          checks += found.checks.length;
        }
        assert.deepEqual([...diffs].sort(), [...new Set(it.diffs)].sort(), `${name}: ${it.name}`);
      }
    }
    assert.ok(cases >= 50 && checks >= 150, `${cases} cases with ${checks} checks`);
    console.log(`${cases} cases with ${checks} checks are equal`);
  },
};

await run(tests);
