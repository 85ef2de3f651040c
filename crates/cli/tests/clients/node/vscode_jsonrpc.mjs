// Test of the daemon as VS Code uses a language server: vscode-jsonrpc from npm, over stdin and stdout with
// Content-Length headers. Covers C3 (methods, profiles), M2 and M10 (answers), section 3 (errors with their
// data), P3 (cancellation), F1, F5 and F17 (frames), L2 and L4 (order, shutdown), L1 (stdout).
//
// Environment: DUET_RPC, TESTBED, NODE_MODULES (the folder that vscode-jsonrpc is in), PATIENCE (seconds).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { checking, children, give, over } from './patience.mjs';

const { DUET_RPC, TESTBED, NODE_MODULES } = process.env;
for (const [name, value] of Object.entries({ DUET_RPC, TESTBED, NODE_MODULES })) {
  assert.ok(value, `the environment variable ${name} is not set`);
}
const rpc = createRequire(path.resolve(NODE_MODULES, 'here.js'))('vscode-jsonrpc/node');
const HOUR = 3_600_000;

/** A server on stdio, with a connection to it. Any error that the connection reports is a failure. */
class Server {
  /** Ids of unanswered requests. */
  open = new Set();
  /** Everything from stdout. */
  pieces = [];

  constructor(program, args) {
    this.child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    children.add(this.child);
    this.child.on('error', (error) => give(error.message));
    this.child.stdin.on('error', () => {});
    this.child.stderr.resume();
    this.child.stdout.on('data', (piece) => this.pieces.push(piece));
    this.closed = new Promise((resolve) => {
      this.child.on('close', (code, signal) => {
        children.delete(this.child);
        resolve({ code, signal });
      });
    });
    const complain = (message) => give(`vscode-jsonrpc complains: ${message}`);
    const logger = { error: complain, warn: complain, info: () => {}, log: () => {} };
    this.connection = rpc.createMessageConnection(this.#reader(), this.#writer(), logger);
    this.connection.onError(([error]) => complain(error));
    this.connection.onUnhandledNotification(({ method }) => complain(`unexpected notification: ${method}`));
    this.connection.listen();
  }

  /** vscode-jsonrpc silently drops an answer without a request. This reports it. */
  #reader() {
    const reader = new rpc.StreamMessageReader(this.child.stdout);
    const listen = reader.listen.bind(reader);
    reader.listen = (callback) =>
      listen((message) => {
        const isStray = message.method === undefined && !this.open.delete(message.id);
        if (isStray) give(`an answer to no request: ${JSON.stringify(message).slice(0, 200)}`);
        callback(message);
      });
    return reader;
  }

  #writer() {
    const writer = new rpc.StreamMessageWriter(this.child.stdin);
    const write = writer.write.bind(writer);
    writer.write = (message) => {
      if (message.method !== undefined && message.id !== undefined) this.open.add(message.id);
      return write(message);
    };
    return writer;
  }

  request(...args) {
    return this.connection.sendRequest(...args);
  }

  /** The error response to a request: code, message and data. */
  async refusal(...args) {
    const error = await this.request(...args).then(
      (result) => assert.fail(`a result instead of an error: ${JSON.stringify(result)}`),
      (reason) => reason,
    );
    assert.ok(error instanceof rpc.ResponseError, error);
    const { code, message, data } = error;
    return data === undefined ? { code, message } : { code, message, data };
  }

  /** Shuts it down: answered, exited with status 0, stdout closed after the last whole message. */
  async shutdown() {
    assert.deepEqual(await this.request('shutdown'), { message: 'Shutting down gracefully' });
    assert.deepEqual(await this.closed, { code: 0, signal: null });
    assert.deepEqual([...this.open], [], 'each request has one answer');
    this.connection.dispose();
    this.checkOutput();
  }

  /** Checks for frames with exactly one header, and nothing before, between or after them. */
  checkOutput() {
    const output = Buffer.concat(this.pieces);
    for (let place = 0; place < output.length; ) {
      const head = output.subarray(place, place + 40).toString('latin1');
      const [header, digits] = /^Content-Length: ([1-9]\d*)\r\n\r\n/.exec(head) ?? [];
      assert.ok(header, `no header, but ${JSON.stringify(head)}`);
      const end = place + header.length + Number(digits);
      assert.ok(end <= output.length, 'the last message is whole');
      assert.equal(JSON.parse(output.subarray(place + header.length, end)).jsonrpc, '2.0');
      place = end;
    }
  }
}

