// The page of `api show --html`. Arguments: the address of the page of the library, and of one with hostile texts.
import assert from 'node:assert/strict';
import { open, withBrowser } from '../watch/browser.mjs';

const [library, hostile] = process.argv.slice(2);
const shown = (page) => page.evaluate(() => [...document.querySelectorAll('article')].filter((it) => !it.hidden).map((it) => it.querySelector('h3 code').textContent));

await withBrowser(async (browser) => {
  const { page, problems } = await open(browser, library);
  assert.equal(await page.title(), 'Library 2.1.0');
  assert.deepEqual(await shown(page), ['log', 'books.find', 'books.lend', 'books.all', 'confirm', 'BookId', 'Book', 'Borrowing']);
  // The search looks at everything that an entry shows, and `/` goes there.
  await page.keyboard.press('/');
  await page.keyboard.type('already card');
  assert.deepEqual(await shown(page), ['books.lend']);
  assert.equal(await page.isVisible('#none'), false);
  await page.keyboard.type(' zebra');
  assert.deepEqual(await shown(page), []);
  assert.equal(await page.isVisible('#none'), true);
  await page.keyboard.press('Escape');
  assert.equal((await shown(page)).length, 8);
  // A link to a type that the search hides shows it again.
  await page.fill('#search', 'finds');
  await page.click('article a[href="#type-Book"]');
  await page.waitForFunction(() => !document.getElementById('type-Book').hidden);
  assert.deepEqual(problems, []);

  // Every view fits its width, light and dark.
  for (const colorScheme of ['light', 'dark']) {
    for (const width of [320, 390, 800, 1280]) {
      const { context, page, problems } = await open(browser, library, { colorScheme, viewport: { width, height: 700 } });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} of ${width} pixels`);
      const [paper, ink] = await page.evaluate(() => { const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]; });
      assert.notEqual(paper, ink);
      assert.equal(paper === 'rgb(255, 255, 255)', colorScheme === 'light');
      assert.deepEqual(problems, []);
      await context.close();
    }
  }

  // Texts of a document stay texts.
  const attack = await open(browser, hostile);
  const counts = await attack.page.evaluate(() => [document.scripts.length, document.images.length, document.querySelectorAll('iframe, object, form, b').length, window.pwned]);
  assert.deepEqual(counts, [1, 0, 0, undefined]);
  const links = await attack.page.evaluate(() => [...document.links].filter((it) => !it.getAttribute('href').startsWith('#')).length);
  assert.equal(links, 0);
  assert.deepEqual(await shown(attack.page), ['"><img src=x onerror=window.pwned=1>', '</script><script>window.pwned=1</script>', "'><b>t"]);
  assert.deepEqual(attack.problems, []);
});
