// A session that runs. Arguments: the command, the folder with the trace.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { cells, counted, open, rows, until, withBrowser } from './browser.mjs';

const [command, folder] = process.argv.slice(2);
const file = `${folder}/live.jsonl`;
const started = Date.parse('2026-01-02T03:04:05Z');
let seq = 0;

function request(id, torn) {
  seq++;
  const at = (Date.now() - started) * 1000;
  const line = JSON.stringify({ seq, at, dir: 'c2s', kind: 'request', id, method: `call${id}`, msg: { jsonrpc: '2.0', id, method: `call${id}` } });
  appendFileSync(file, torn ? line.slice(0, 20) : `${line}\n`);
  return torn ? line.slice(20) : { of: seq, at };
}

function answer(id, { of, at }) {
  seq++;
  appendFileSync(file, `${JSON.stringify({ seq, at: at + 5000, dir: 's2c', kind: 'response', id, of, took: 5000, msg: { jsonrpc: '2.0', id, result: 1 } })}\n`);
}

function serve(port) {
  const server = spawn(command, ['watch', folder, '--port', String(port)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.on('exit', resolve));
  const url = new Promise((resolve) => server.stdout.once('data', (data) => resolve(String(data).trim())));
  return { server, ended, url };
}

const first = serve(0);
const url = await first.url;

await withBrowser(async (browser) => {
  const { page } = await open(browser, url);
  await page.waitForSelector('.empty >> text=No records yet');

  // Records appear; a half line appears when it is complete.
  const one = request(1);
  await counted(page, '1 record');
  const rest = request(2, true);
  answerLater: {
    appendFileSync(file, `${rest}\n`);
    await counted(page, '2 records');
  }

  // The clock of a pending request runs; an answer stops it.
  await page.keyboard.press('2');
  await rows(page);
  assert.deepEqual(await cells(page, 'state'), ['pending', 'pending']);
  const clock = (await cells(page, 'took'))[1];
  await until('the clock runs', async () => (await cells(page, 'took'))[1] !== clock);
  answer(1, one);
  await until('the answer is shown', async () => (await cells(page, 'state'))[0] === 'answered');
  assert.equal((await cells(page, 'took'))[0], '5.00 ms');

  // A second session appears in the list, and does not replace this one.
  writeFileSync(`${folder}/other.jsonl`, '{"duet":1,"session":"other","command":["other-server"]}\n');
  await until('the session is listed', async () => /other-server/.test(await page.textContent('.menu')));
  assert.match(await page.textContent('.session'), /clangd/);

  // The file is deleted while the page is open.
  rmSync(file);
  await page.waitForSelector('#banner >> text=was deleted');
  await page.keyboard.press('1');
  await rows(page);
  assert.equal((await cells(page, 'method'))[0], 'call1');

  // The server outlives a page that is closed.
  const other = await open(browser, url);
  await other.page.waitForSelector('.session');
  await other.context.close();
  assert.ok((await fetch(url)).ok);

  // The server goes and comes back at the same port, with another token.
  first.server.kill('SIGTERM');
  assert.equal(await first.ended, 0);
  await page.waitForSelector('#banner >> text=Connection to duet-rpc watch lost');
  const second = serve(new URL(url).port);
  const renewed = await second.url;
  await page.waitForSelector('#banner >> text=started again');
  await page.goto(renewed);
  await page.waitForSelector('.session >> text=other-server');
  assert.ok(await page.isHidden('#banner'));
  second.server.kill('SIGINT');
  assert.equal(await second.ended, 0);
});
