// Bytes that have arrived and are not used up.

// A text that is not UTF-8 must not be mended, and a byte order mark is no JSON.
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Bytes in one row. A piece that comes while nothing is kept is not copied; what comes to a part of a
 * frame is, into space that doubles, so that a byte is copied twice at most on average. */
export class Bytes {
  #buffer: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  /** Whether the space behind the end is ours to write to. */
  #isOurs = false;

  get length(): number {
    return this.#end - this.#start;
  }

  append(piece: Buffer): void {
    if (this.length === 0) {
      [this.#buffer, this.#start, this.#end, this.#isOurs] = [piece, 0, piece.length, false];
      return;
    }
    if (!this.#isOurs || this.#buffer.length - this.#end < piece.length) this.#grow(piece.length);
    piece.copy(this.#buffer, this.#end);
    this.#end += piece.length;
  }

  /** Makes room for so many more bytes. It depends on what has arrived, and on nothing that was announced. */
  #grow(more: number): void {
    const grown = Buffer.allocUnsafe(Math.max(2 * this.length, this.length + more));
    this.#buffer.copy(grown, 0, this.#start, this.#end);
    [this.#buffer, this.#start, this.#end, this.#isOurs] = [grown, 0, this.length, true];
  }

  drop(count: number): void {
    this.#start += count;
    // What is used up must not keep a large piece in memory.
    if (this.length === 0) [this.#buffer, this.#start, this.#end, this.#isOurs] = [Buffer.alloc(0), 0, 0, false];
  }

  /** The byte at this place, or undefined if it has not arrived. */
  at(place: number): number | undefined {
    return place < this.length ? this.#buffer[this.#start + place] : undefined;
  }

  uint32(place: number): number {
    return this.#buffer.readUInt32BE(this.#start + place);
  }

  /** Where this byte stands first between two places, or -1. */
  indexOf(byte: number, from: number, to: number): number {
    const end = Math.min(this.#start + to, this.#end);
    if (this.#start + from >= end) return -1;
    const found = this.#buffer.subarray(this.#start + from, end).indexOf(byte);
    return found < 0 ? -1 : from + found;
  }

  /** The JSON between two places, or undefined if it is none. */
  parse(from: number, to: number): { readonly message: unknown } | undefined {
    try {
      return { message: JSON.parse(UTF_8.decode(this.#buffer.subarray(this.#start + from, this.#start + to))) };
    } catch {
      return undefined;
    }
  }
}
