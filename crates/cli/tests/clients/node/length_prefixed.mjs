// Test of the daemon as the main process of a desktop shell uses it: plain Node starts it and speaks the framing
// with a 4-byte length, written by hand. Covers F1, F2, F5 and F30 to F32 (frames and faults), M2 (ids), M6
// (batches), P3 (cancellation), section 3 (errors with their data), the events of C3, L1 to L4 (stdout, order,
// the end).
//
// Environment: DUET_RPC, TESTBED, PATIENCE (seconds).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { checking, children, give, over } from './patience.mjs';

const { DUET_RPC, TESTBED } = process.env;
for (const [name, value] of Object.entries({ DUET_RPC, TESTBED })) {
  assert.ok(value, `the environment variable ${name} is not set`);
}
/** Maximum message size of the daemon. */
const LIMIT = 1_048_576;

function frame(text) {
  const payload = Buffer.from(text);
  return Buffer.concat([prefix(payload.length), payload, Buffer.from('\n')]);
}

function prefix(length) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(length);
  return bytes;
}

/** The daemon, and its messages. A byte on stdout outside of frames is a failure. */
class Backend {
  #bytes = Buffer.alloc(0);
  #nextId = 1;
  /** Waiting requests, by id. */
  #calls = new Map();
  /** Answers without a request id, for faults and batches; and their waiters. */
  #others = [];
  #waiters = [];
  /** Notifications, in order; and their waiters. */
  notifications = [];
  #watchers = new Set();

