// The reader and the writer for vscode-jsonrpc, on streams.

import assert from 'node:assert/strict';
import { PassThrough, Writable } from 'node:stream';
import { createMessageConnection, type Message } from 'vscode-jsonrpc/node';
import { FramingError, LengthPrefixedMessageReader, LengthPrefixedMessageWriter } from '../src/index';
import { check } from './support';

/** A stream whose writes finish when the test calls their callbacks. */
class SlowStream extends Writable {
  readonly written: Buffer[] = [];
  readonly done: ((error?: Error) => void)[] = [];

  override _write(piece: Buffer, _encoding: string, done: (error?: Error) => void): void {
    this.written.push(piece);
    this.done.push(done);
  }
}

const message = (value: unknown): Message => ({ jsonrpc: '2.0', method: 'm', params: [value] }) as Message;

/** Waits until all ready callbacks have run. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

check('a reader reads the messages of a writer', async () => {
  const [there, back] = [new PassThrough(), new PassThrough()];
  const ends = [
    createMessageConnection(new LengthPrefixedMessageReader(back), new LengthPrefixedMessageWriter(there)),
    createMessageConnection(new LengthPrefixedMessageReader(there), new LengthPrefixedMessageWriter(back)),
  ] as const;
  ends[1].onRequest('add', (one: number, two: number) => one + two);
  for (const end of ends) end.listen();
  const sums = await Promise.all(Array.from({ length: 100 }, (_, n) => ends[0].sendRequest('add', n, 1)));
  assert.deepEqual(sums, Array.from({ length: 100 }, (_, n) => n + 1));
  for (const end of ends) end.dispose();
  for (const stream of [there, back]) {
    for (const event of ['data', 'error', 'close']) assert.equal(stream.listenerCount(event), 0, event);
  }
});

check('F2 a reader reports faults, continues after them, and reports the end once', async () => {
  const stream = new PassThrough();
  const reader = new LengthPrefixedMessageReader(stream, { limit: 100 });
  const told: unknown[] = [];
  reader.onError((error) => told.push(error instanceof FramingError ? error.kind : error.message));
  const closed = new Promise<void>((resolve) => reader.onClose(resolve));
  reader.listen((received) => {
    told.push(received);
    if ('fail' in received) throw new Error('the connection cannot take it');
  });
  assert.throws(() => reader.listen(() => undefined), /already/);
  stream.write('\0\0\0\x02{}\nstray\0\0\0\x0a{"fail":1}\n');
  stream.write(Buffer.from('\0\0\x10\0'));
  stream.end('\0\0\0\x02{}\n\0\0\0\x05[');
  await closed;
  const end = ['oversize', {}, 'cut-short'];
  assert.deepEqual(told, [{}, 'no-prefix', { fail: 1 }, 'the connection cannot take it', ...end]);
});

check('a reader passes on errors of the stream, and removes its listeners', async () => {
  const stream = new PassThrough();
  const reader = new LengthPrefixedMessageReader(stream);
  const told: string[] = [];
  reader.onError((error) => told.push(error.message));
  const closed = new Promise<void>((resolve) => reader.onClose(resolve));
  reader.listen(() => undefined);
  stream.destroy(new Error('gone'));
  await closed;
  assert.deepEqual(told, ['gone']);
  reader.dispose();
  for (const event of ['data', 'error', 'close']) assert.equal(stream.listenerCount(event), 0, event);
});

check('F5 a message is one write, and the next one waits until it is flushed', async () => {
  const stream = new SlowStream();
  const writer = new LengthPrefixedMessageWriter(stream);
  const done: unknown[] = [];
  const all = ['é', 2, 3].map((value) => writer.write(message(value)).then(() => done.push(value)));
  for (const [index, value] of ['é', 2, 3].entries()) {
    await settled();
    assert.equal(stream.written.length, index + 1);
    const frame = stream.written[index];
    assert.equal(stream.writableLength, frame?.length, 'nothing more is handed to the stream');
    const text = JSON.stringify(message(value));
    assert.equal(frame?.readUInt32BE(), Buffer.byteLength(text));
    assert.equal(frame?.subarray(4).toString(), `${text}\n`);
    assert.equal(done.length, index, 'and a message that is not flushed is not done');
    stream.done[index]?.();
  }
  await Promise.all(all);
  assert.deepEqual(done, ['é', 2, 3]);
});

check('a message that cannot be written fails, is reported, and affects no other', async () => {
  const stream = new SlowStream();
  const writer = new LengthPrefixedMessageWriter(stream, { limit: 60 });
  const told: unknown[] = [];
  writer.onError(([error, which, count]) => told.push([error.name, which, count]));
  const long = message('x'.repeat(60));
  const round: Record<string, unknown> = {};
  round['self'] = round;
  await assert.rejects(writer.write(long), { name: 'RangeError', message: /104 bytes.*limit is 60/ });
  await assert.rejects(writer.write(message(round)), TypeError);
  const good = writer.write(message(1));
  await settled();
  stream.done[0]?.();
  await good;
  assert.equal(stream.written.length, 1);
  assert.deepEqual(told, [['RangeError', long, 1], ['TypeError', message(round), 2]]);
});

check('a closed stream fails waiting writes, and end waits for them', async () => {
  const broken = new SlowStream();
  const failing = new LengthPrefixedMessageWriter(broken);
  const closed = new Promise<void>((resolve) => failing.onClose(resolve));
  const writes = [failing.write(message(1)), failing.write(message(2))].map((write) => assert.rejects(write));
  await settled();
  broken.done[0]?.(new Error('broken pipe'));
  await Promise.all(writes);
  await closed;
  failing.dispose();
  assert.equal(broken.listenerCount('error') + broken.listenerCount('close'), 0);

  const stream = new SlowStream();
  const writer = new LengthPrefixedMessageWriter(stream);
  const write = writer.write(message(1));
  writer.end();
  await settled();
  assert.equal(stream.writableEnded, false);
  stream.done[0]?.();
  await write;
  await settled();
  assert.equal(stream.writableEnded, true);
});
