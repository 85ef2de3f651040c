// The types of the methods match the tested daemon.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Daemon } from '../src/index';
import { check, program, withDaemon } from './support';

const ROOT = join(__dirname, '..', '..');

check('src/methods.ts is the output of the generator', () => {
  const env = { ...process.env, DUET_RPC: program('DUET_RPC') };
  const generator = join(ROOT, 'scripts', 'generate.mjs');
  const text = execFileSync(process.execPath, [generator, '--print'], { encoding: 'utf8', env });
  assert.equal(readFileSync(join(ROOT, 'src', 'methods.ts'), 'utf8'), text, 'run `npm run generate`');
});

check('the OpenRPC document matches its type', () =>
  withDaemon({ profile: 'agent' }, async (daemon) => {
    const { openrpc, info, methods } = await daemon.request('rpc.discover');
    assert.match(openrpc, /^1\./);
    assert.deepEqual([info.title, info.version], ['duet-rpc', '0.1.0']);
    const described = await daemon.request('describeMethods');
    assert.deepEqual(methods.map(({ name }) => name), described.map(({ name }) => name));
    for (const { summary, params, result } of methods) {
      assert.ok(summary !== '' && Array.isArray(params) && result !== undefined);
    }
  }));

// The compiler checks these: each `@ts-expect-error` is followed by an error.
export function types(daemon: Daemon<'agent'>, editor: Daemon<'editor'>): unknown[] {
  const version: Promise<{ version: string }> = daemon.request('version');
  // @ts-expect-error The result has another type.
  const wrong: Promise<number> = daemon.request('version');
  return [
    version,
    wrong,
    daemon.request('setLogLevel', { level: 'debug' }, { timeout: 1 }),
    daemon.request('setLogLevel', ['debug']),
    daemon.request('system.echo'),
    daemon.request('system.callback', { method: 'm' }),
    daemon.request('system.callback', ['m', { a: 1 }]),
    // @ts-expect-error It needs params.
    daemon.request('setLogLevel'),
    // @ts-expect-error There is no such level.
    daemon.request('setLogLevel', { level: 'loud' }),
    // @ts-expect-error There is no such method.
    daemon.request('no.such.method'),
    // @ts-expect-error The daemon would be restarted after `shutdown`; use `stop`.
    daemon.request('shutdown'),
    // @ts-expect-error The editor profile does not serve it.
    editor.request('system.ping'),
    // @ts-expect-error It takes no params.
    daemon.request('version', { a: 1 }),
    // @ts-expect-error There is no such topic.
    daemon.onEvent('news', () => undefined),
    daemon.onEvent('stats', ({ data }) => data.messages.toFixed()),
  ];
}
