// Writes length-prefixed messages for a connection of vscode-jsonrpc.

import type { Writable } from 'node:stream';
import { AbstractMessageWriter, type Message, type MessageWriter } from 'vscode-jsonrpc/node';
import { DEFAULT_LIMIT } from './decoder';
import type { LengthPrefixedOptions } from './reader';

const PREFIX = 4;
const NEWLINE = 0x0a;

/** Writes messages with 4 bytes of length before them and a newline behind. Each goes out in one write, when
 * the one before it is flushed; a promise of `write` resolves when its own is. */
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
      // The chain goes on whatever becomes of one message.
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

  /** Ends the stream, behind what waits to be written. */
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
      // The stream calls back once the bytes are handed on; until then nothing more is given to it.
      this.#stream.write(frame, (error) => (error ? reject(error) : resolve()));
    });
  }
}

/** A message as a frame. One over the limit would be refused without its id, and its call would wait for an
 * answer that never comes. */
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
