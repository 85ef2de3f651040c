// Content that tries to break out of the page. Argument: the address of the page.
import assert from 'node:assert/strict';
import { cells, counted, open, pageMemory, rows, until, withBrowser } from './browser.mjs';

const [url] = process.argv.slice(2);

await withBrowser(async (browser, process) => {
  const { page, problems } = await open(browser, url);
  await counted(page, '8 records');
  await rows(page);
  const scripts = () => page.evaluate(() => [document.scripts.length, document.images.length]);
  const before = await scripts();

  // Hidden characters are shown as escapes, in the order in which they stand.
  const methods = await cells(page, 'method');
  assert.equal(methods[1], 'safe\\u{202e}gnp.exe\\u{2066}\\u{200b}\\u{feff}\\u{0}\\u{7f}');
  assert.match(methods[0], /^<\/script><script>window\.pwned=1/);

  for (const view of ['2', '3', '4', '5', '1']) {
    await page.keyboard.press(view);
    await page.waitForSelector(view === '5' ? '.methods td' : '.row:not(.loading)');
  }
  // Every record in every form.
  await rows(page);
  for (let record = 0; record < 8; record++) {
    for (const tab of ['tree', 'raw', 'hex', 'diff']) {
      await page.evaluate(([record, tab]) => (location.hash = `s=hostile.jsonl&r=${record}&tab=${tab}&base=1`), [record, tab]);
      await until(`record ${record} as ${tab}`, () => page.evaluate(([record, tab]) => {
        const head = document.querySelector('#detail .detail-head')?.textContent ?? '';
        const isLoaded = !/Loading/.test(document.querySelector('#detail .body')?.textContent ?? 'Loading');
        const chosen = document.querySelector('#detail [role=tab][aria-selected=true]')?.textContent ?? '';
        return head.includes(`#${record + 1}`) && chosen.toLowerCase() === tab && isLoaded;
      }, [record, tab]));
    }
  }
  // The largest body is shown in pieces.
  await page.evaluate(() => (location.hash = 's=hostile.jsonl&r=6&tab=raw'));
  await page.waitForSelector('.raw >> text=Show more');
  const length = await page.evaluate(() => document.querySelector('.raw').textContent.length);
  assert.ok(length < 1_000_000, `${length} characters are shown`);

  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(await scripts(), before);
  const handlers = await page.evaluate(() => [...document.querySelectorAll('*')].flatMap((it) => it.getAttributeNames()).filter((it) => it.startsWith('on')));
  assert.deepEqual(handlers, []);
  const shown = pageMemory(process);
  console.log(`hostile content: page ${shown.toFixed(0)} MB`);
  assert.ok(shown < 400, `the page has ${shown} MB`);
  assert.deepEqual(problems, []);
});
