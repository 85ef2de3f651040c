// A tap that is killed while the page is open, and a page that is closed while the tap runs. Arguments: the command, the
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
});
