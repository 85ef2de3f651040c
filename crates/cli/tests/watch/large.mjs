// A large trace. Arguments: the address of the page, the process id of the server.
import assert from 'node:assert/strict';
import { counted, memory, open, pageMemory, rows, until, withBrowser } from './browser.mjs';

const [url, server] = process.argv.slice(2);
const LIMIT = 400;

await withBrowser(async (browser, process) => {
  const { page, problems } = await open(browser, url);
  await rows(page);
  await until('the index is complete', () => page.evaluate(() => app.summary?.indexed === app.summary?.bytes));
  await until('all records are counted', async () => /^100,0\d\d records$/.test(await page.textContent('#count')));

  // Jumps to everywhere, and step by step through a part.
  const frames = await page.evaluate(async () => {
    const list = document.querySelector('.list');
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    const times = [];
    let seed = 7;
    for (let step = 0; step < 300; step++) {
      seed = (seed * 48271) % 2147483647;
      list.scrollTop = step % 2 ? list.scrollTop + 400 : (seed / 2147483647) * list.scrollHeight;
      const begin = performance.now();
      await frame();
      times.push(performance.now() - begin);
    }
    return times.sort((a, b) => a - b);
  });
  await rows(page);
  const elements = await page.evaluate(() => document.querySelectorAll('.row').length);
  assert.ok(elements < 200, `${elements} rows are elements`);

  await page.keyboard.press('G');
  await until('the last record is selected', async () => /end/.test(await page.textContent('.row.selected')));
  for (const view of ['2', '3', '4', '5', '1']) {
    await page.keyboard.press(view);
    await page.waitForSelector(view === '5' ? '.methods td' : '.row:not(.loading)');
  }
  await page.fill('#filter', 'text:"line\\":399"');
  await until('the filter is done', async () => / of 100,0/.test(await page.textContent('#count')) && (await page.isHidden('#progress')));
  await page.fill('#filter', 'is:unanswered');
  await until('one is found', async () => /^1 of /.test(await page.textContent('#count')));

  const [shown, served] = [pageMemory(process), memory(server)];
  console.log(`100,000 records: page ${shown.toFixed(0)} MB, server ${served.toFixed(0)} MB, ` +
    `frame p50 ${frames[150].toFixed(1)} ms, p95 ${frames[285].toFixed(1)} ms, max ${frames[299].toFixed(1)} ms`);
  assert.ok(shown < LIMIT, `the page has ${shown} MB`);
  assert.ok(served < LIMIT, `the server has ${served} MB`);
  assert.deepEqual(problems, []);
});
