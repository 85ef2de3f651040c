// Makes the pictures of docs/watch.md. Arguments: the address of the page, the folder for the pictures.
import { open, rows, until, withBrowser } from './browser.mjs';

const [url, folder] = process.argv.slice(2);
const desk = { viewport: { width: 1120, height: 560 } };
const phone = { viewport: { width: 390, height: 700 } };

/** Each picture: its name, the state in the address, and what to wait for. */
const PICTURES = [
  ['table', desk, 'v=table&q=textDocument -kind:notification&r=41'],
  ['pairs', { viewport: { width: 1120, height: 420 } }, 'v=pairs&sort=took'],
  ['timeline', { ...desk, colorScheme: 'dark' }, 'v=timeline&from=3100000&to=3900000'],
  ['sequence', desk, 'v=sequence'],
  ['statistics', { ...desk, viewport: { width: 1120, height: 600 } }, 'v=stats'],
  ['detail', { ...desk, colorScheme: 'dark' }, 'v=table&r=41&tab=diff'],
  ['phone', phone, 'v=table&q=took:>150ms'],
];

await withBrowser(async (browser) => {
  for (const [name, options, state] of PICTURES) {
    const { context, page } = await open(browser, url, options);
    await rows(page);
    await page.evaluate((state) => (location.hash = `s=long.jsonl&${state}`), state);
    if (state.includes('v=stats')) await page.waitForSelector('.methods td');
    else await rows(page);
    if (state.includes('r=')) await until('the record is shown', () => page.evaluate(() => !/Loading|^$/.test(document.querySelector('#detail .body')?.textContent ?? '')));
    if (name === 'detail') {
      await page.click('text=Compare with the previous one');
      await page.waitForSelector('.diff');
    }
    // Plots are drawn in the frame after their data has come.
    await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 400)));
    await page.screenshot({ path: `${folder}/${name}.png` });
    await context.close();
  }
});
