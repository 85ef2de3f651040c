// Cuts messages out of a stream of frames: 4 bytes of length, big-endian, the JSON text, a newline.
//
// JSON never contains a zero byte, and every length below 16 MiB begins with one. So a zero byte inside
// a payload shows at once that the payload is none, and once the place in the stream is lost, each zero
// byte is tried as the beginning of a frame until one proves right.

import { Bytes } from './bytes';
import { FramingError, type FaultKind } from './errors';

const PREFIX = 4;
const TERMINATOR = 1;
const NEWLINE = 0x0a;
/** Every length below this begins with a zero byte. */
const LEADING_ZERO_BELOW = 1 << 24;
const LARGEST_LENGTH = 0xffff_ffff;

/** The longest message that is taken unless another limit is given: the last at which every length
 * begins with a zero byte, so that the next frame is found again whatever comes. */
export const DEFAULT_LIMIT = LEADING_ZERO_BELOW - 1;

/** What came out of the stream. */
export type Decoded = { readonly message: unknown } | { readonly fault: FramingError };

type State =
  /** At the beginning of a frame. */
  | { readonly at: 'frame' }
  /** At a place that may be the beginning of a frame. A fault was told, so nothing more is said until a
   * frame proves right, or until `certainIn` bytes have gone by: there a payload of `refused` bytes,
   * which was refused, begins. */
  | { readonly at: 'lost'; readonly certainIn: number; readonly refused: number }
  /** In a payload that was refused. A zero byte in it is certainly the next frame. */
  | { readonly at: 'refused'; readonly left: number };

const IN_STEP: State = { at: 'frame' };
const LOST: State = { at: 'lost', certainIn: Infinity, refused: 0 };

/** A decoder. It keeps the bytes of one frame that has not arrived as a whole, and no more; nothing is
 * allocated on the word of a length. */
export class LengthPrefixedDecoder {
  readonly #limit: number;
  readonly #bytes = new Bytes();
  #state = IN_STEP;
  /** How many of the bytes at hand were searched for a zero byte. */
  #searched = 0;
  /** The last frame was whole but held no JSON. Its length may be wrong, and then what is left of it
   * stands before the next frame, and belongs to the same fault. */
  #isAfterBadBody = false;
  /** The places inside the prefix at the front, as bits, at which no frame begins for certain. */
  #noFrameAt = 0;

  constructor(limit: number = DEFAULT_LIMIT) {
    this.#limit = checkLimit('the limit', limit);
  }

  /** Takes bytes, in pieces of any size, and gives what has become whole. The piece must not be changed
   * afterwards. */
  *feed(piece: Buffer): Generator<Decoded, void, undefined> {
    this.#bytes.append(piece);
    yield* this.#decode(false);
  }

  /** Tells what the end of the stream cuts short. */
  *finish(): Generator<Decoded, void, undefined> {
    yield* this.#decode(true);
  }

  /** How many bytes are kept. */
  get kept(): number {
    return this.#bytes.length;
  }

