// Makes the pictures of docs/api.md. Arguments: the address of the page, the folder for the pictures.
import { open, withBrowser } from '../watch/browser.mjs';

const [url, folder] = process.argv.slice(2);
const PICTURES = [
  ['page', { viewport: { width: 1120, height: 640 } }, '#method-books.lend'],
  ['phone', { viewport: { width: 390, height: 760 } }, '#method-books.find'],
];

await withBrowser(async (browser) => {
  for (const [name, options, place] of PICTURES) {
    const { context, page } = await open(browser, url, { reducedMotion: 'reduce', ...options });
    // The script of the page scrolls smoothly; a picture needs the end.
    await page.evaluate((id) => document.getElementById(id).scrollIntoView({ behavior: 'instant' }), place.slice(1));
    await page.screenshot({ path: `${folder}/${name}.png` });
    await context.close();
  }
});
