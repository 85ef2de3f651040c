// A page of another port of this machine: for a browser it is the same site. Argument: the address of the page.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { open, rows, withBrowser } from './browser.mjs';

const [url] = process.argv.slice(2);
const { host } = new URL(url);
const foreign = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>foreign</title>'));
await new Promise((resolve) => foreign.listen(0, '127.0.0.1', resolve));

await withBrowser(async (browser) => {
  // The cookie is there, as after a visit of the page.
  const { context, page } = await open(browser, url);
  await rows(page);
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${foreign.address().port}/`);
  const found = await other.evaluate(async (host) => {
    const read = (path) => fetch(`http://${host}${path}`, { credentials: 'include' }).then((it) => it.text(), () => 'refused');
    const connect = () => new Promise((resolve) => {
      const socket = new WebSocket(`ws://${host}/rpc`);
      socket.onopen = () => resolve('open');
      socket.onerror = () => resolve('refused');
    });
    const frame = () => new Promise((resolve) => {
      const element = document.createElement('iframe');
      element.src = `http://${host}/`;
      element.onload = () => { try { resolve(element.contentDocument ? 'readable' : 'refused'); } catch { resolve('refused'); } };
      document.body.append(element);
    });
    return [await read('/'), await read('/main.js'), await connect(), await frame()];
  }, host);
  assert.deepEqual(found, ['refused', 'refused', 'refused', 'refused']);
});
foreign.close();
