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

/** What the other end asks and tells, and what goes wrong with it. */
export interface Hooks {
  serve(method: string, params: unknown, token: CancellationToken): unknown;
  notice(method: string, params: unknown): void;
  /** Something that is worth a line in a log. */
  problem(error: Error): void;
  /** Nothing can be read or written any more. */
  broken(): void;
}

/** After how many turns of the event loop without a message there is none left. */
const IDLE_TURNS = 10;
/** How many messages may wait to be handled before no more are read. vscode-jsonrpc handles one in a turn of the
 * event loop, whatever has arrived meanwhile, and keeps the others. */
const MOST_WAITING = 1_000;

/** How messages are framed, and how long they may be. */
export type Wire = Pick<Settings, 'framing' | 'maxMessageBytes' | 'maxAnswerBytes'>;

export class Link {
  readonly child: Child;
  readonly #connection: MessageConnection;
  #handled = 0;
  /** How many have arrived and are not handled. */
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
            // Async, so that a connection which is closed makes a promise that fails, and nothing is thrown.
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

  /** Sends a request. If the connection breaks, the promise may stay open: the end of the process is what
   * tells, with its status and its last words. */
  request(method: string, params: unknown, token: CancellationToken): Promise<unknown> {
    return new Promise((resolve, reject) => {
      let isUnsent = false;
      const held = new Held(params, (error) => {
        isUnsent = true;
        // It is the message that cannot be written, and not the pipe that is broken.
        if (this.child.stdin.writable) reject(error);
      });
      const fail = (error: unknown): void => {
        if (!isUnsent) reject(error);
      };
      try {
        this.#connection.sendRequest(method, ParameterStructures.byName, held, token).then(resolve, fail);
      } catch {
        // It is closed, and so the process ends.
      }
    });
  }

  async notify(method: string, params: unknown): Promise<void> {
    await this.#connection.sendNotification(method, ParameterStructures.byName, new Held(params, () => undefined));
  }

  /** Waits until all messages that have arrived are handled. vscode-jsonrpc takes a turn of the event loop to
   * decode one, and another to hand it on, so after some without any there is none left. */
  async drained(): Promise<void> {
    for (let handled = this.#handled, turns = 0; turns < IDLE_TURNS; turns++) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#handled !== handled) [handled, turns] = [this.#handled, 0];
    }
  }

  dispose(): void {
    this.#connection.dispose();
  }

  /** A reader that does not read on while too many messages wait, so that the daemon waits too. */
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
    // Some are never handed on, such as the first of two answers with one id.
    this.#arrived = 0;
    this.#isPaused = false;
    this.child.stdout.resume();
  }
}

/** Params on their way. vscode-jsonrpc wraps arrays and drops empty ones, but leaves objects alone; and an
 * object is also known again when its message could not be written. */
class Held {
  constructor(
    readonly params: unknown,
    readonly fault: (error: unknown) => void,
  ) {}

  toJSON(key: string): unknown {
    const { params } = this;
    // Of what is returned here, this is not asked again.
    const { toJSON } = (params ?? {}) as { toJSON?: unknown };
    return typeof toJSON === 'function' ? toJSON.call(params, key) : params;
  }
}

/** A writer that tells the params of a message that they were not written. */
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
  // Its timer would go on for ever if the daemon died inside a message.
  reader.partialMessageTimeout = 0;
  return [reader, new StreamMessageWriter(child.stdin, { contentTypeEncoder })];
}
