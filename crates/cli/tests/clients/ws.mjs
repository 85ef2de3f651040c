// Test of the daemon with `ws` for Node. Arguments: the path of `ws`, the URL of a daemon with a limit of
// 100,000 bytes, the URL of one with a token, the token.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const [modules, url, guarded, token] = process.argv.slice(2);
const WebSocket = createRequire(import.meta.url)(modules);

// A hang must fail the test, not block it.
setTimeout(() => {
  console.error('it hangs');
  process.exit(1);
}, 1000 * (process.env.PATIENCE ?? 60)).unref();

/** A connection that matches answers to its calls. */
class Client {
  constructor(socket) {
    this.socket = socket;
    this.pending = new Map();
    this.next = 1;
    this.serves = {};
    this.strays = [];
    this.closed = new Promise((resolve) => socket.on('close', (code) => resolve(code)));
    socket.on('message', (data, isBinary) => this.take(data, isBinary));
  }

  static open(to = url, options = {}) {
    return new Promise((resolve, reject) => {
      const socket = new WebSocket(to, options);
      socket.on('open', () => resolve(new Client(socket)));
      socket.on('unexpected-response', (_, response) => {
        response.resume();
        reject(Object.assign(new Error('refused'), { status: response.statusCode }));
      });
      socket.on('error', reject);
    });
  }

  take(data, isBinary) {
    assert.equal(isBinary, false, 'answers are text');
    const message = JSON.parse(data.toString());
    if (message.method !== undefined && message.id !== undefined) {
      const result = this.serves[message.method](message.params);
      this.socket.send(JSON.stringify({ jsonrpc: '2.0', id: message.id, result }));
    } else if (this.pending.has(message.id)) {
      this.pending.get(message.id)(message);
      this.pending.delete(message.id);
    } else {
      this.strays.push(message);
    }
  }

  call(method, params, send = (text) => this.socket.send(text)) {
    const id = this.next++;
    const answer = new Promise((resolve) => this.pending.set(id, resolve));
    send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    return answer;
  }
}

async function refused(to, options) {
  const outcome = await Client.open(to, options).then(
    () => 'let in',
    (error) => error.status,
  );
  return outcome;
}

const client = await Client.open();
const { socket } = client;
assert.equal(socket.protocol, '');
assert.equal(socket.extensions, '', 'nothing is negotiated, though compression was offered');

// Calls, one and many.
assert.deepEqual((await client.call('system.echo', ['é 😀'])).result, ['é 😀']);
assert.equal((await client.call('no.such.method')).error.code, -32601);
const numbers = Array.from({ length: 200 }, (_, number) => number);
const answers = await Promise.all(numbers.map((number) => client.call('system.echo', [number])));
assert.deepEqual(answers.map((answer) => answer.result[0]), numbers);

// Binary, fragmented and long messages.
assert.equal((await client.call('system.ping', [], (text) => socket.send(Buffer.from(text)))).result, 'pong');
const inPieces = (text) => {
  socket.send(text.slice(0, 10), { fin: false });
  socket.send(text.slice(10, 20), { fin: false });
  socket.send(text.slice(20), { fin: true });
};
assert.equal((await client.call('system.ping', [], inPieces)).result, 'pong');
const long = 'ü'.repeat(45_000);
assert.deepEqual((await client.call('system.echo', [long])).result, [long]);
assert.equal((await client.call('test.big', { bytes: 1_000_000 })).result.length, 1_000_000);

// A pong returns the payload of its ping.
const pong = new Promise((resolve) => socket.on('pong', (data) => resolve(data.toString())));
socket.ping('are you there');
assert.equal(await pong, 'are you there');

// The server calls the client, and notifies it.
client.serves.add = ([one, two]) => one + two;
assert.equal((await client.call('system.callback', { method: 'add', params: [2, 3] })).result, 5);
assert.equal((await client.call('test.emit', { count: 3 })).result, 3);
assert.deepEqual(client.strays.map((message) => message.params[0]), [1, 2, 3]);
client.strays.length = 0;

// A notification gets no answer; text that is not JSON gets one, and the connection lives.
socket.send(JSON.stringify({ jsonrpc: '2.0', method: 'system.ping' }));
socket.send('{');
assert.equal((await client.call('system.ping')).result, 'pong');
assert.deepEqual(client.strays.map((message) => message.error.code), [-32700]);

// An oversize message ends its connection, and no other.
const greedy = await Client.open();
greedy.socket.send('x'.repeat(100_001));
assert.equal(await greedy.closed, 1009);

// A close from either side.
const polite = await Client.open();
polite.socket.close(1000, 'bye');
assert.equal(await polite.closed, 1000);
const leaving = await Client.open();
assert.equal((await leaving.call('shutdown')).result.message, 'Shutting down gracefully');
assert.equal(await leaving.closed, 1000);

// Refused connections.
assert.equal(await refused(url, { origin: 'https://evil.example' }), 403);
assert.equal(await refused(url, { origin: 'null' }), 403);
assert.equal(await refused(url, { headers: { Host: 'evil.example' } }), 403);
assert.equal(await refused(url + 'elsewhere'), 404);
assert.equal(await refused(guarded), 401);
assert.equal(await refused(guarded, { headers: { Authorization: `Bearer ${token}x` } }), 401);
const known = await Client.open(guarded, { headers: { Authorization: `Bearer ${token}` } });
assert.equal((await known.call('system.ping')).result, 'pong');
known.socket.close();

// The daemon is stopped now.
assert.equal((await client.call('system.ping')).result, 'pong');
console.log('waiting');
assert.equal(await client.closed, 1001);