  *#decode(isEnd: boolean): Generator<Decoded, void, undefined> {
    while (this.#bytes.length > 0) {
      const step = this.#step(isEnd);
      if (step === 'wait') return;
      if (step !== undefined) yield step;
    }
  }

  /** Takes one step: what came out of it, if anything did. */
  #step(isEnd: boolean): Decoded | 'wait' | undefined {
    const bytes = this.#bytes;
    if (this.#state.at === 'refused') return this.#skip(this.#state.left);
    const mayBePrefix = bytes.at(0) === 0 || (this.#limit >= LEADING_ZERO_BELOW && this.#state.at === 'frame');
    if (this.#isAfterBadBody && !mayBePrefix) this.#state = LOST;
    this.#isAfterBadBody = false;
    if (!mayBePrefix) return this.#lose('no-prefix');
    if (bytes.length < PREFIX) return isEnd ? this.#lose('cut-short') : 'wait';
    const length = bytes.uint32(0);
    if (length === 0) return this.#lose('zero-length');
    if (length > this.#limit) return this.#state.at === 'lost' ? this.#lose('oversize') : this.#refuse(length);
    if (bytes.length >= PREFIX + length + TERMINATOR) return this.#frame(length);
    const from = Math.max(this.#searched, PREFIX);
    if (bytes.indexOf(0, from, PREFIX + length) >= 0) return this.#lose('zero-byte');
    if (isEnd) return this.#lose('cut-short');
    this.#searched = Math.min(bytes.length, PREFIX + length);
    // A place that was only tried must not make a frame wait for bytes that never come.
    const start = this.#state.at === 'lost' ? this.#frameInPrefix() : -1;
    if (start < 0) return 'wait';
    this.#moveTo(start);
    return undefined;
  }

  /** The frame at the front has arrived as a whole. */
  #frame(length: number): Decoded | undefined {
    const end = PREFIX + length;
    if (this.#bytes.at(end) !== NEWLINE) return this.#lose('no-newline');
    const parsed = this.#bytes.parse(PREFIX, end);
    if (parsed !== undefined) {
      this.#state = IN_STEP;
      this.#drop(end + TERMINATOR);
      return parsed;
    }
    if (this.#bytes.indexOf(0, PREFIX, end) >= 0) return this.#lose('zero-byte');
    if (this.#state.at === 'lost') return this.#lose('not-json');
    this.#isAfterBadBody = true;
    this.#drop(end + TERMINATOR);
    return { fault: new FramingError('not-json') };
  }

  /** What stands at the front is no frame: on to the next place where one may begin. */
  #lose(kind: FaultKind): Decoded | undefined {
    const isToldAlready = this.#state.at === 'lost';
    if (!isToldAlready) this.#state = LOST;
    this.#moveOn();
    return isToldAlready ? undefined : { fault: new FramingError(kind) };
  }

  /** The frame at the front is too long. Its prefix may be stray bytes that have the beginning of a true
   * one among them, so its other bytes are tried before its payload is skipped. */
  #refuse(length: number): Decoded {
    this.#state = { at: 'lost', certainIn: PREFIX, refused: length + TERMINATOR };
    this.#moveOn();
    return { fault: new FramingError('oversize') };
  }

  #skip(left: number): undefined {
    const here = Math.min(left, this.#bytes.length);
    const zero = this.#bytes.indexOf(0, 0, here);
    const count = zero < 0 ? here : zero;
    this.#state = zero < 0 && here < left ? { at: 'refused', left: left - here } : IN_STEP;
    this.#drop(count);
    return undefined;
  }

  /** Leaves the front for the next place where a frame may begin. */
  #moveOn(): void {
    const next = this.#bytes.indexOf(0, 1, this.#bytes.length);
    this.#moveTo(next < 0 ? this.#bytes.length : next);
  }

  /** Leaves the front for a place further on, or for the certain one if that comes before. */
  #moveTo(next: number): void {
    if (this.#state.at !== 'lost') return this.#drop(next);
    const { certainIn, refused } = this.#state;
    if (next < certainIn) {
      this.#state = { at: 'lost', certainIn: certainIn - next, refused };
      return this.#drop(next);
    }
    this.#state = { at: 'refused', left: refused };
    this.#drop(certainIn);
  }

  /** The place of a whole frame that begins inside the prefix at the front. If there is one, the prefix is
   * none: stray bytes have eaten into that of the frame. */
  #frameInPrefix(): number {
    const bytes = this.#bytes;
    for (let start = 1; start < PREFIX; start++) {
      if (((this.#noFrameAt >> start) & 1) === 1 || bytes.length < start + PREFIX) continue;
      const length = bytes.at(start) === 0 ? bytes.uint32(start) : 0;
      const end = start + PREFIX + length;
      const isLength = length > 0 && length <= this.#limit;
      if (isLength && bytes.length <= end) continue;
      if (isLength && bytes.at(end) === NEWLINE && bytes.parse(start + PREFIX, end) !== undefined) return start;
      // It is not looked at again, however long the frame at the front takes.
      this.#noFrameAt |= 1 << start;
    }
    return -1;
  }

  #drop(count: number): void {
    this.#searched = 0;
    this.#noFrameAt = 0;
    this.#bytes.drop(count);
  }
}

/** A limit that 4 bytes of length can reach. */
export function checkLimit(name: string, limit: number): number {
  const isLength = Number.isInteger(limit) && limit >= 1 && limit <= LARGEST_LENGTH;
  if (!isLength) throw new RangeError(`${name} must be a whole number from 1 to ${LARGEST_LENGTH}, not ${limit}`);
  return limit;
}
