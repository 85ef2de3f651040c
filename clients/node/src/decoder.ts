// Decodes a stream of frames: 4 bytes of length, big-endian, the JSON text, a newline.
//
// JSON never contains a zero byte, and every length below 16 MiB begins with one. So a zero byte inside a payload
// shows immediately that the payload is invalid. After a fault, each zero byte is tried as the beginning of a frame
// until a frame is valid.

import { Bytes } from './bytes';
import { FramingError, type FaultKind } from './errors';

const PREFIX = 4;
const TERMINATOR = 1;
const NEWLINE = 0x0a;
/** Every length below this begins with a zero byte. */
const LEADING_ZERO_BELOW = 1 << 24;
const LARGEST_LENGTH = 0xffff_ffff;

/** Default limit of a message in bytes: the largest limit at which every length begins with a zero byte, so that the
 * next frame is found after any garbage. */
export const DEFAULT_LIMIT = LEADING_ZERO_BELOW - 1;

/** A decoded message, or a fault. */
export type Decoded = { readonly message: unknown } | { readonly fault: FramingError };

type State =
  /** At the beginning of a frame. */
  | { readonly at: 'frame' }
  /** At a position that may be the beginning of a frame. The fault was reported, so nothing more is reported until a
   * frame is valid, or until `certainIn` bytes are consumed: there begins a refused payload of `refused` bytes. */
  | { readonly at: 'lost'; readonly certainIn: number; readonly refused: number }
  /** In a refused payload. A zero byte in it certainly begins the next frame. */
  | { readonly at: 'refused'; readonly left: number };

const IN_STEP: State = { at: 'frame' };
const LOST: State = { at: 'lost', certainIn: Infinity, refused: 0 };

/** A decoder. It keeps only the bytes of one incomplete frame, and never allocates memory for an announced length. */
export class LengthPrefixedDecoder {
  readonly #limit: number;
  readonly #bytes = new Bytes();
  #state = IN_STEP;
  /** Number of buffered bytes that were searched for a zero byte. */
  #searched = 0;
  /** True if the last frame was complete, but its payload was not JSON. Its length may be wrong: then the rest of its
   * payload precedes the next frame, and belongs to the same fault. */
  #isAfterBadBody = false;
  /** Bit set of the positions inside the current prefix at which no frame can begin. */
  #noFrameAt = 0;

  constructor(limit: number = DEFAULT_LIMIT) {
    this.#limit = checkLimit('the limit', limit);
  }

  /** Takes a piece of the stream, of any size, and yields the decoded messages and faults. The piece must not be
   * changed afterwards. */
  *feed(piece: Buffer): Generator<Decoded, void, undefined> {
    this.#bytes.append(piece);
    yield* this.#decode(false);
  }

  /** Yields the faults of a stream that has ended. */
  *finish(): Generator<Decoded, void, undefined> {
    yield* this.#decode(true);
  }

  /** Number of buffered bytes. */
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

  /** Takes one step, and returns its message or fault, if any. */
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
    // A tried position must not make a real frame wait for bytes that never come.
    const start = this.#state.at === 'lost' ? this.#frameInPrefix() : -1;
    if (start < 0) return 'wait';
    this.#moveTo(start);
    return undefined;
  }

  /** Handles a complete frame. */
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

  /** The buffer does not begin with a frame: moves to the next position where one may begin. */
  #lose(kind: FaultKind): Decoded | undefined {
    const isToldAlready = this.#state.at === 'lost';
    if (!isToldAlready) this.#state = LOST;
    this.#moveOn();
    return isToldAlready ? undefined : { fault: new FramingError(kind) };
  }

  /** The current frame is too long. Its prefix may be stray bytes that contain the beginning of a real prefix, so the
   * other bytes of the prefix are tried before the payload is skipped. */
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

  /** Moves to the next position where a frame may begin. */
  #moveOn(): void {
    const next = this.#bytes.indexOf(0, 1, this.#bytes.length);
    this.#moveTo(next < 0 ? this.#bytes.length : next);
  }

  /** Moves to a position, or to the beginning of the refused payload if that comes first. */
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

  /** The position of a complete frame that begins inside the current prefix, or -1. If there is such a frame, the first
   * bytes of the prefix are stray bytes. */
  #frameInPrefix(): number {
    const bytes = this.#bytes;
    for (let start = 1; start < PREFIX; start++) {
      if (((this.#noFrameAt >> start) & 1) === 1 || bytes.length < start + PREFIX) continue;
      const length = bytes.at(start) === 0 ? bytes.uint32(start) : 0;
      const end = start + PREFIX + length;
      const isLength = length > 0 && length <= this.#limit;
      if (isLength && bytes.length <= end) continue;
      if (isLength && bytes.at(end) === NEWLINE && bytes.parse(start + PREFIX, end) !== undefined) return start;
      // This position is not checked again while the current frame is incomplete.
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

/** Checks that 4 bytes of length can reach a limit. */
export function checkLimit(name: string, limit: number): number {
  const isLength = Number.isInteger(limit) && limit >= 1 && limit <= LARGEST_LENGTH;
  if (!isLength) throw new RangeError(`${name} must be a whole number from 1 to ${LARGEST_LENGTH}, not ${limit}`);
  return limit;
}
