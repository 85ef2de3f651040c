// Writes length-prefixed messages for a connection of vscode-jsonrpc.

import type { Writable } from 'node:stream';
import { AbstractMessageWriter, type Message, type MessageWriter } from 'vscode-jsonrpc/node';
import { DEFAULT_LIMIT } from './decoder';
import type { LengthPrefixedOptions } from './reader';

const PREFIX = 4;
const NEWLINE = 0x0a;

/** Writes messages with 4 bytes of length before and a newline after each. Each message is one write, which starts when
 * the previous one is flushed. The promise of `write` resolves when its message is flushed. */
export class LengthPrefixedMessageWriter extends AbstractMessageWriter implements MessageWriter {
  readonly #stream: Writable;
  readonly #limit: number;
  readonly #onError = (error: Error) => this.fireError(error);
  readonly #onClose = () => this.fireClose();
  #last: Promise<void> = Promise.resolve();
  #failed = 0;

  constructor(stream: Writable, options: LengthPrefixedOptions = {}) {
    super();
    this.#stream = stream;
    this.#limit = options.limit ?? DEFAULT_LIMIT;
    stream.on('error', this.#onError);
    stream.on('close', this.#onClose);
  }

  async write(message: Message): Promise<void> {
    try {
      const frame = encode(message, this.#limit);
      // A failed message does not stop the next ones.
      const written = this.#last.then(() => this.#flush(frame));
      this.#last = written.catch(() => undefined);
      await written;
      this.#failed = 0;
    } catch (error) {
      this.#failed += 1;
      this.fireError(error, message, this.#failed);
      throw error;
    }
  }

  /** Ends the stream after the waiting messages. */
  end(): void {
    this.#last = this.#last.then(() => {
      this.#stream.end();
    });
  }

  override dispose(): void {
    super.dispose();
    this.#stream.off('error', this.#onError);
    this.#stream.off('close', this.#onClose);
  }

  #flush(frame: Buffer): Promise<void> {
    return new Promise((resolve, reject) => {
      // The stream calls back when the bytes are written. Until then it gets no further bytes.
      this.#stream.write(frame, (error) => (error ? reject(error) : resolve()));
    });
  }
}

/** Encodes a message as a frame. The daemon would refuse a message over the limit without naming its id, and the call
 * would wait for ever. */
export function encode(message: unknown, limit: number): Buffer {
  const text = JSON.stringify(message);
  const length = Buffer.byteLength(text);
  checkLength(length, limit);
  const frame = Buffer.allocUnsafe(PREFIX + length + 1);
  frame.writeUInt32BE(length);
  frame.write(text, PREFIX);
  frame[PREFIX + length] = NEWLINE;
  return frame;
}

export function checkLength(length: number, limit: number): void {
  if (length > limit) throw new RangeError(`the message has ${length} bytes, and the limit is ${limit}`);
}