const LEVELS = ['debug', 'info', 'warn', 'error'];
const SIX = ['initialize', 'listMethods', 'describeMethods', 'version', 'setLogLevel', 'shutdown'];

/** Checks for every profile. */
async function basics(server) {
  checking('requests without params, with named ones and with positional ones');
  assert.deepEqual(await server.request('initialize'), {
    serverInfo: { name: 'duet-rpc', version: '0.1.0' },
    protocolVersion: '2.0',
  });
  assert.deepEqual(await server.request('version', {}), { version: '0.1.0' });
  const { byName, byPosition } = rpc.ParameterStructures;
  const named = await server.request('setLogLevel', byName, { level: 'WARN' });
  assert.deepEqual(named, { level: 'warn', success: true });
  const positional = await server.request('setLogLevel', byPosition, 'debug');
  assert.deepEqual(positional, { level: 'debug', success: true });
  const typed = new rpc.RequestType1('setLogLevel');
  assert.deepEqual(await server.request(typed, { level: 'info' }), { level: 'info', success: true });

  checking('errors');
  assert.deepEqual(await server.refusal('no.such.method'), {
    code: -32601,
    message: 'Method not found: no.such.method',
  });
  assert.deepEqual(await server.refusal('setLogLevel', { level: 'loud' }), {
    code: -32602,
    message: 'Invalid params',
    data: { param: 'level', expected: 'one of the accepted values', received: 'loud', accepted: LEVELS },
  });
  assert.deepEqual(await server.refusal('setLogLevel', byPosition, 5), {
    code: -32602,
    message: 'Invalid params',
    data: { param: 'level', expected: 'string', received: 'number', accepted: LEVELS },
  });

  checking('notifications are not answered, whatever is wrong with them');
  await server.connection.sendNotification('version');
  await server.connection.sendNotification('no.such.notification', [1, 2]);
  await server.connection.sendNotification('setLogLevel', { level: 'loud' });
  assert.deepEqual(await server.request('version'), { version: '0.1.0' });
}

async function editor() {
  const server = new Server(DUET_RPC, ['rpc', '--profile', 'editor']);
  await basics(server);
  checking('the six methods of an editor');
  assert.deepEqual((await server.request('listMethods')).map(({ name }) => name), SIX);
  checking('shutdown of the editor profile');
  await server.shutdown();
}

