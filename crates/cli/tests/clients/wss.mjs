// Test of the daemon over TLS with `ws` for Node. Arguments: the path of `ws`, the URL, the file of the authority,
// the token.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, url, authority, token] = process.argv.slice(2);
const WebSocket = createRequire(import.meta.url)(modules);
const ca = readFileSync(authority);
const bearer = (token) => ({ ca, headers: { Authorization: `Bearer ${token}` } });

// A hang must fail the test, not block it.
setTimeout(() => {
  console.error('it hangs');
  process.exit(1);
}, 60_000).unref();

/** Resolves to a socket; fails with the status of a refusal, or the code of an error. */
const open = (subprotocols, options) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(url, subprotocols, options);
    socket.on('open', () => resolve(socket));
    socket.on('unexpected-response', (_, response) => {
      response.resume();
      reject(response.statusCode);
    });
    socket.on('error', (error) => reject(error.code ?? error.message));
  });

const refused = (subprotocols, options) => open(subprotocols, options).then(() => 'let in', (why) => why);

/** Calls `system.echo`. */
const echo = (socket, text) =>
  new Promise((resolve) => {
    socket.once('message', (data) => resolve(JSON.parse(data.toString()).result[0]));
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'system.echo', params: [text] }));
  });

for (const [subprotocols, options, chosen] of [
  [[], bearer(token), ''],
  [['other', 'mcp'], bearer(token), 'mcp'],
  [[`bearer.${token}`, 'mcp'], { ca }, 'mcp'],
]) {
  const socket = await open(subprotocols, options);
  assert.equal(socket.protocol, chosen);
  for (const text of ['é 😀', 'x'.repeat(1_000_000)]) assert.equal(await echo(socket, text), text);
  const closed = new Promise((resolve) => socket.on('close', resolve));
  socket.close(1000);
  assert.equal(await closed, 1000);
}

assert.equal(await refused([], { ca }), 401);
assert.equal(await refused([], bearer(`${token}x`)), 401);
assert.equal(await refused([`bearer.${token}x`, 'mcp'], { ca }), 401);
assert.equal(await refused([`bearer.${token}x`, 'mcp'], bearer(token)), 400, 'two different tokens');
assert.equal(await refused([], { ...bearer(token), origin: 'https://evil.example' }), 403);
// Without the authority, the client refuses the server.
assert.equal(await refused([], { ...bearer(token), ca: undefined }), 'UNABLE_TO_VERIFY_LEAF_SIGNATURE');
assert.equal(await refused([], { ...bearer(token), servername: 'evil.example' }), 'ERR_TLS_CERT_ALTNAME_INVALID');
// A proxy may keep connections open that it has refused.
process.exit(0);
