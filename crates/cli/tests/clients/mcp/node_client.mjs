// Test of the example `mcp_server` with the TypeScript SDK of the Model Context Protocol
// (`@modelcontextprotocol/sdk`), in the profiles `mcp` and `agent`: start of a session, tools and their
// schemas, wrong arguments, progress, cancellation, many concurrent calls, a request from the server to the
// client, and the end (M2, M5, P1, P3, P4, P7, L2, L3, F5).
//
// Environment: SERVER is the program, NODE_MODULES the folder with the SDK, PATIENCE the time limit in
// seconds, TRANSPORT is `stdio` (the default), `http` or `ws`. Exits with 0 if and only if all checks passed.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const require = createRequire(join(process.env.NODE_MODULES, 'from-here.js'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { WebSocketClientTransport } = require('@modelcontextprotocol/sdk/client/websocket.js');
const { ListRootsRequestSchema } = require('@modelcontextprotocol/sdk/types.js');

const NUMBER = { type: 'integer', minimum: 0 };
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });
const TOOLS = [
  [
    'text_statistics',
    object({ text: { type: 'string' } }),
    object({ characters: NUMBER, words: NUMBER, lines: NUMBER }),
  ],
  ['count_primes', object({ limit: { ...NUMBER, maximum: 1_000_000_000 } }), object({ primes: NUMBER })],
  ['list_roots', { type: 'object' }, object({ roots: { type: 'array', items: { type: 'string' } } })],
  ['status', { type: 'object' }, object({ running: NUMBER })],
];

const TRANSPORT = process.env.TRANSPORT ?? 'stdio';
// The SDK takes the one of the platform, which came with Node 22.
globalThis.WebSocket ??= require('ws');

let transport;
let client;
/** The process of a server that listens. */
let server;
/** Errors that the SDK reports nowhere else. */
const complaints = [];
const strays = [];
let asked;

/** Starts a server that listens, and returns its URL. */
async function listen(profile) {
  const args = [profile, '--listen', `${TRANSPORT}://127.0.0.1:0/mcp`];
  server = spawn(process.env.SERVER, args, { stdio: ['ignore', 'inherit', 'pipe'] });
  for await (const line of createInterface(server.stderr)) {
    const url = /^listening on (.*)$/.exec(line)?.[1];
    if (url !== undefined) return new URL(url);
    console.error(line);
  }
  throw new Error('the server does not listen');
}

async function open(profile) {
  if (TRANSPORT === 'http') transport = new StreamableHTTPClientTransport(await listen(profile));
  else if (TRANSPORT === 'ws') transport = new WebSocketClientTransport(await listen(profile));
  else transport = new StdioClientTransport({ command: process.env.SERVER, args: [profile], env: process.env });
  client = newClient();
}

function newClient() {
  const client = new Client({ name: 'a client', version: '1.0.0' }, { capabilities: { roots: {} } });
  client.onerror = (error) => complaints.push(error.message);
  client.fallbackNotificationHandler = async (notification) => strays.push(notification);
  asked = 0;
  client.setRequestHandler(ListRootsRequestSchema, () => {
    asked += 1;
    return { roots: [{ uri: 'file:///home/ada', name: 'Ada' }, { uri: 'file:///home/ünï/🦀' }] };
  });
  return client;
}

const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);

async function served(name, args, wanted, options) {
  const { content, ...rest } = await call(name, args, options);
  assert.deepEqual(rest, { structuredContent: wanted }, name);
  assert.deepEqual(
    content.map((part) => part.type),
    ['text'],
    name,
  );
  assert.deepEqual(JSON.parse(content[0].text), wanted, name);
}

async function failed(name, args, text) {
  assert.deepEqual(await call(name, args), { content: [{ type: 'text', text }], isError: true }, name);
}

async function beginning() {
  await client.connect(transport);
  const { name, version } = client.getServerVersion();
  assert.equal(name, 'numbers-and-words');
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual(client.getServerCapabilities(), { tools: {} });
  assert.equal(client.getInstructions(), 'Counts the words of a text, and primes.');
  assert.deepEqual(await client.ping(), {});
}

async function listing() {
  const { tools, ...rest } = await client.listTools();
  assert.deepEqual(rest, {});
  assert.deepEqual(
    tools.map((tool) => [tool.name, tool.inputSchema, tool.outputSchema]),
    TOOLS,
  );
  for (const tool of tools) assert.ok(tool.description, `${tool.name} has no description`);
}

async function quickTool() {
  const rows = [
    ['', 0, 0, 0],
    ['one two\nthree', 13, 3, 2],
    ['🦀 ünï\u2028\r\n\t"\\', 11, 3, 2],
    ['x'.repeat(500_000), 500_000, 1, 1],
  ];
  for (const [text, characters, words, lines] of rows) {
    await served('text_statistics', { text }, { characters, words, lines });
  }
}

async function refusals() {
  const wrong = 'Invalid arguments: ';
  await failed('text_statistics', {}, wrong + 'missing field `text`');
  await failed('text_statistics', { text: 7 }, wrong + 'invalid type: integer `7`, expected a string');
  await failed('count_primes', { limit: -1 }, wrong + 'invalid value: integer `-1`, expected u64');
  await failed('count_primes', { limit: 1e9 + 1 }, 'The limit is larger than 1000000000.');
  const data = {
    param: 'name',
    expected: 'one of the accepted values',
    received: 'no_such_tool',
    accepted: TOOLS.map(([name]) => name),
  };
  const message = 'MCP error -32602: Invalid params';
  await assert.rejects(call('no_such_tool', {}), { code: -32602, message, data });
  await assert.rejects(client.request({ method: 'no/such' }, ListRootsRequestSchema), { code: -32601 });
}

