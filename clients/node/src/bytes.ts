// A buffer of received bytes that are not consumed yet.

// Invalid UTF-8 must not be replaced, and a byte order mark is not JSON.
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A contiguous buffer. A piece that arrives while the buffer is empty is not copied. Other pieces are copied into
 * space that doubles, so that on average a byte is copied at most twice. */
export class Bytes {
  #buffer: Buffer = Buffer.alloc(0);
  #start = 0;
  #end = 0;
  /** True if this class allocated the buffer, and so may write after the end. */
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

  /** Makes room for `more` bytes. The size depends on the bytes that have arrived, never on an announced length. */
  #grow(more: number): void {
    const grown = Buffer.allocUnsafe(Math.max(2 * this.length, this.length + more));
    this.#buffer.copy(grown, 0, this.#start, this.#end);
    [this.#buffer, this.#start, this.#end, this.#isOurs] = [grown, 0, this.length, true];
  }

  drop(count: number): void {
    this.#start += count;
    // Consumed bytes must not keep a large piece in memory.
    if (this.length === 0) [this.#buffer, this.#start, this.#end, this.#isOurs] = [Buffer.alloc(0), 0, 0, false];
  }

  /** The byte at this position, or undefined if it has not arrived. */
  at(place: number): number | undefined {
    return place < this.length ? this.#buffer[this.#start + place] : undefined;
  }

  uint32(place: number): number {
    return this.#buffer.readUInt32BE(this.#start + place);
  }

  /** The first position of this byte between two positions, or -1. */
  indexOf(byte: number, from: number, to: number): number {
    const end = Math.min(this.#start + to, this.#end);
    if (this.#start + from >= end) return -1;
    const found = this.#buffer.subarray(this.#start + from, end).indexOf(byte);
    return found < 0 ? -1 : from + found;
  }

  /** The parsed JSON between two positions, or undefined if the bytes are not JSON. */
  parse(from: number, to: number): { readonly message: unknown } | undefined {
    try {
      return { message: JSON.parse(UTF_8.decode(this.#buffer.subarray(this.#start + from, this.#start + to))) };
    } catch {
      return undefined;
    }
  }
}
