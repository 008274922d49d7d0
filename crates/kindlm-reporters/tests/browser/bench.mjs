// Measures the page with 10,000 cases against its time budgets, at full speed and at a quarter of it.
import { statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const file = `${process.env.KINDLM_PAGES ?? '/tmp/pages'}/huge.html`;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
const say = (what, measured, budget, unit) => console.log(`${measured <= budget ? 'ok  ' : 'OVER'} ${what}: ${measured} ${unit}, budget ${budget}`);
say('file', statSync(file).size, 8_000_000, 'bytes');
for (const slower of [1, 4]) {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate: slower });
  await page.goto(pathToFileURL(file).href + '#cases');
  await page.waitForSelector('html[data-ready]', { state: 'attached' });
  const at = `${slower}x`;
  say(`ready ${at}`, Number(await page.locator('html').getAttribute('data-ready')), slower === 1 ? 2000 : 4000, 'ms');
  say(`elements ${at}`, await page.locator('*').count(), 1500, '');
  await page.waitForTimeout(1500);
  const filter = await page.evaluate(async () => {
    const times = [];
    for (const query of ['e', 'er', 's:failed', 'ms>500 !an', '']) {
      const start = performance.now();
      const input = document.querySelector('#query');
      input.value = query;
      input.dispatchEvent(new Event('input'));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      times.push(performance.now() - start);
    }
    return Math.max(...times);
  });
  say(`filter to paint ${at}`, Math.round(filter), slower === 1 ? 100 : 400, 'ms');
  const frames = await page.evaluate(async () => {
    const port = document.querySelector('#port');
    const times = [];
    let last = await new Promise(requestAnimationFrame);
    for (let i = 0; i < 120; i++) {
      port.scrollTop += 331;
      const now = await new Promise(requestAnimationFrame);
      times.push(now - last);
      last = now;
    }
    return times.sort((a, b) => a - b)[Math.floor(times.length * 0.95)];
  });
  say(`scroll p95 ${at}`, Math.round(frames), slower === 1 ? 25 : 50, 'ms');
  await page.close();
}
await browser.close();