async function agent() {
  const server = new Server(DUET_RPC, ['rpc', '--profile', 'agent', '--framing', 'lsp']);
  const { connection } = server;
  const echo = (...params) => server.request('system.echo', rpc.ParameterStructures.byPosition, ...params);
  await basics(server);

  checking('Unicode, and messages over 64 KB');
  const texts = ['é 漢字 😀 \u2028 \u0000 \\ "', '😀'.repeat(50_000), 'x'.repeat(900_000)];
  for (const text of texts) assert.deepEqual(await echo(text), [text]);
  assert.deepEqual(await server.request('system.echo', { 'ключ 鍵': texts[0] }), { 'ключ 鍵': texts[0] });

  checking('1,000 requests at once');
  const numbers = Array.from({ length: 1_000 }, (_, number) => number);
  const answers = await Promise.all(numbers.map((number) => echo(number, `n${number}`)));
  assert.deepEqual(answers, numbers.map((number) => [number, `n${number}`]));

  checking('requests of the server to this end');
  connection.onRequest('add', (one, two) => one + two);
  connection.onRequest('describe', (params) => ({ got: params, text: 'é' }));
  connection.onRequest('refuse', () => new rpc.ResponseError(-32050, 'not now: é', { until: ['later', 1] }));
  connection.onRequest('nested', async (depth) => {
    if (depth === 0) return 'the ground';
    return [await server.request('system.callback', { method: 'nested', params: [depth - 1] })];
  });
  const back = (method, params) => ['system.callback', params === undefined ? { method } : { method, params }];
  assert.equal(await server.request(...back('add', [20, 22])), 42);
  assert.deepEqual(await server.request(...back('describe', { a: 1 })), { got: { a: 1 }, text: 'é' });
  assert.deepEqual(await server.refusal(...back('refuse')), {
    code: -32050,
    message: 'not now: é',
    data: { until: ['later', 1] },
  });
  assert.deepEqual(await server.refusal(...back('none')), { code: -32601, message: 'Unhandled method none' });
  assert.deepEqual(await server.request(...back('nested', [3])), [[['the ground']]]);
  const sums = await Promise.all(numbers.slice(0, 100).map((number) => server.request(...back('add', [number, 1]))));
  assert.deepEqual(sums, numbers.slice(1, 101));

  checking('events');
  const events = [];
  let whenLogged = () => {};
  connection.onNotification('event', (event) => {
    events.push(event);
    whenLogged();
  });
  // The log has a record only if the notification took effect.
  assert.deepEqual(await server.request('setLogLevel', { level: 'error' }), { level: 'error', success: true });
  await connection.sendNotification('setLogLevel', { level: 'info' });
  assert.deepEqual(await server.request('events.subscribe', { topics: ['log'] }), { topics: ['log'] });
  const logged = new Promise((resolve) => {
    whenLogged = () => events.some(({ data }) => data.method === 'no.such.method') && resolve();
  });
  await server.refusal('no.such.method');
  await logged;
  assert.deepEqual(await server.request('events.unsubscribe', { topics: ['log'] }), { topics: [] });
  const warnings = events.filter(({ data }) => data.method === 'no.such.method');
  assert.equal(warnings.length, 1);
  assert.deepEqual(events.map(({ topic, sequence }) => [topic, sequence]), events.map((_, index) => ['log', index + 1]));
  assert.equal(warnings[0].data.severity, 'warn');
  const count = events.length;
  await server.refusal('no.such.method');
  assert.equal(events.length, count, 'no event comes after the answer to events.unsubscribe');

  checking('shutdown of the agent profile');
  await server.shutdown();
}

async function testbed() {
  const server = new Server(TESTBED, ['--profile', 'agent', '--framing', 'lsp']);
  const { connection } = server;

  checking('an error of the application');
  for (const data of [{ a: [1, null, 'é'] }, 'text', [[]], 0, false]) {
    const wanted = { code: -32042, message: 'of the application: é', data };
    assert.deepEqual(await server.refusal('test.fail', wanted), wanted);
  }
  assert.deepEqual(await server.refusal('test.fail', { code: 7, message: 'm' }), { code: 7, message: 'm' });
  assert.deepEqual(await server.refusal('test.panic'), { code: -32603, message: 'Internal error' });

  checking('cancelling');
  for (const others of [0, 20]) {
    const source = new rpc.CancellationTokenSource();
    const cancelled = server.refusal('test.sleep', { ms: HOUR }, source.token);
    // Answers to later requests show that the request has begun, and that it delays no other request.
    for (let other = 0; other < others; other++) assert.equal(await server.request('system.ping'), 'pong');
    source.cancel();
    assert.deepEqual(await cancelled, { code: -32800, message: 'Request cancelled' });
    assert.equal(await server.request('system.ping'), 'pong');
  }
  const late = new rpc.CancellationTokenSource();
  assert.equal(await server.request('test.sleep', { ms: 0 }, late.token), 0);
  late.cancel();
  assert.equal(await server.request('system.ping'), 'pong');

  checking('notifications of the server');
  const seen = [];
  connection.onNotification('test.event', (number) => void seen.push(number));
  assert.equal(await server.request('test.emit', { count: 500 }), 500);
  assert.deepEqual(seen, Array.from({ length: 500 }, (_, index) => index + 1));

  checking('a long answer');
  assert.equal(await server.request('test.big', { bytes: 3_000_000 }), 'x'.repeat(3_000_000));

  checking('a print of a handler does not come between messages');
  assert.equal(await server.request('test.print'), null);
  assert.equal(await server.request('system.ping'), 'pong');

  checking('shutdown of the test bed');
  await server.shutdown();
}

await editor();
await agent();
await testbed();
over();
