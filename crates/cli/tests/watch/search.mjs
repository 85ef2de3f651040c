// A new user looks for three faults in 5,000 messages. Argument: the address of the page.
import assert from 'node:assert/strict';
import { cells, counted, open, rows, until, withBrowser } from './browser.mjs';

const [url] = process.argv.slice(2);

await withBrowser(async (browser) => {
  const { page, problems } = await open(browser, url);
  await rows(page);

  // The stray print has a button of its own.
  await page.click('#quick >> text=Noise');
  await until('one record is left', async () => /^1 of /.test(await page.textContent('#count')));
  assert.match((await cells(page, 'brief'))[0], /cache miss/);
  await page.click('#clear');

  // So have the lost request and the slow one.
  await page.keyboard.press('2');
  await page.click('#quick >> text=No answer');
  await until('the lost request is left', async () => (await cells(page, 'state')).join() === 'no answer');
  await page.click('#quick >> text=Late');
  await until('the slow request is left', async () => (await cells(page, 'state')).join() === 'late');
  assert.deepEqual(await cells(page, 'took'), ['2.40 s']);
  assert.deepEqual(problems, []);
});
