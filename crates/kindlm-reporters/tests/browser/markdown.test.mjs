// Tests of the comment for pull requests, rendered as Markdown with the style of GitHub.
//
// `KINDLM_PICTURES` is a folder for pictures of the comments, to look at.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { marked } from 'marked';
import { blank, folder, run } from './support.mjs';

const css = readFileSync(new URL('node_modules/github-markdown-css/github-markdown.css', import.meta.url), 'utf8');
const comment = (name) => readFileSync(`${folder}/${name}.md`, 'utf8');

/** Shows a comment. `marked` passes HTML on, so what acts here is a superset of what acts on GitHub. */
const show = async (name, options) => {
  const page = await blank(options);
  const body = marked.parse(comment(name), { gfm: true });
  await page.setContent(`<!doctype html><meta name="color-scheme" content="light dark"><style>${css} body { margin: 16px }</style><article class="markdown-body">${body}</article>`);
  await page.evaluate(() => document.querySelectorAll('details').forEach((it) => (it.open = true)));
  return page;
};

const tests = {
  async 'comments are rendered'() {
    for (const [name, texts] of [['green', ['passed']], ['sample', ['failed', 'looks up the order before it answers']], ['rich', ['refunds what the mug cost']], ['hostile', ['failed']]]) {
      for (const [look, options] of [['light', {}], ['dark', { colorScheme: 'dark' }], ['phone', { viewport: { width: 390, height: 800 } }]]) {
        const page = await show(name, options);
        const text = await page.locator('article').innerText();
        assert.match(text, / (m?s|min)\n/, `${name}: the duration ends the first line`);
        for (const it of texts) assert.ok(text.toLowerCase().includes(it), `${name}: ${it}`);
        // Markdown that did not become an element is a mistake of the reporter.
        assert.doesNotMatch(text, /^\s*(\|.*\||#{1,6} .*|```.*)$/m, name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= (options.viewport?.width ?? 1440), `${name} ${look}: ${wide} px`);
        if (process.env.KINDLM_PICTURES) await page.screenshot({ path: `${process.env.KINDLM_PICTURES}/${name}-${look}.png`, fullPage: true });
        await page.context().close();
      }
    }
  },

  async 'hostile texts do nothing in a comment'() {
    const page = await show('hostile');
    await page.waitForTimeout(500);
    assert.deepEqual(page.trouble, []);
    assert.equal(await page.title(), '');
    const active = await page.evaluate(() => {
      const found = [...document.querySelectorAll('script, img, iframe, object, embed, link, form, input:not([type=checkbox]), svg')].filter((it) => it.closest('article'));
      const links = [...document.querySelectorAll('article a')].filter((it) => !/^https:|^#/.test(it.getAttribute('href') ?? ''));
      const handlers = [...document.querySelectorAll('article *')].filter((it) => [...it.attributes].some(({ name }) => name.startsWith('on') || name === 'style'));
      return [...found, ...links, ...handlers].map((it) => it.outerHTML);
    });
    assert.deepEqual(active, []);
    // GitHub notifies people who are mentioned, and links issues. It does neither inside of code.
    const plain = await page.evaluate(() => {
      const article = document.querySelector('article').cloneNode(true);
      article.querySelectorAll('code, pre').forEach((it) => it.remove());
      return article.textContent;
    });
    assert.doesNotMatch(plain, /(^|[^\w`/])@[a-z\d]/i);
    assert.doesNotMatch(plain, /(^|\s)(#\d+|[\w-]+\/[\w-]+#\d+)\b/);
  },
};

await run(tests);
