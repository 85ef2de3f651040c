// Calls in both directions, with each profile and framing.

import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { CancellationTokenSource, DaemonError, ResponseError } from '../src/index';
import type { DaemonEvent, Framing, Profile } from '../src/index';
import { check, testbed, withDaemon, withTestbed } from './support';

const WAYS: [Profile, Framing][] = [
  ['editor', 'lsp'],
  ['editor', 'length'],
  ['desktop', 'lsp'],
  ['desktop', 'length'],
  ['agent', 'lsp'],
  ['agent', 'length'],
];
/** A time in milliseconds that no test reaches. */
const HOUR = 3_600_000;

const failure = (error: unknown): object => {
  assert.ok(error instanceof ResponseError, String(error));
  const { code, message, data } = error;
  return data === undefined ? { code, message } : { code, message, data };
};

for (const [profile, framing] of WAYS) {
  check(`${profile} over ${framing}: results, and errors with their data`, () =>
    withDaemon({ profile, framing }, async (daemon) => {
      assert.deepEqual(await daemon.request('version'), { version: '0.1.0' });
      const introduction = { serverInfo: { name: 'duet-rpc', version: '0.1.0' }, protocolVersion: '2.0' };
      assert.deepEqual(await daemon.request('initialize', {}), introduction);
      assert.deepEqual(await daemon.request('setLogLevel', { level: 'warn' }), { level: 'warn', success: true });
      assert.deepEqual(await daemon.request('setLogLevel', ['info']), { level: 'info', success: true });
      await assert.rejects(daemon.call('no.such.method'), (error) => {
        assert.deepEqual(failure(error), { code: -32601, message: 'Method not found: no.such.method' });
        return true;
      });
      await assert.rejects(daemon.call('setLogLevel', { level: 'loud' }), (error) => {
        const accepted = ['debug', 'info', 'warn', 'error'];
        const { code, data } = failure(error) as { code: number; data: { accepted: string[]; received: string } };
        assert.deepEqual([code, data.accepted, data.received], [-32602, accepted, 'loud']);
        return true;
      });
      await assert.rejects(daemon.call('version', 'a string'), (error) => {
        assert.equal((failure(error) as { code: number }).code, -32600);
        return true;
      });
      const listed = await daemon.request('listMethods');
      assert.equal(listed.length, { editor: 6, desktop: 11, agent: 12 }[profile]);
    }));
}

