// Reads length-prefixed messages for a connection of vscode-jsonrpc.

import type { Readable } from 'node:stream';
import { AbstractMessageReader, Disposable, type DataCallback, type Message } from 'vscode-jsonrpc/node';
import { LengthPrefixedDecoder, type Decoded } from './decoder';

export interface LengthPrefixedOptions {
  /** Maximum size of a message, in bytes. */
  readonly limit?: number;
}

/** Reads messages with 4 bytes of length before and a newline after each. `onError` reports bytes that are not a frame,
 * once for each run of them, and the next frame is read. */
export class LengthPrefixedMessageReader extends AbstractMessageReader {
  readonly #stream: Readable;
  readonly #decoder: LengthPrefixedDecoder;
  #stop: (() => void) | undefined;

  constructor(stream: Readable, options: LengthPrefixedOptions = {}) {
    super();
    this.#stream = stream;
    this.#decoder = new LengthPrefixedDecoder(options.limit);
  }

  listen(callback: DataCallback): Disposable {
    if (this.#stop !== undefined) throw new Error('the reader is already listening');
    const stream = this.#stream;
    const listeners = {
      data: (piece: Buffer | string) => {
        const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
        this.#tell(this.#decoder.feed(bytes), callback);
      },
      end: () => this.#tell(this.#decoder.finish(), callback),
      error: (error: Error) => this.fireError(error),
      close: () => this.fireClose(),
    };
    for (const [name, listener] of Object.entries(listeners)) stream.on(name, listener);
    this.#stop = () => {
      for (const [name, listener] of Object.entries(listeners)) stream.off(name, listener);
    };
    return Disposable.create(() => this.#stop?.());
  }

  override dispose(): void {
    super.dispose();
    this.#stop?.();
  }

  #tell(all: Iterable<Decoded>, callback: DataCallback): void {
    for (const decoded of all) {
      if ('fault' in decoded) {
        this.fireError(decoded.fault);
        continue;
      }
      // If the connection fails on one message, the next messages are still read.
      try {
        callback(decoded.message as Message);
      } catch (error) {
        this.fireError(error);
      }
    }
  }
}
