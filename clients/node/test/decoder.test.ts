// The framing `length`: F1 to F5 and F30 to F32. Each row is fed whole, byte by byte, split at every position, and
// followed by a frame.

import assert from 'node:assert/strict';
import { LengthPrefixedDecoder, type Decoded } from '../src/decoder';
import { encode } from '../src/writer';
import { check } from './support';

const LIMIT = 1_000;
const FAULT = 'fault';

const frame = (message: unknown): Buffer => encode(message, LIMIT);
const bytes = (...parts: (number[] | string | Buffer)[]): Buffer =>
  Buffer.concat(parts.map((part) => (Array.isArray(part) ? Buffer.from(part) : Buffer.from(part as string))));
const length = (count: number): number[] => [(count >> 24) & 255, (count >> 16) & 255, (count >> 8) & 255, count & 255];

/** Decodes pieces: all messages, and the kinds of all faults. */
function decode(pieces: Buffer[], limit = LIMIT): { messages: unknown[]; kinds: string[]; order: unknown[] } {
  const decoder = new LengthPrefixedDecoder(limit);
  const messages: unknown[] = [];
  const kinds: string[] = [];
  const order: unknown[] = [];
  const take = (all: Iterable<Decoded>): void => {
    for (const decoded of all) {
      if ('fault' in decoded) kinds.push(decoded.fault.kind);
      else messages.push(decoded.message);
      order.push('fault' in decoded ? FAULT : decoded.message);
    }
  };
  for (const piece of pieces) {
    take(decoder.feed(piece));
    assert.ok(decoder.kept <= limit + 5, 'the decoder keeps at most one frame');
  }
  take(decoder.finish());
  return { messages, kinds, order };
}

const A = { jsonrpc: '2.0', id: 1, method: 'é 漢 😀', params: [] };
const B = { b: 'x'.repeat(300) };

const ROWS: [name: string, stream: Buffer, expected: unknown[], kinds: string[]][] = [
  ['nothing', bytes(), [], []],
  ['a frame', frame(A), [A], []],
  ['frames', bytes(frame(A), frame(B), frame([]), frame(A)), [A, B, [], A], []],
  ['the longest', frame('x'.repeat(LIMIT - 2)), ['x'.repeat(LIMIT - 2)], []],
  ['values that are not objects', bytes(frame(null), frame(0), frame('')), [null, 0, ''], []],
  ['white space in JSON', bytes(length(5), ' [1]\n', '\n'), [[1]], []],
  ['no newline', bytes(length(3), '[1]x', frame(A)), [FAULT, A], ['no-newline']],
  ['a length of zero', bytes(length(0), '\n', frame(A)), [FAULT, A], ['zero-length']],
  ['a length that is too small', bytes(length(2), '[1]\n', frame(A)), [FAULT, A], ['no-newline']],
  ['a length that is too large by one', bytes(length(4), '[1]\n', frame(A)), [FAULT, A], ['no-newline']],
  ['a length that swallows the next frame', bytes(length(40), '[1]\n', frame(A)), [FAULT, A], ['no-newline']],
  ['an oversize frame that arrives', bytes(length(1_001), 'x'.repeat(1_001), '\n', frame(A)), [FAULT, A], ['oversize']],
  ['an oversize frame that never arrives', bytes(length(70_000), frame(A)), [FAULT, A], ['oversize']],
  ['an oversize frame that arrives in part', bytes(length(70_000), '[1,', frame(A)), [FAULT, A], ['oversize']],
  ['the largest length', bytes([255, 255, 255, 255], frame(A)), [FAULT, A], ['no-prefix']],
  ['not JSON', bytes(length(3), '{x}\n', frame(A)), [FAULT, A], ['not-json']],
  ['not JSON, with further bytes', bytes(length(3), '{x}\n', 'more', frame(A)), [FAULT, A], ['not-json']],
  ['not JSON, twice', bytes(length(1), '{\n', length(1), '}\n'), [FAULT, FAULT], ['not-json', 'not-json']],
  ['not UTF-8', bytes(length(3), [0x22, 0xff, 0x22], '\n', frame(A)), [FAULT, A], ['not-json']],
  ['half a surrogate pair', bytes(length(5), [0x22, 0xed, 0xa0, 0x80, 0x22], '\n', frame(A)), [FAULT, A], ['not-json']],
  ['a byte order mark', bytes(length(6), [0xef, 0xbb, 0xbf], '[1]\n', frame(A)), [FAULT, A], ['not-json']],
  ['a stray line', bytes('hello\n', frame(A)), [FAULT, A], ['no-prefix']],
  ['stray lines', bytes(frame(A), 'a\nb\n', frame(B), 'c', frame(A)), [A, FAULT, B, FAULT, A], ['no-prefix', 'no-prefix']],
  ['stray zero bytes', bytes([0, 0, 0, 0, 0], frame(A)), [FAULT, A], ['zero-length']],
  ['one stray zero byte', bytes([0], frame(A), frame(B)), [FAULT, A, B], ['zero-length']],
  ['one stray zero byte before a longer frame', bytes([0], frame(B), frame(A)), [FAULT, B, A], ['no-newline']],
  ['a stray byte and a zero byte', bytes([7, 0], frame(A), frame(B)), [FAULT, A, B], ['no-prefix']],
  ['stray bytes that look like a length', bytes([0, 0, 1], frame(A)), [FAULT, A], ['zero-byte']],
  ['stray bytes that look like an oversize length', bytes([0, 255], frame(A)), [FAULT, A], ['oversize']],
  ['Content-Length headers', bytes('Content-Length: 3\r\n\r\n[1]', frame(A)), [FAULT, A], ['no-prefix']],
  ['the end inside a length', bytes(frame(A), [0, 0]), [A, FAULT], ['cut-short']],
  ['the end inside a payload', bytes(frame(A), length(5), '[1'), [A, FAULT], ['cut-short']],
  ['the end before the newline', bytes(length(3), '[1]'), [FAULT], ['cut-short']],
  ['the end inside a refused payload', bytes(length(2_000), 'xxx'), [FAULT], ['oversize']],
  ['the end inside stray bytes', bytes('hello', [0, 0]), [FAULT], ['no-prefix']],
];