  constructor(program = DUET_RPC, args = ['rpc', '--profile', 'desktop']) {
    this.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    children.add(this.child);
    this.child.on('error', (error) => give(error.message));
    this.child.stdin.on('error', () => {});
    this.child.stderr.resume();
    this.child.stdout.on('data', (piece) => this.#take(piece));
    this.closed = new Promise((resolve) => {
      this.child.on('close', (code, signal) => {
        children.delete(this.child);
        resolve({ code, signal });
      });
    });
  }

  #take(piece) {
    this.#bytes = Buffer.concat([this.#bytes, piece]);
    while (this.#bytes.length >= 4) {
      const length = this.#bytes.readUInt32BE();
      if (length === 0 || length >= 1 << 24) give(`stray bytes on stdout: ${this.#bytes.subarray(0, 40)}`);
      if (this.#bytes.length < 4 + length + 1) return;
      if (this.#bytes[4 + length] !== 0x0a) give('there is no newline behind a message');
      const message = JSON.parse(this.#bytes.subarray(4, 4 + length).toString());
      this.#bytes = this.#bytes.subarray(4 + length + 1);
      this.#sort(message);
    }
  }

  #sort(message) {
    if (message.method !== undefined) {
      if (message.id !== undefined) give(`unexpected request: ${message.method}`);
      this.notifications.push(message);
      for (const watcher of [...this.#watchers]) watcher();
    } else if (Array.isArray(message) || message.id === null) {
      const waiter = this.#waiters.shift();
      if (waiter === undefined) this.#others.push(message);
      else waiter(message);
    } else {
      const call = this.#calls.get(message.id);
      if (call === undefined) give(`an answer to no request: ${JSON.stringify(message).slice(0, 200)}`);
      this.#calls.delete(message.id);
      call(message);
    }
  }

  write(bytes) {
    return new Promise((resolve) => this.child.stdin.write(bytes, resolve));
  }

  /** Writes pieces one by one, each after the previous one has left. */
  async writeInPieces(bytes, sizes) {
    for (let place = 0, turn = 0; place < bytes.length; turn++) {
      const end = place + sizes[turn % sizes.length];
      await this.write(bytes.subarray(place, end));
      place = end;
    }
  }

  /** Sends a request, and returns a promise of its whole answer. */
  prepare(method, params, id = this.#nextId++) {
    const answer = new Promise((resolve) => this.#calls.set(id, resolve));
    return { id, answer, text: JSON.stringify({ jsonrpc: '2.0', id, method, params }) };
  }

  async call(method, params) {
    const { id, answer, text } = this.prepare(method, params);
    await this.write(frame(text));
    const { jsonrpc, id: answered, ...outcome } = await answer;
    assert.deepEqual([jsonrpc, answered], ['2.0', id]);
    return outcome;
  }

  /** The next answer without a request id. */
  other() {
    const came = this.#others.shift();
    return came === undefined ? new Promise((resolve) => this.#waiters.push(resolve)) : Promise.resolve(came);
  }

  /** The first matching notification. */
  notification(isLike) {
    return new Promise((resolve) => {
      const look = () => {
        const found = this.notifications.find(isLike);
        if (found === undefined) return;
        this.#watchers.delete(look);
        resolve(found);
      };
      this.#watchers.add(look);
      look();
    });
  }

  /** Checks that it ended by itself, with status 0, every request answered and nothing left over. */
  async hasEnded() {
    assert.deepEqual(await this.closed, { code: 0, signal: null });
    assert.equal(this.#bytes.length, 0, 'the last message is whole');
    assert.deepEqual([...this.#calls.keys()], [], 'every request was answered');
    assert.deepEqual(this.#others, [], 'no answer was left over');
  }
}

const ping = (id) => `{"jsonrpc":"2.0","id":${id},"method":"system.ping"}`;
const pong = (id) => ({ jsonrpc: '2.0', id, result: 'pong' });
const parseError = { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error' } };
const invalid = (reason) => {
  const error = { code: -32600, message: 'Invalid Request', ...(reason ? { data: { reason } } : {}) };
  return { jsonrpc: '2.0', id: null, error };
};
const FAREWELL = { result: { message: 'Shutting down gracefully' } };

async function calls() {
  const backend = new Backend();
  checking('requests');
  assert.deepEqual(await backend.call('version'), { result: { version: '0.1.0' } });
  assert.deepEqual(await backend.call('system.ping', {}), { result: 'pong' });
  for (const value of [{}, [], { a: ['é 漢 😀', null, -0.5] }, ['😀'.repeat(100_000)], [['\u0000\n']]]) {
    assert.deepEqual(await backend.call('system.echo', value), { result: value });
  }
  assert.deepEqual(await backend.call('setLogLevel', ['WARN']), { result: { level: 'warn', success: true } });

  checking('ids of every kind');
  for (const id of ['text é', '', 0, -1, 1.5]) {
    const { text, answer } = backend.prepare('system.ping', undefined, id);
    await backend.write(frame(text));
    assert.deepEqual(await answer, pong(id));
  }

  checking('errors');
  assert.deepEqual(await backend.call('no.such.method'), {
    error: { code: -32601, message: 'Method not found: no.such.method' },
  });
  const accepted = ['debug', 'info', 'warn', 'error'];
  assert.deepEqual(await backend.call('setLogLevel', { level: 'loud' }), {
    error: {
      code: -32602,
      message: 'Invalid params',
      data: { param: 'level', expected: 'one of the accepted values', received: 'loud', accepted },
    },
  });

  checking('batches');
  const notification = '{"jsonrpc":"2.0","method":"system.ping"}';
  await backend.write(frame(`[${ping('"a"')},${notification},1,${ping('"b"')}]`));
  const answers = await backend.other();
  assert.deepEqual(answers, [pong('a'), invalid(), pong('b')]);
  await backend.write(frame('[]'));
  assert.deepEqual(await backend.other(), invalid());
  await backend.write(frame(`[${notification},${notification}]`));
  assert.deepEqual(await backend.call('system.ping'), { result: 'pong' });

  checking('1,000 requests at once');
  const many = Array.from({ length: 1_000 }, (_, number) => backend.prepare('system.echo', [number, `n${number}`]));
  await backend.write(Buffer.concat(many.map(({ text }) => frame(text))));
  const echoes = await Promise.all(many.map(({ answer }) => answer));
  assert.deepEqual(echoes, many.map(({ id }, number) => ({ jsonrpc: '2.0', id, result: [number, `n${number}`] })));

  checking('requests in odd pieces');
  const some = Array.from({ length: 40 }, (_, number) => backend.prepare('system.echo', ['é'.repeat(number)]));
  await backend.writeInPieces(Buffer.concat(some.map(({ text }) => frame(text))), [1, 2, 3, 5, 7, 11, 64, 131]);
  const pieced = await Promise.all(some.map(({ answer }) => answer));
  assert.deepEqual(pieced.map(({ result }) => result[0].length), some.map((_, number) => number));

  checking('the end by shutdown');
  assert.deepEqual(await backend.call('shutdown'), FAREWELL);
  await backend.hasEnded();
  assert.deepEqual(backend.notifications, []);
}

async function faults() {
  const backend = new Backend();
  const isServed = async () => assert.deepEqual(await backend.call('system.ping'), { result: 'pong' });

  checking('one over the limit is refused before it comes, and skipped');
  await backend.write(prefix(LIMIT + 1));
  assert.deepEqual(await backend.other(), invalid('oversize'));
  await backend.write(Buffer.alloc(LIMIT + 1, 'x'));
  await backend.write('\n');
  await isServed();
  checking('one over the limit that never comes');
  await backend.write(prefix(LIMIT + 1));
  assert.deepEqual(await backend.other(), invalid('oversize'));
  await isServed();
  checking('the longest that is taken');
  const around = JSON.stringify({ jsonrpc: '2.0', id: 1000, method: 'system.echo', params: [''] }).length;
  const { text, answer, id } = backend.prepare('system.echo', ['x'.repeat(LIMIT - around)], 1000);
  assert.equal(text.length, LIMIT);
  await backend.write(frame(text));
  assert.deepEqual(await answer, { jsonrpc: '2.0', id, result: ['x'.repeat(LIMIT - around)] });

  const bad = [
    ['a length of zero', prefix(0)],
    ['no newline', Buffer.concat([prefix(2), Buffer.from('{}x')])],
    ['no JSON', frame('{"jsonrpc":')],
    ['no UTF-8', Buffer.concat([prefix(3), Buffer.from([0x22, 0xff, 0x22, 0x0a])])],
    ['stray text', Buffer.from('a stray line\n')],
    ['a length that is too small', Buffer.concat([prefix(5), Buffer.from(`${ping(1)}\n`)])],
  ];
  for (const [name, bytes] of bad) {
    checking(name);
    await backend.write(bytes);
    await isServed();
    assert.deepEqual(await backend.other(), parseError);
  }

  checking('the end of stdin inside a message');
  const last = backend.prepare('system.ping');
  backend.child.stdin.end(Buffer.concat([frame(last.text), prefix(10), Buffer.from('{')]));
  assert.deepEqual(await last.answer, pong(last.id));
  assert.deepEqual(await backend.other(), parseError);
  await backend.hasEnded();
}

async function events() {
  const backend = new Backend();
  const topics = (...names) => ({ topics: names });
  const named = (name) => backend.notifications.filter(({ params }) => params.topic === name);

  checking('the topic log');
  assert.deepEqual(await backend.call('events.subscribe', topics('log')), { result: topics('log') });
  const error = { code: -32601, message: 'Method not found: no.such.method' };
  assert.deepEqual(await backend.call('no.such.method'), { error });
  const isWarning = ({ params }) => params.data.severity === 'warn' && params.data.method === 'no.such.method';
  const { params } = await backend.notification(isWarning);
  assert.equal(params.data.id, 2);
  assert.ok(Date.parse(params.data.timestamp) > 0 && params.data.message !== '');

  checking('the topic stats');
  assert.deepEqual(await backend.call('events.subscribe', topics('stats')), { result: topics('log', 'stats') });
  const stats = await backend.notification((event) => event.params.topic === 'stats');
  const { messages, bytesReceived, bytesSent, ...rest } = stats.params.data;
  assert.deepEqual({ ...stats, params: { ...stats.params, data: rest } }, {
    jsonrpc: '2.0',
    method: 'event',
    params: { topic: 'stats', sequence: 1, data: { faults: 0, inFlight: 0 } },
  });
  assert.ok(messages >= 3 && bytesReceived > 200 && bytesSent > 200, JSON.stringify(stats));

  checking('no event comes after it was unsubscribed');
  assert.deepEqual(await backend.call('events.unsubscribe', topics('log')), { result: topics('stats') });
  const count = named('log').length;
  assert.deepEqual(named('log').map((event) => event.params.sequence), named('log').map((_, index) => index + 1));
  assert.ok(named('log').every(({ params: { dropped } }) => dropped === undefined));
  assert.deepEqual(await backend.call('no.such.method'), { error });
  assert.deepEqual(await backend.call('events.unsubscribe', topics('stats')), { result: topics() });
  assert.equal(named('log').length, count);
  const bad = await backend.call('events.subscribe', topics('news'));
  assert.deepEqual([bad.error.code, bad.error.data.accepted], [-32602, ['log', 'stats']]);

  // A Windows program under wine gets SIGINT as Ctrl-C, and no SIGTERM.
  checking('the end by a signal');
  backend.child.kill(process.env.END_SIGNAL ?? 'SIGTERM');
  await backend.hasEnded();
}

async function testbed() {
  const backend = new Backend(TESTBED, ['--profile', 'desktop']);
  checking('notifications, in order and complete');
  assert.deepEqual(await backend.call('test.emit', { count: 300 }), { result: 300 });
  const expected = Array.from({ length: 300 }, (_, index) => ({
    jsonrpc: '2.0',
    method: 'test.event',
    params: [index + 1],
  }));
  assert.deepEqual(backend.notifications, expected);
  checking('an error of the application');
  const error = { code: -32042, message: 'of the application: é', data: { a: [1, null] } };
  assert.deepEqual(await backend.call('test.fail', error), { error });
  checking('cancelling');
  const sleeper = backend.prepare('test.sleep', { ms: 3_600_000 });
  const cancel = JSON.stringify({ jsonrpc: '2.0', method: '$/cancelRequest', params: { id: sleeper.id } });
  await backend.write(Buffer.concat([frame(sleeper.text), frame(cancel)]));
  const cancelled = { code: -32800, message: 'Request cancelled' };
  assert.deepEqual(await sleeper.answer, { jsonrpc: '2.0', id: sleeper.id, error: cancelled });
  checking('a long answer');
  assert.deepEqual(await backend.call('test.big', { bytes: 3_000_000 }), { result: 'x'.repeat(3_000_000) });
  checking('the end by closing stdin: what came before it is answered, in order');
  const order = [];
  const slow = [5, 0, 3, 0].map((ms) => backend.prepare('test.sleep', { ms }));
  for (const { answer } of slow) void answer.then(({ id }) => order.push(id));
  backend.child.stdin.end(Buffer.concat(slow.map(({ text }) => frame(text))));
  const ended = await Promise.all(slow.map(({ answer }) => answer));
  assert.deepEqual(ended, slow.map(({ id }, index) => ({ jsonrpc: '2.0', id, result: [5, 0, 3, 0][index] })));
  assert.deepEqual(order, slow.map(({ id }) => id));
  await backend.hasEnded();
}

await calls();
await faults();
await events();
await testbed();
over();
