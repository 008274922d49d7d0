// Measures a page: until its list is shown, its elements, the filter and scrolling.
import { pathToFileURL } from 'node:url';
import { browser } from './support.mjs';

/** The parts of a report of KindLM. */
export const KINDLM = { hash: '#cases', row: '.row a', filter: '#query', port: '#port', queries: ['e', 'er', 's:failed', 'ms>500 !an', ''] };

/**
 * Returns the times in milliseconds, and the number of elements.
 *
 * `parts` has selectors: a `row` of the list, the input of the `filter`, and the `port` that scrolls, if it is not the
 * window. `rate` is the factor by which the processor is slowed down.
 */
export const measure = async (file, { hash = '', row, filter, port, queries = [] }, rate = 1) => {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  page.setDefaultTimeout(300_000);
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate });
  await page.goto(pathToFileURL(file).href + hash, { waitUntil: 'commit' });
  const ready = await page.waitForFunction((row) => document.querySelector(row) && document.readyState === 'complete' && performance.now(), row, { polling: 'raf' });
  const found = { ready: Math.round(await ready.jsonValue()), elements: await page.evaluate(() => document.querySelectorAll('*').length) };
  // Work that the page does when it is idle is not part of the filter and of scrolling.
  await page.evaluate(() => new Promise((done) => requestIdleCallback(() => setTimeout(done, 1000))));
  if (filter) {
    found.filter = await page.evaluate(async ({ filter, queries }) => {
      const input = document.querySelector(filter);
      const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
      const times = [];
      for (const query of queries) {
        const start = performance.now();
        set.call(input, query);
        input.dispatchEvent(new Event('input', { bubbles: true }));
        input.dispatchEvent(new Event('change', { bubbles: true }));
        input.form?.requestSubmit();
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - start);
      }
      return Math.round(Math.max(...times));
    }, { filter, queries });
  }
  found.scroll = await page.evaluate(async (port) => {
    const scrolled = port ? document.querySelector(port) : document.scrollingElement;
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < 120; i++) {
      scrolled.scrollTop += 331;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    return Math.round(times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)]);
  }, port);
  await page.close();
  return found;
};