for (const framing of ['lsp', 'length'] as const) {
  check(`${framing}: params are echoed unchanged`, () =>
    withDaemon({ profile: 'agent', framing }, async (daemon) => {
      const long = 'ü漢😀'.repeat(40_000);
      const values = [undefined, null, {}, [], [[]], [1, 'two', null], { a: [{}] }, ['é\u0000\u2028\n'], [long]];
      for (const value of values) assert.deepEqual(await daemon.request('system.echo', value), value ?? null);
      // A value with `toJSON` is converted by it, once.
      const own = { toJSON: (key: string) => ({ key, toJSON: () => 'twice' }) };
      assert.deepEqual(await daemon.call('system.echo', own), { key: 'params' });
      const numbers = Array.from({ length: 1_000 }, (_, number) => number);
      const answers = await Promise.all(numbers.map((number) => daemon.request('system.echo', [number])));
      assert.deepEqual(answers, numbers.map((number) => [number]));
    }));

  check(`${framing}: a message that cannot be sent fails its call, and no other`, () =>
    withDaemon({ profile: 'desktop', framing, maxMessageBytes: 1_000 }, async (daemon) => {
      await assert.rejects(daemon.request('system.echo', ['x'.repeat(1_000)]), RangeError);
      const round: Record<string, unknown> = {};
      round['self'] = round;
      await assert.rejects(daemon.request('system.echo', round), TypeError);
      await assert.rejects(daemon.request('system.echo', [1n]), TypeError);
      await assert.rejects(daemon.notify('system.echo', ['x'.repeat(1_000)]), RangeError);
      const own = new Error('no JSON');
      const toJSON = (): never => {
        throw own;
      };
      await assert.rejects(daemon.call('system.echo', [{ toJSON }]), (error) => error === own);
      await assert.rejects(daemon.call('system.echo', { toJSON }), (error) => error === own);
      const length = 1_000 - JSON.stringify({ jsonrpc: '2.0', id: 10, method: 'system.echo', params: [''] }).length;
      const most = ['x'.repeat(length)];
      assert.deepEqual(await daemon.request('system.echo', most), most);
    }));

  check(`${framing}: the daemon calls back, and gets results and errors`, () =>
    withTestbed(testbed('agent', framing), async (daemon) => {
      const problems: string[] = [];
      daemon.onProblem((error) => problems.push(error.message));
      daemon.onRequest('add', (params) => (params as number[]).reduce((sum, each) => sum + each, 0));
      daemon.onRequest('later', async (params) => ({ got: await daemon.request('system.echo', params as object) }));
      daemon.onRequest('refuse', () => {
        throw new ResponseError(-32050, 'not now', { until: 'later' });
      });
      daemon.onRequest('break', () => {
        throw new Error('a secret');
      });
      const back = (method: string, params?: object): Promise<unknown> =>
        daemon.request('system.callback', params === undefined ? { method } : { method, params });
      assert.equal(await back('add', [1, 2, 3]), 6);
      assert.deepEqual(await back('later', { a: 1 }), { got: { a: 1 } });
      for (const [method, expected] of [
        ['refuse', { code: -32050, message: 'not now', data: { until: 'later' } }],
        ['break', { code: -32603, message: 'Internal error' }],
        ['none', { code: -32601, message: 'Method not found: none' }],
      ] as const) {
        await assert.rejects(back(method), (error) => {
          assert.deepEqual(failure(error), expected);
          return true;
        });
      }
      assert.deepEqual(problems, ['the handler of break failed: a secret']);
      assert.throws(() => daemon.onRequest('add', () => 0), /served already/);
      daemon.onRequest('gone', () => 1).dispose();
      await assert.rejects(back('gone'), { code: -32601 });
      const two = (): number => 2;
      const first = daemon.onRequest('gone', two);
      first.dispose();
      daemon.onRequest('gone', two);
      // Disposing removes only its own registration.
      first.dispose();
      assert.equal(await back('gone'), 2);
    }));

  check(`${framing}: notifications come in order, and a handler that fails does not affect others`, () =>
    withTestbed(testbed('agent', framing), async (daemon) => {
      const problems: string[] = [];
      daemon.onProblem((error) => problems.push(error.message));
      const seen: unknown[] = [];
      daemon.onNotification('test.event', (params) => void seen.push(params));
      const broken = daemon.onNotification('test.event', () => Promise.reject(new Error('no')));
      assert.equal(await daemon.request('test.emit', { count: 3 }), 3);
      assert.deepEqual(seen, [[1], [2], [3]]);
      assert.deepEqual(problems, Array(3).fill('a handler of test.event failed: no'));
      broken.dispose();
      assert.equal(await daemon.request('test.emit', { count: 2 }), 2);
      assert.deepEqual(seen.slice(3), [[1], [2]]);
      assert.equal(problems.length, 3);
      await daemon.notify('setLogLevel', { level: 'error' });
    }));

  check(`P3 ${framing}: an abort ends the call immediately, and the daemon stops working on it`, () =>
    withTestbed(testbed('desktop', framing), async (daemon) => {
      for (let round = 0; round < 3; round++) {
        const abort = new AbortController();
        const calls = [1, 2].map((n) => daemon.request('test.sleep', { ms: HOUR + n }, { signal: abort.signal }));
        abort.abort();
        for (const call of calls) await assert.rejects(call, { name: 'AbortError' });
        // This answer comes last, so it shows that the others have ended.
        await daemon.request('version');
      }
      const signal = AbortSignal.abort('why');
      await assert.rejects(daemon.request('version', null, { signal }), (error) => error === 'why');
    }));

  check(`P3 ${framing}: a token that is cancelled ends the call with the daemon's answer`, () =>
    withTestbed(testbed('agent', framing), async (daemon) => {
      const source = new CancellationTokenSource();
      const call = daemon.request('test.sleep', { ms: HOUR }, { token: source.token });
      source.cancel();
      await assert.rejects(call, (error) => {
        assert.deepEqual(failure(error), { code: -32800, message: 'Request cancelled' });
        return true;
      });
      assert.deepEqual(await daemon.request('version'), { version: '0.1.0' });
    }));

  check(`P2 ${framing}: a call that takes too long fails with a timeout, and is cancelled`, () =>
    withTestbed({ ...testbed('desktop', framing), timeout: 1 }, async (daemon) => {
      await assert.rejects(daemon.request('test.sleep', { ms: HOUR }), (error) => {
        assert.ok(error instanceof DaemonError && error.isRecoverable);
        assert.equal(error.message, 'test.sleep was not answered within 1 ms');
        return error.code === 'timeout';
      });
      // This answer comes second, so it shows that the first call has ended.
      assert.deepEqual(await daemon.request('version', null, { timeout: 0 }), { version: '0.1.0' });
      await assert.rejects(daemon.request('version', null, { timeout: NaN }), RangeError);
    }));
}

