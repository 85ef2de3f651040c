// A tap that is killed while the page is open, a page that is closed while the tap runs, and the page of `tap --web`. Arguments: the command, the
// address of the page, the folder that it shows.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cells, counted, open, rows, until, withBrowser } from './browser.mjs';

const [command, url, folder] = process.argv.slice(2);

function tap(name, ...server) {
  const started = spawn(command, ['tap', '--to', `${folder}/${name}.jsonl`, '--', ...server], { stdio: ['pipe', 'pipe', 'ignore'] });
  const answers = [];
  started.stdout.on('data', (data) => answers.push(...String(data).split('\n').filter(Boolean)));
  const send = (id) => started.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method: 'system.ping' })}\n`);
  return { started, answers, send, ended: new Promise((resolve) => started.on('exit', (code, signal) => resolve(code ?? signal))) };
}

await withBrowser(async (browser) => {
  // A server that never answers.
  const silent = tap('silent', 'sh', '-c', 'cat > /dev/null');
  silent.send(1);
  const { context, page, problems } = await open(browser, url);
  await page.keyboard.press('2');
  await counted(page, '1 request');
  await rows(page);
  assert.deepEqual(await cells(page, 'state'), ['pending']);
  silent.started.kill('SIGKILL');
  await silent.ended;
  await page.waitForSelector('.session .dot.stopped');
  await until('the request is lost', async () => (await cells(page, 'state'))[0] === 'no answer');

  // The page goes; the tap goes on.
  const alive = tap('alive', command, 'rpc', '--profile', 'agent');
  alive.send(1);
  await until('the answer comes', () => alive.answers.length === 1);
  await until('the session is listed', async () => (await page.$$('.menu button')).length === 2);
  assert.deepEqual(problems, []);
  await context.close();
  alive.send(2);
  await until('the second answer comes', () => alive.answers.length === 2);
  alive.started.stdin.end();
  assert.equal(await alive.ended, 0);

  // The page of one tap, while it runs.
  const shown = spawn(command, ['tap', '--web', '--to', `${folder}/shown.jsonl`, '--', command, 'rpc', '--profile', 'agent', '--log-level', 'error']);
  const said = await new Promise((resolve) => shown.stderr.once('data', (data) => resolve(String(data))));
  const [, own] = said.match(/^duet-rpc: watch it at (http:\S+)\n$/);
  const ended = new Promise((resolve) => shown.on('exit', resolve));
  const live = await open(browser, own);
  shown.stdin.write('{"jsonrpc":"2.0","id":1,"method":"system.ping"}\n');
  await counted(live.page, '2 records');
  assert.deepEqual(live.problems, []);
  shown.stdin.end();
  assert.equal(await ended, 0);
});
