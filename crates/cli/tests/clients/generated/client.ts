// Test of a generated TypeScript client with a real server (A9).
//
// Environment: SERVER is the server, PATIENCE the time limit in seconds. Exits with 0 if and only if all checks passed.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { createMessageConnection, ResponseError, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { DescribedClient, NoSuchThingError, TooLargeError, type Tree } from './described-client';

const HOUR = 3_600_000;

async function shapes(client: DescribedClient): Promise<void> {
  assert.equal(await client.add({ a: 1 }), 2);
  assert.equal(await client.add({ a: 1, b: 41 }), 42);
  const tree: Tree = { nodeName: 'a', children: [{ nodeName: 'b' }, { nodeName: 'ü🦀', children: [] }] };
  const turned = await client.reverse({ tree });
  assert.deepEqual(turned.children.map(({ nodeName }) => nodeName), ['ü🦀', 'b']);
  const figures = { a: { kind: 'circle', radius: 2 }, 'b b': { kind: 'box', width: 2, height: 5 } } as const;
  assert.deepEqual(await client.areas({ figures }), { a: 12, 'b b': 10 });
  assert.deepEqual(await client.swap({ pair: [7, 'x'] }), ['x', 7]);
  assert.deepEqual(await client.echo({ class: 'c' }), ['c', null, false]);
  assert.deepEqual(await client.echo({ class: 'c', none: null, flag: true }), ['c', null, true]);
  assert.deepEqual(await client.echo({ class: 'c', none: 3 }), ['c', 3, false]);
}

async function errors(client: DescribedClient): Promise<void> {
  await assert.rejects(client.add({ a: 1_000_000, b: 1 }), (error: unknown) => {
    assert.ok(error instanceof TooLargeError && error instanceof ResponseError, String(error));
    assert.deepEqual([error.code, error.message, error.data], [1001, 'Too large', { limit: 1_000_000 }]);
    return true;
  });
  await assert.rejects(client.fail(), NoSuchThingError);
}

async function cancellation(client: DescribedClient): Promise<void> {
  const timeout = client.sleep({ ms: HOUR }, { signal: AbortSignal.timeout(10) });
  await assert.rejects(timeout, { name: 'TimeoutError' });
  const controller = new AbortController();
  const call = client.sleep({ ms: HOUR }, { signal: controller.signal });
  controller.abort(new Error('enough'));
  await assert.rejects(call, /enough/);
  await assert.rejects(client.sleep({ ms: HOUR }, { signal: controller.signal }), /enough/);
  while ((await client.running()) !== 0) await pause(10);
}

async function callbacks(client: DescribedClient, told: readonly string[]): Promise<void> {
  assert.equal(await client.ask({ question: 'really?' }), 'no');
  assert.deepEqual(told, ['asked: really?']);
  await assert.rejects(client.ask({ question: 'fail?' }), (error: unknown) => {
    assert.ok(error instanceof TooLargeError, String(error));
    assert.deepEqual(error.data, { limit: 3 });
    return true;
  });
}

async function load(client: DescribedClient): Promise<void> {
  const numbers = Array.from({ length: 1_000 }, (_, number) => number);
  const sums = await Promise.all(numbers.map((number) => client.add({ a: number, b: number })));
  assert.deepEqual(sums, numbers.map((number) => 2 * number));
  for (let count = 0; count < 100; count++) await client.count({ by: 1 });
  while ((await client.counted()) < 100) await pause(10);
  assert.equal(await client.counted(), 100);
}

async function main(): Promise<void> {
  const server = spawn(process.env['SERVER'] ?? '', ['lsp'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exit = once(server, 'exit');
  const connection = createMessageConnection(new StreamMessageReader(server.stdout), new StreamMessageWriter(server.stdin));
  const client = new DescribedClient(connection);
  const told: string[] = [];
  client.serve({
    userChoose({ question, choices }) {
      if (question === 'fail?') throw new TooLargeError('from the user', { limit: 3 });
      return choices[choices.length - 1] ?? '';
    },
    userTell({ text }) {
      told.push(text);
    },
  });
  connection.listen();
  await shapes(client);
  await errors(client);
  await cancellation(client);
  await callbacks(client, told);
  await load(client);
  server.stdin.end();
  assert.deepEqual(await exit, [0, null]);
  connection.dispose();
}

const fail = (problem: unknown): never => {
  console.error(problem);
  process.exit(1);
};
setTimeout(() => fail('nothing more came in time'), Number(process.env['PATIENCE'] ?? 60) * 1_000).unref();
main().catch(fail);