check('a handler that is registered twice is called twice, until one registration is disposed', () =>
  withTestbed(testbed('agent', 'length'), async (daemon) => {
    const seen: unknown[] = [];
    const handler = (params: unknown): void => void seen.push(params);
    const [first] = [1, 2].map(() => daemon.onNotification('test.event', handler));
    await daemon.request('test.emit', { count: 1 });
    assert.deepEqual(seen, [[1], [1]]);
    first?.dispose();
    await daemon.request('test.emit', { count: 1 });
    assert.deepEqual(seen, [[1], [1], [1]]);
  }));

check('any number of calls may share a signal, and no listener is left', () =>
  withTestbed(testbed('agent', 'length'), async (daemon) => {
    const warnings: Error[] = [];
    const listener = (warning: Error): void => void warnings.push(warning);
    process.on('warning', listener);
    const abort = new AbortController();
    const { signal } = abort;
    const all = (ms: number): Promise<unknown>[] =>
      Array.from({ length: 100 }, () => daemon.request('test.sleep', { ms }, { signal }));
    await Promise.all(all(0));
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    const calls = all(HOUR);
    assert.equal(getEventListeners(signal, 'abort').length, 1);
    abort.abort();
    for (const call of calls) await assert.rejects(call, { name: 'AbortError' });
    assert.equal(getEventListeners(signal, 'abort').length, 0);
    process.off('warning', listener);
    assert.deepEqual(warnings, []);
  }));

check('a handler of events that fails, synchronously or later, is only reported to onProblem', () =>
  withDaemon({ profile: 'desktop' }, async (daemon) => {
    const problem = new Promise<Error>((resolve) => daemon.onProblem(resolve));
    daemon.onEvent('log', async () => {
      throw new Error('later');
    });
    await daemon.request('events.subscribe', { topics: ['log'] });
    await assert.rejects(daemon.call('no.such.method'));
    assert.equal((await problem).message, 'a handler of event failed: later');
  }));

check('events have sequence numbers, and end with unsubscribe', () =>
  withDaemon({ profile: 'desktop' }, async (daemon) => {
    const logged: DaemonEvent<'log'>[] = [];
    const listener = daemon.onEvent('log', (event) => void logged.push(event));
    const stats = new Promise<DaemonEvent<'stats'>>((resolve) => daemon.onEvent('stats', resolve));
    const topics = ['log', 'stats'] as const;
    assert.deepEqual(await daemon.request('events.subscribe', { topics }), { topics });
    await assert.rejects(daemon.call('no.such.method'));
    const { data, sequence, topic } = await stats;
    assert.deepEqual([topic, sequence, data.faults], ['stats', 1, 0]);
    assert.ok(data.messages >= 3 && data.bytesReceived > 0 && data.bytesSent > 0 && data.inFlight === 0);
    assert.deepEqual(await daemon.request('events.unsubscribe', [['log', 'stats']]), { topics: [] });
    assert.deepEqual(logged.map((event) => event.sequence), logged.map((_, index) => index + 1));
    const record = logged.find((event) => event.data.method === 'no.such.method')?.data;
    assert.ok(record !== undefined && !Number.isNaN(Date.parse(record.timestamp)) && record.message !== '');
    const count = logged.length;
    await assert.rejects(daemon.call('no.such.method'));
    assert.equal(logged.length, count);
    listener.dispose();
  }));
