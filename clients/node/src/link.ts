// A connection to one process of the daemon: vscode-jsonrpc over its stdin and stdout.

import {
  type CancellationToken,
  CancellationTokenSource,
  createMessageConnection,
  type Message,
  type MessageConnection,
  type MessageReader,
  type MessageWriter,
  ParameterStructures,
  StreamMessageReader,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import type { Child } from './child';
import type { Settings } from './options';
import { LengthPrefixedMessageReader } from './reader';
import { checkLength, LengthPrefixedMessageWriter } from './writer';

/** Callbacks for requests, notifications and problems of the daemon. */
export interface Hooks {
  serve(method: string, params: unknown, token: CancellationToken): unknown;
  notice(method: string, params: unknown): void;
  /** A problem for the log. */
  problem(error: Error): void;
  /** Nothing can be read or written any more. */
  broken(): void;
}

/** Number of turns of the event loop without a message, after which no message is left. */
const IDLE_TURNS = 10;
/** Number of waiting messages at which reading stops. vscode-jsonrpc handles one message in each turn of the event
 * loop, and queues the others without a limit. */
const MOST_WAITING = 1_000;

/** The framing of messages, and the limits of their size. */
export type Wire = Pick<Settings, 'framing' | 'maxMessageBytes' | 'maxAnswerBytes'>;

export class Link {
  readonly child: Child;
  readonly #connection: MessageConnection;
  #handled = 0;
  /** Number of messages that have arrived and are not handled. */
  #arrived = 0;
  #isPaused = false;

  constructor(child: Child, wire: Wire, hooks: Hooks) {
    this.child = child;
    const [reader, writer] = streams(child, wire);
    const complain = (message: string): void => hooks.problem(new Error(message));
    this.#connection = createMessageConnection(
      this.#paced(reader),
      new TellingWriter(writer),
      { error: complain, warn: complain, info: () => undefined, log: () => undefined },
      {
        cancellationStrategy: {
          receiver: { createCancellationTokenSource: () => new CancellationTokenSource() },
          sender: {
            // Async, so that a closed connection rejects the promise and does not throw.
            sendCancellation: async (connection, id) => connection.sendNotification('$/cancelRequest', { id }),
            cleanup: () => undefined,
          },
        },
        messageStrategy: {
          handleMessage: (message, handle) => {
            this.#handled += 1;
            this.#arrived -= 1;
            return handle(message);
          },
        },
      },
    );
    this.#connection.onRequest((method, params, token) => hooks.serve(method, params, token));
    this.#connection.onNotification((method, params) => hooks.notice(method, params));
    this.#connection.onError(([error]) => hooks.problem(error));
    this.#connection.onClose(() => hooks.broken());
    this.#connection.listen();
  }

  /** Sends a request. If the connection breaks, the promise may stay pending: the exit of the process then fails the
   * call, with the exit status and the last lines of stderr. */
  request(method: string, params: unknown, token: CancellationToken): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let isUnsent = false;
      const held = new Held(params, (error) => {
        isUnsent = true;
        // The pipe works, so the message itself cannot be written.
        if (this.child.stdin.writable) reject(error);
      });
      const fail = (error: unknown): void => {
        if (!isUnsent) reject(error);
      };
      try {
        this.#connection.sendRequest(method, ParameterStructures.byName, held, token).then(resolve, fail);
      } catch {
        // The connection is closed, so the process exits, and its exit fails the call.
      }
    });
  }

  async notify(method: string, params: unknown): Promise<void> {
    await this.#connection.sendNotification(method, ParameterStructures.byName, new Held(params, () => undefined));
  }

  /** Waits until all messages that have arrived are handled. vscode-jsonrpc takes one turn of the event loop to decode
   * a message, and another to pass it on, so after some turns without a message none is left. */
  async drained(): Promise<void> {
    for (let handled = this.#handled, turns = 0; turns < IDLE_TURNS; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#handled !== handled) [handled, turns] = [this.#handled, 0];
    }
  }

  dispose(): void {
    this.#connection.dispose();
  }

  /** A reader that stops reading while too many messages wait, so that the daemon waits too. */
  #paced(reader: MessageReader): MessageReader {
    const { onError, onClose, onPartialMessage } = reader;
    const listen: MessageReader['listen'] = (callback) =>
      reader.listen((message) => {
        this.#arrived += 1;
        if (this.#arrived >= MOST_WAITING && !this.#isPaused) void this.#pause();
        callback(message);
      });
    return { onError, onClose, onPartialMessage, listen, dispose: () => reader.dispose() };
  }

  async #pause(): Promise<void> {
    this.#isPaused = true;
    this.child.stdout.pause();
    await this.drained();
    // vscode-jsonrpc never passes on some messages, such as the first of two answers with the same id.
    this.#arrived = 0;
    this.#isPaused = false;
    this.child.stdout.resume();
  }
}

/** Wraps the params of a message. vscode-jsonrpc wraps arrays and drops empty ones, but it does not change objects. The
 * object also identifies the call if its message could not be written. */
class Held {
  constructor(
    readonly params: unknown,
    readonly fault: (error: unknown) => void,
  ) {}

  toJSON(key: string): unknown {
    const { params } = this;
    // `JSON.stringify` does not call `toJSON` on the returned value, so call it here.
    const { toJSON } = (params ?? {}) as { toJSON?: unknown };
    return typeof toJSON === 'function' ? toJSON.call(params, key) : params;
  }
}

/** A writer that calls `fault` on the params of a message that could not be written. */
class TellingWriter implements MessageWriter {
  readonly #inner: MessageWriter;

  constructor(inner: MessageWriter) {
    this.#inner = inner;
  }

  get onError(): MessageWriter['onError'] {
    return this.#inner.onError;
  }

  get onClose(): MessageWriter['onClose'] {
    return this.#inner.onClose;
  }

  async write(message: Message): Promise<void> {
    try {
      await this.#inner.write(message);
    } catch (error) {
      const { params } = message as { params?: unknown };
      if (params instanceof Held) params.fault(error);
      throw error;
    }
  }

  end(): void {
    this.#inner.end();
  }

  dispose(): void {
    this.#inner.dispose();
  }
}

function streams(child: Child, { framing, maxMessageBytes, maxAnswerBytes }: Wire): [MessageReader, MessageWriter] {
  if (framing === 'length') {
    const writer = new LengthPrefixedMessageWriter(child.stdin, { limit: maxMessageBytes });
    return [new LengthPrefixedMessageReader(child.stdout, { limit: maxAnswerBytes }), writer];
  }
  const contentTypeEncoder = {
    name: 'application/json',
    encode: async (message: Message) => {
      const bytes = Buffer.from(JSON.stringify(message));
      checkLength(bytes.length, maxMessageBytes);
      return bytes;
    },
  };
  const reader = new StreamMessageReader(child.stdout);
  // Otherwise its timer would run for ever if the daemon died inside a message.
  reader.partialMessageTimeout = 0;
  return [reader, new StreamMessageWriter(child.stdin, { contentTypeEncoder })];
}
