// Start, crash, restart and stop of a daemon.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Daemon, DaemonError, type DaemonOptions, type StateChange } from '../src/index';
import { check, isAlive, ManualClock, next, program, testbed, withDaemon, withTestbed } from './support';
import type { TestMethods } from './support';

const HOUR = 3_600_000;
const AGENT = { profile: 'agent' } as const;
const BACKOFF = { first: 100, factor: 2, most: 350, jitter: 0.5 };

/** Checks the code and the message of a `DaemonError`. */
const is = (code: DaemonError['code'], text = /./) => (error: unknown): boolean => {
  assert.ok(error instanceof DaemonError, String(error));
  assert.match(error.message, text);
  assert.equal(error.code, code);
  return true;
};

/** Waits until all ready callbacks have run. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waits until no process and no timer is left. Node closes its handles a moment after their close events; if
 * one stays open, the test times out. */
async function nothingIsLeft(): Promise<void> {
  const isLeft = (name: string): boolean => name === 'ProcessWrap' || name === 'Timeout';
  while (process.getActiveResourcesInfo().some(isLeft)) await turn();
}

/** A Node script in its own folder, as a program. */
async function withScript(text: string, act: (options: DaemonOptions<'agent'>) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'duet-rpc-'));
  try {
    const script = join(folder, 'script.js');
    writeFileSync(script, text);
    await act({ ...AGENT, program: process.execPath, argv: [script] });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

check('the daemon starts once, stops with status 0, and leaves nothing behind', async () => {
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC') });
  const states: string[] = [];
  daemon.onState(({ state }) => states.push(state));
  await assert.rejects(daemon.request('version'), is('stopped'));
  for (let round = 0; round < 2; round++) {
    await Promise.all([daemon.start(), daemon.start()]);
    await daemon.start();
    const { pid = 0 } = daemon;
    assert.ok(isAlive(pid));
    const stop = daemon.stop();
    await assert.rejects(daemon.request('version'), is('stopped'));
    await assert.rejects(daemon.start(), is('stopped'));
    assert.deepEqual(await Promise.all([stop, daemon.stop()]), Array(2).fill({ code: 0, signal: null }));
    assert.equal(isAlive(pid), false);
    assert.equal(daemon.pid, undefined);
  }
  assert.deepEqual(states, Array(2).fill(['starting', 'running', 'stopping', 'stopped']).flat());
  await nothingIsLeft();
});

check('calls that are made while the daemon starts wait for it', async () => {
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC'), maxWaiting: 2 });
  const start = daemon.start();
  const calls = [daemon.request('version'), daemon.request('system.ping')];
  await assert.rejects(daemon.request('version'), is('overloaded'));
  await assert.rejects(daemon.notify('version'), is('died'));
  assert.deepEqual(await Promise.all(calls), [{ version: '0.1.0' }, 'pong']);
  await start;
  await daemon.stop();
});

check('onLog gets each line of stderr, even if it throws', async () => {
  const lines: string[] = [];
  const problems: string[] = [];
  const onLog = (line: string): void => {
    lines.push(line);
    throw new Error('no');
  };
  const env = { ...process.env, NO_COLOR: '1' };
  const args = ['--log-level', 'debug'];
  const daemon = new Daemon({ profile: 'editor', program: program('DUET_RPC'), onLog, env, args });
  daemon.onProblem((error) => problems.push(error.message));
  await daemon.start();
  for (let count = 0; count < 500; count++) await daemon.request('version');
  await daemon.stop();
  assert.match(lines[0] ?? '', /^\S+ INFO  duet-rpc started .*profile=editor framing=lsp$/);
  assert.ok(lines.filter((line) => line.includes('method=version')).length >= 500);
  assert.ok(lines.some((line) => line.includes('asked to shut down, shutting down gracefully')));
  assert.deepEqual(problems, lines.map(() => 'onLog failed'));
});

check('a missing program, or one that fails at its start, is reported immediately', async () => {
  const rows: [Partial<DaemonOptions<'agent'>>, DaemonError['code'], RegExp][] = [
    [{ program: '/no/such/program' }, 'not-started', /\/no\/such\/program cannot be started: .*ENOENT/],
    [{ program: tmpdir() }, 'not-started', /EACCES/],
    [{ cwd: '/no/such/folder' }, 'not-started', /in \/no\/such\/folder: .*ENOENT/],
    [{ args: ['--no-such-option'] }, 'died', /ended with status 2; last lines of stderr:[^]*--no-such-option/],
    [{ program: process.execPath, argv: ['-e', 'process.kill(process.pid, "SIGKILL")'] }, 'died', /ended by SIGKILL/],
    [{ program: process.execPath, argv: ['-e', ''] }, 'died', /ended with status 0$/],
  ];
  for (const [options, code, text] of rows) {
    const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC'), ...options });
    const start = daemon.start();
    const call = assert.rejects(daemon.request('version'), is(code, text));
    await assert.rejects(start, is(code, text));
    await call;
    assert.equal(daemon.state, 'failed', 'it is not started again');
    await assert.rejects(daemon.request('version'), is(code, text));
    await daemon.stop();
    assert.equal(daemon.state, 'stopped');
  }
});

check('invalid options are refused', () => {
  const rows = [
    { profile: 'none' }, { framing: 'ndjson' }, { timeout: -1 }, { grace: NaN }, { giveUpAfter: -1 },
    { backoff: { factor: 0.5 } }, { backoff: { jitter: 2 } }, { args: [], argv: [] }, { maxMessageBytes: 0 },
    { maxAnswerBytes: Infinity }, { maxAnswerBytes: 1.5 },
  ];
  for (const row of rows) assert.throws(() => new Daemon({ ...AGENT, ...row } as DaemonOptions), JSON.stringify(row));
});

check('a daemon that does not answer in time is stopped', () =>
  // It reads its stdin, never answers, and does not exit by itself.
  withScript('process.on("SIGTERM", () => {}); setInterval(() => {}, 1e6); console.error("ready")', async (options) => {
    const clock = new ManualClock();
    let onLog = (_line: string): void => undefined;
    const ready = new Promise<string>((resolve) => (onLog = resolve));
    const daemon = new Daemon({ ...options, clock, onLog, startTimeout: 10, grace: 20 });
    const started = assert.rejects(daemon.start(), is('timeout', /version was not answered within 10 ms/));
    assert.equal(await ready, 'ready');
    while (daemon.state !== 'failed') {
      await turn();
      clock.advance(10);
    }
    await started;
    assert.deepEqual(await daemon.stop(), { code: null, signal: 'SIGKILL' });
    assert.equal(clock.timers, 0);
  }));

check('a crash fails pending calls, and the daemon restarts after a growing delay', async () => {
  const clock = new ManualClock();
  const random = [0, 0.5, 0, 0, 0][Symbol.iterator]();
  const options = { ...testbed('agent', 'length'), clock, random: () => random.next().value ?? 0, backoff: BACKOFF };
  const daemon = new Daemon<'agent', TestMethods>({ ...options, giveUpAfter: 4, stableAfter: 1_000 });
  const changes: StateChange[] = [];
  daemon.onState((change) => void changes.push(change));
  await daemon.start();

  const dies = async (): Promise<StateChange> => {
    const { pid = 0 } = daemon;
    const waiting = next(daemon, 'waiting');
    const call = assert.rejects(daemon.request('test.sleep', { ms: HOUR }), is('died', /the daemon ended by SIGKILL/));
    process.kill(pid, 'SIGKILL');
    await call;
    assert.equal(isAlive(pid), false);
    return waiting;
  };
  const isBackAfter = async (delay: number): Promise<void> => {
    clock.advance(delay - 1);
    assert.equal(daemon.state, 'waiting');
    const call = daemon.request('version');
    await assert.rejects(daemon.notify('version'), is('died'));
    const start = daemon.start();
    clock.advance(1);
    assert.equal(daemon.state, 'starting');
    assert.deepEqual(await call, { version: '0.1.0' });
    await start;
  };

  for (const [deaths, delay] of [[1, 100], [2, 150], [3, 350], [4, 350]] as const) {
    const change = await dies();
    assert.deepEqual([change.deaths, change.delay], [deaths, delay]);
    assert.ok(change.error instanceof DaemonError);
    await isBackAfter(delay);
  }
  // It has run long enough, so the count of crashes starts again.
  clock.advance(1_000);
  const change = await dies();
  assert.deepEqual([change.deaths, change.delay], [1, 100]);
  await isBackAfter(100);
  await daemon.stop();
  assert.equal(clock.timers, 0);
  const pids = changes.filter(({ state }) => state === 'running').map(({ pid }) => pid);
  assert.equal(new Set(pids).size, 6);
});

check('after more than giveUpAfter crashes in a row the state is failed, until the next start', async () => {
  const clock = new ManualClock();
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC'), clock, giveUpAfter: 1 });
  await daemon.start();
  const kill = (): boolean => process.kill(daemon.pid ?? 0, 'SIGKILL');
  const waiting = next(daemon, 'waiting');
  kill();
  const { delay = 0 } = await waiting;
  const running = next(daemon, 'running');
  clock.advance(delay);
  await running;
  const failed = next(daemon, 'failed');
  kill();
  assert.ok(is('gave-up', /died 2 times in a row; last error: the daemon ended by SIGKILL/)((await failed).error));
  await assert.rejects(daemon.request('version'), is('gave-up'));
  await daemon.start();
  assert.deepEqual(await daemon.request('version'), { version: '0.1.0' });
  await daemon.stop();
});

check('failed restarts count as crashes, and waiting calls fail with the last error', () =>
  // It answers once, dies at the next request, and does not start again.
  withScript(
    `const fs = require('fs'), flag = __filename + '.flag';
    if (fs.existsSync(flag)) { console.error('not again'); process.exit(3); }
    fs.writeFileSync(flag, '');
    let count = 0;
    process.stdin.on('data', () => {
      if (count++) process.exit(4);
      const text = '{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found: version"}}';
      const head = Buffer.alloc(4);
      head.writeUInt32BE(text.length);
      process.stdout.write(Buffer.concat([head, Buffer.from(text + '\\n')]));
    });`,
    async (options) => {
      const clock = new ManualClock();
      const daemon = new Daemon({ ...options, clock, giveUpAfter: 2 });
      await daemon.start();
      const waiting = next(daemon, 'waiting');
      await assert.rejects(daemon.request('version'), is('died', /status 4/));
      await waiting;
      const text = /3 times in a row; [^]*status 3[^]*not again/;
      const call = assert.rejects(daemon.request('version'), is('gave-up', text));
      const failed = next(daemon, 'failed');
      const again = next(daemon, 'waiting');
      clock.advance(HOUR / 1_000);
      assert.equal((await again).deaths, 2);
      clock.advance(HOUR / 1_000);
      await failed;
      await call;
      await daemon.stop();
      assert.equal(clock.timers, 0);
    },
  ));

check('calls that wait for a restart end by their timeout, an abort, or a stop', async () => {
  const clock = new ManualClock();
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC'), clock, backoff: { first: HOUR, most: HOUR } });
  await daemon.start();
  const waiting = next(daemon, 'waiting');
  process.kill(daemon.pid ?? 0, 'SIGKILL');
  await waiting;
  const abort = new AbortController();
  const late = assert.rejects(daemon.request('version', null, { timeout: 5 }), is('timeout'));
  const aborted = assert.rejects(daemon.request('version', null, { signal: abort.signal }), { name: 'AbortError' });
  const stopped = assert.rejects(daemon.request('version', null, { timeout: 0 }), is('stopped'));
  clock.advance(5);
  abort.abort();
  await Promise.all([late, aborted]);
  assert.equal(await daemon.stop().then((exit) => exit?.signal), 'SIGKILL');
  await stopped;
  assert.equal(clock.timers, 0);
  assert.equal(daemon.state, 'stopped');
});

for (const framing of ['lsp', 'length'] as const) {
  check(`${framing}: answers that were written before a crash are received`, () =>
    // It answers the first request, then nothing until 100 more have arrived, then all of them together, and exits.
    withScript(
      `const isLsp = ${framing === 'lsp'};
      const frame = (id) => {
        const text = JSON.stringify({ jsonrpc: '2.0', id, result: id });
        const head = Buffer.alloc(4);
        head.writeUInt32BE(text.length);
        if (isLsp) return 'Content-Length: ' + text.length + '\\r\\n\\r\\n' + text;
        return head.toString('latin1') + text + '\\n';
      };
      let input = '';
      process.stdin.on('data', (piece) => {
        input += piece;
        const ids = [...input.matchAll(/"id":(\\d+)/g)].map(([, id]) => Number(id));
        if (ids.length === 1) process.stdout.write(frame(0));
        if (ids.length === 101) process.stdout.write(ids.slice(1).map(frame).join(''), () => process.exit(5));
      });`,
      async (options) => {
        const daemon = new Daemon({ ...options, framing, giveUpAfter: 0 });
        await daemon.start();
        const failed = next(daemon, 'failed');
        const answers = await Promise.all(Array.from({ length: 100 }, () => daemon.call('m')));
        assert.deepEqual(answers, Array.from({ length: 100 }, (_, index) => index + 1));
        assert.ok(is('gave-up', /status 5/)((await failed).error));
        await daemon.stop();
      },
    ));
}

check('a crash inside a message leaves nothing behind', () =>
  withScript(
    `const text = '{"jsonrpc":"2.0","id":0,"result":1}';
    process.stdin.once('data', () => {
      process.stdout.write('Content-Length: ' + text.length + '\\r\\n\\r\\n' + text);
      process.stdin.once('data', () => process.stdout.write('Content-Length: 9\\r\\n\\r\\n{', () => process.exit(6)));
    });`,
    async (options) => {
      const daemon = new Daemon({ ...options, framing: 'lsp', giveUpAfter: 0 });
      await daemon.start();
      await assert.rejects(daemon.call('m'), is('died', /status 6/));
      await daemon.stop();
      await nothingIsLeft();
    },
  ));

check('a daemon that closes its stdout is replaced', () =>
  withScript('require("fs").closeSync(1); process.stdin.on("end", () => process.exit(7)).resume()', async (options) => {
    await assert.rejects(new Daemon(options).start(), is('died', /status 7/));
  }));

check('stop ends the daemon in any state', async () => {
  // With a request that never ends, and with a request that blocks its thread, closing stdin is enough.
  for (const method of ['test.sleep', 'test.block']) {
    await withTestbed({ ...testbed('desktop', 'length'), grace: 2_500 }, async (daemon) => {
      const call = assert.rejects(daemon.call(method, { ms: HOUR }), is('stopped'));
      const { pid = 0 } = daemon;
      assert.deepEqual(await daemon.stop(), { code: 0, signal: null });
      await call;
      assert.equal(isAlive(pid), false);
    });
  }
  // Before it has answered for the first time.
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC') });
  const started = assert.rejects(daemon.start(), is('stopped'));
  await daemon.stop();
  await started;
  assert.equal(daemon.state, 'stopped');
  await new Daemon(AGENT).stop();

  // At each moment of its start, followed immediately by another start.
  for (let turns = 0; turns < 40; turns++) {
    const first = daemon.start().then(() => 'started', (error: DaemonError) => error.code);
    for (let count = 0; count < turns; count++) await turn();
    const isEarly = daemon.pid === undefined;
    await daemon.stop();
    await daemon.start();
    assert.deepEqual(await daemon.request('version'), { version: '0.1.0' });
    await daemon.stop();
    assert.ok(['stopped', ...(isEarly ? [] : ['started'])].includes(await first));
  }
});

check('a request that is running at stop is answered if there is time', () =>
  withDaemon({ profile: 'desktop' }, async (daemon) => {
    const call = daemon.request('system.ping');
    const stop = daemon.stop();
    assert.equal(await call, 'pong');
    assert.deepEqual(await stop, { code: 0, signal: null });
  }));

check('a listener of onState may start and stop the daemon', async () => {
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC'), giveUpAfter: 0 });
  // The failed daemon is started again, and calls to the new one do not fail with the error of the old one.
  const back = new Promise<unknown>((resolve) => {
    const listener = daemon.onState(({ state }) => {
      if (state !== 'failed') return;
      listener.dispose();
      resolve(Promise.all([daemon.start(), daemon.start(), daemon.request('version')]));
    });
  });
  await daemon.start();
  process.kill(daemon.pid ?? 0, 'SIGKILL');
  assert.deepEqual(await back, [undefined, undefined, { version: '0.1.0' }]);

  // A stop during a stop is the same stop. A later stop stops the daemon that was started in between.
  const states: string[] = [];
  const stops: Promise<unknown>[] = [];
  const starts: Promise<unknown>[] = [];
  daemon.onState(({ state }) => {
    states.push(state);
    if (state === 'stopping') stops.push(daemon.stop());
    if (state !== 'stopped' || starts.length > 0) return;
    starts.push(assert.rejects(daemon.start(), is('stopped')));
    stops.push(daemon.stop());
  });
  await daemon.stop();
  assert.deepEqual(await Promise.all(stops), Array(3).fill({ code: 0, signal: null }));
  await Promise.all(starts);
  assert.deepEqual(states, ['stopping', 'stopped', 'starting', 'stopping', 'stopped']);
  assert.equal(daemon.pid, undefined);
  await nothingIsLeft();
});

check('stop of a stopped daemon does not disturb the next start', async () => {
  const daemon = new Daemon({ ...AGENT, program: program('DUET_RPC') });
  const states: string[] = [];
  daemon.onState(({ state }) => states.push(state));
  const stop = daemon.stop();
  const start = daemon.start();
  assert.deepEqual(await daemon.request('version'), { version: '0.1.0' });
  await start;
  assert.equal(await stop, undefined);
  assert.deepEqual(states, ['starting', 'running']);
  await daemon.stop();
});

for (const framing of ['lsp', 'length'] as const) {
  check(`${framing}: a daemon that sends faster than we handle has to wait`, () =>
    // It answers the first request. After the next request it sends notifications until the pipe is full. Its log shows
    // their number.
    withScript(
      `const isLsp = ${framing === 'lsp'};
      const frame = (message) => {
        const text = JSON.stringify({ jsonrpc: '2.0', ...message });
        const head = Buffer.alloc(4);
        head.writeUInt32BE(text.length);
        return isLsp ? 'Content-Length: ' + text.length + '\\r\\n\\r\\n' + text : head.toString('latin1') + text + '\\n';
      };
      const send = (count) => {
        if (count % 500 === 0) console.error(count);
        if (count === 10000) return process.stdout.write(frame({ id: 1, result: count }));
        process.stdout.write(frame({ method: 'n', params: ['x'.repeat(1000)] }), () => send(count + 1));
      };
      process.stdin.once('data', () => {
        process.stdout.write(frame({ id: 0, result: 0 }));
        process.stdin.once('data', () => send(0));
      });`,
      async (options) => {
        let heard = 0;
        let ahead = 0;
        const onLog = (line: string): void => void (ahead = Math.max(ahead, Number(line) - heard));
        const daemon = new Daemon({ ...options, framing, onLog, grace: 1 });
        daemon.onNotification('n', () => void heard++);
        await daemon.start();
        assert.equal(await daemon.call('m'), 10_000);
        assert.equal(heard, 10_000);
        assert.ok(ahead < 3_000, `it was ${ahead} messages ahead`);
        await daemon.stop();
      },
    ));
}