for (const [name, stream, expected, kinds] of ROWS) {
  check(`F1 F2 F30 F31 F32 ${name}`, () => {
    const whole = decode([stream]);
    assert.deepEqual(whole.order, expected, 'whole');
    assert.deepEqual(whole.kinds, kinds);
    // If the bytes arrive in pieces, a run of bad bytes may be detected at another position and with another kind, but
    // it is still one fault.
    assert.deepEqual(decode([...stream].map((byte) => Buffer.from([byte]))).order, expected, 'byte by byte');
    for (let cut = 0; cut <= stream.length; cut++) {
      const cutThere = decode([stream.subarray(0, cut), stream.subarray(cut)]);
      assert.deepEqual(cutThere.order, expected, `cut at ${cut}`);
    }
    const { messages } = decode([stream, frame(B)]);
    assert.deepEqual(messages.at(-1), B, 'the next frame is read');
  });
}

/** Pseudo-random numbers that are the same in each run. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state >>> 8;
  }
}

check('F2 F32 two frames are read after any garbage and with any split', () => {
  const random = numbers(1);
  const below = (bound: number): number => random.next().value % bound;
  const likely = [0, 0, 0, 0, 1, 3, 5, 10, 91, 255];
  for (let round = 0; round < 20_000; round++) {
    const garbage = Array.from({ length: below(9) }, () => likely[below(likely.length)] ?? 0);
    const stream = bytes(garbage, frame(A), frame([round]));
    const cuts = [below(stream.length), below(stream.length)].sort((one, other) => one - other);
    const [first = 0, second = 0] = cuts;
    const { messages } = decode([stream.subarray(0, first), stream.subarray(first, second), stream.subarray(second)]);
    assert.deepEqual(messages.slice(-2), [A, [round]], `${garbage}, cut at ${cuts}`);
  }
});

check('F32 a frame does not wait for the length at a position that was only tried', () => {
  const text = 'x'.repeat(0x010203 - 2);
  // Only the first byte of its length is zero. So stray bytes and that zero byte look like another length.
  const long = encode(text, 1 << 20);
  assert.deepEqual([...long.subarray(0, 4)], [0, 1, 2, 3]);
  for (const stray of [[7, 0, 9], [7, 0, 9, 9], [7, 0], [7, 0, 0, 0, 9]]) {
    const decoder = new LengthPrefixedDecoder(1 << 20);
    const stream = bytes(stray, long);
    const pieces = [stream.subarray(0, 6), stream.subarray(6, 1_000), stream.subarray(1_000)];
    const decoded = pieces.flatMap((piece) => [...decoder.feed(piece)]);
    const seen = decoded.map((one) => ('fault' in one ? one.fault.kind : one.message === text));
    assert.deepEqual(seen, ['no-prefix', true], `${stray}`);
  }
});

check('F3 no memory is allocated for an announced length', () => {
  const before = process.memoryUsage().arrayBuffers;
  const decoders = Array.from({ length: 100 }, () => new LengthPrefixedDecoder(0xffff_ffff));
  for (const decoder of decoders) {
    assert.deepEqual([...decoder.feed(bytes([0x7f, 0xff, 0xff, 0xff], '[1'))], []);
    assert.deepEqual([...decoder.feed(bytes(',2'))], []);
    assert.equal(decoder.kept, 8);
  }
  assert.ok(process.memoryUsage().arrayBuffers - before < 1_000_000);
});

check('F31 a limit of 16 MiB and more accepts lengths that do not begin with a zero byte', () => {
  const text = `"${'x'.repeat(1 << 24)}"`;
  const stream = bytes(length(text.length), text, '\n', frame(A));
  assert.equal(stream[0], 1);
  const { messages, kinds } = decode([stream.subarray(0, 1_000_000), stream.subarray(1_000_000)], 1 << 25);
  assert.deepEqual(kinds, []);
  assert.deepEqual(messages.map((message) => (typeof message === 'string' ? message.length : message)), [1 << 24, A]);
  assert.deepEqual(decode([stream]).order, [FAULT, A], 'with a lower limit, it is a fault');
});

check('an invalid limit is refused', () => {
  for (const limit of [0, -1, 1.5, NaN, Infinity, 2 ** 32]) {
    assert.throws(() => new LengthPrefixedDecoder(limit), RangeError);
  }
});