const LATE = 'Received a progress notification for an unknown token: ';

/** The progress notifications that the SDK rejects. */
function lateProgress(complaint) {
  assert.ok(complaint.startsWith(LATE), complaint);
  const { progress, total } = JSON.parse(complaint.slice(LATE.length)).params;
  return { progress, total };
}

async function progress() {
  const told = [];
  const onprogress = (progress) => told.push(progress);
  await served('count_primes', { limit: 9_500 }, { primes: 1177 }, { onprogress });
  // The SDK handles an answer before the progress that arrived with it, and then reports unknown progress.
  const late = complaints.splice(0).map(lateProgress);
  const steps = [0, 1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 9500];
  assert.deepEqual(
    [...told, ...late],
    steps.map((progress) => ({ progress, total: 9500 })),
  );
  await served('count_primes', { limit: 9_500 }, { primes: 1177 });
  assert.deepEqual(complaints, []);
}

async function cancelling(isAnswered, hasProgress) {
  const controller = new AbortController();
  let cancelled;
  const begun = new Promise((resolve) => {
    const options = { signal: controller.signal };
    if (hasProgress) options.onprogress = resolve;
    else resolve();
    cancelled = assert.rejects(call('count_primes', { limit: 1e9 }, options), /no longer wanted/);
  });
  await begun;
  while (!hasProgress && (await call('status', {})).structuredContent.running === 0);
  await served('status', {}, { running: 1 });
  controller.abort('no longer wanted');
  await cancelled;
  // The tool stops at its next yield. If it does not, the time limit ends this loop.
  let running = 1;
  while (running !== 0) running = (await call('status', {})).structuredContent.running;
  // Everything before the answer to this has been read, except over HTTP, where it has its own connection.
  await client.ping();
  while (isAnswered && !complaints.some((complaint) => !complaint.startsWith(LATE))) await client.ping();
  // The SDK has forgotten the call, so it would report an answer to it, as it does with progress that crossed
  // the cancellation.
  const late = complaints.filter((complaint) => !complaint.startsWith(LATE));
  assert.equal(late.length, isAnswered ? 1 : 0, late.join('\n'));
  for (const complaint of late) {
    assert.match(complaint, /unknown message ID: .*"error":\{"code":-32800,"message":"Request cancelled"\}/);
  }
  complaints.length = 0;
}

async function manyAtOnce() {
  const one = (number) => {
    const wanted = { characters: number, words: Math.min(number, 1), lines: Math.min(number, 1) };
    return served('text_statistics', { text: 'x'.repeat(number) }, wanted);
  };
  await Promise.all(Array.from({ length: 50 }, (_, number) => one(number)));
}

async function askingBack() {
  // A request cannot carry one in the other direction.
  if (TRANSPORT === 'http') return failed('list_roots', {}, 'The client does not support `roots/list`.');
  await served('list_roots', {}, { roots: ['file:///home/ada', 'file:///home/ünï/🦀'] });
  assert.equal(asked, 1);
}

/** The ids of two clients are the same, and a cancellation concerns one of them. */
async function twoClients(profile) {
  const [one, other] = [client, newClient()];
  const url = transport._url;
  await other.connect(TRANSPORT === 'http' ? new StreamableHTTPClientTransport(url) : new WebSocketClientTransport(url));
  // Their next ids shall be equal.
  while (other._requestMessageId < one._requestMessageId) await other.ping();
  while (one._requestMessageId < other._requestMessageId) await one.ping();
  const controllers = [];
  const ends = [];
  for (const each of [one, other]) {
    const controller = new AbortController();
    controllers.push(controller);
    await new Promise((resolve) => {
      const options = { signal: controller.signal, onprogress: resolve };
      const params = { name: 'count_primes', arguments: { limit: 1e9 } };
      ends.push(assert.rejects(each.callTool(params, undefined, options), /no longer wanted/));
    });
  }
  const running = async () => (await call('status', {})).structuredContent.running;
  assert.equal(await running(), 2);
  for (const [index, left] of [[0, 1], [1, 0]]) {
    controllers[index].abort('no longer wanted');
    await ends[index];
    while ((await running()) > left);
    assert.equal(await running(), left, 'the call of another client goes on');
  }
  await other.close();
  complaints.length = 0;
}

async function visit(profile) {
  await open(profile);
  await beginning();
  // The SDK does not report the server's exit status, but its child process does.
  server = TRANSPORT === 'stdio' ? transport._process : server;
  const ended = new Promise((resolve) => server.once('exit', (code, signal) => resolve({ code, signal })));
  await listing();
  await quickTool();
  await refusals();
  await progress();
  await cancelling(profile === 'agent', true);
  await cancelling(profile === 'agent', false);
  await manyAtOnce();
  await askingBack();
  assert.deepEqual(complaints, []);
  assert.deepEqual(strays, []);
  if (TRANSPORT !== 'stdio') await twoClients(profile);
  await client.close();
  if (TRANSPORT !== 'stdio') server.kill('SIGTERM');
  assert.deepEqual(await ended, { code: 0, signal: null });
}

async function main() {
  for (const profile of ['mcp', 'agent']) await visit(profile);
}

/** Exits, and leaves no process behind. */
function giveUp(why) {
  console.error(why);
  for (const child of [server, transport?._process]) child?.kill('SIGKILL');
  process.exit(1);
}

const patience = Number(process.env.PATIENCE ?? 60);
setTimeout(() => giveUp(`nothing more came in ${patience} s`), patience * 1000).unref();
main().then(() => process.exit(0), giveUp);
