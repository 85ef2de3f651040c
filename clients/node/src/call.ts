// A call: it ends exactly once, by an answer, a timeout, an abort, or the daemon's end.

import { type CancellationToken, CancellationTokenSource, ResponseError } from 'vscode-jsonrpc/node';
import { DaemonError } from './errors';
import type { Link } from './link';
import type { Clock } from './time';

export interface CallOptions {
  /** Aborting ends the call at once, with the signal's reason, and cancels it at the daemon. */
  readonly signal?: AbortSignal;
  /** Cancelling asks the daemon to cancel the call, which then ends with its answer: in general an error with
   * the code -32800. */
  readonly token?: CancellationToken;
  /** How many milliseconds the call may take, with the time that it waits for a daemon which is being
   * started; 0 for ever. */
  readonly timeout?: number;
}

interface Settle {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** The code of an error that says that a request was cancelled. */
const CANCELLED = -32800;

export class Call {
  readonly result: Promise<unknown>;
  /** Where it was sent. */
  link: Link | undefined;
  readonly #method: string;
  readonly #params: unknown;
  readonly #source = new CancellationTokenSource();
  readonly #cleanups: (() => void)[] = [];
  #settle: Settle | undefined;

  /** `onEnd` is called when it has ended. */
  constructor(method: string, params: unknown, options: CallOptions, clock: Clock, onEnd: (call: Call) => void) {
    this.#method = method;
    this.#params = params;
    this.result = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.#cleanups.push(() => onEnd(this));
    const { signal, token, timeout = 0 } = options;
    if (signal !== undefined) {
      this.#cleanups.push(onAbort(signal, () => this.#abandon(signal.reason)));
    }
    if (token !== undefined) {
      const listener = token.onCancellationRequested(() => this.#cancel());
      this.#cleanups.push(() => listener.dispose());
    }
    if (timeout > 0) {
      const message = `${method} was not answered within ${timeout} ms`;
      this.#cleanups.push(clock.after(timeout, () => this.#abandon(new DaemonError('timeout', message))));
    }
  }

  send(link: Link): void {
    this.link = link;
    link.request(this.#method, this.#params, this.#source.token).then(
      (result) => this.#end((settle) => settle.resolve(result)),
      (error: unknown) => this.fail(error),
    );
  }

  fail(error: unknown): void {
    this.#end((settle) => settle.reject(error));
  }

  /** Asks the daemon to cancel it. What was not sent needs no asking. */
  #cancel(): void {
    this.#source.cancel();
    if (this.link === undefined) this.fail(new ResponseError(CANCELLED, 'Request cancelled'));
  }

  #abandon(error: unknown): void {
    this.#source.cancel();
    this.fail(error);
  }

  #end(act: (settle: Settle) => void): void {
    const settle = this.#settle;
    if (settle === undefined) return;
    this.#settle = undefined;
    for (const cleanup of this.#cleanups) cleanup();
    this.#source.dispose();
    act(settle);
  }
}

interface Watch {
  readonly acts: Set<() => void>;
  readonly tell: () => void;
}

const WATCHES = new WeakMap<AbortSignal, Watch>();

/** Acts when a signal is aborted; what is returned takes that back. Any number of calls may have the same
 * signal, and Node warns of a leak from the eleventh listener on, so there is one for all of them. */
function onAbort(signal: AbortSignal, act: () => void): () => void {
  const watch = WATCHES.get(signal) ?? watchOf(signal);
  watch.acts.add(act);
  return () => {
    watch.acts.delete(act);
    if (watch.acts.size > 0) return;
    signal.removeEventListener('abort', watch.tell);
    WATCHES.delete(signal);
  };
}

function watchOf(signal: AbortSignal): Watch {
  const acts = new Set<() => void>();
  const watch = { acts, tell: () => [...acts].forEach((act) => act()) };
  signal.addEventListener('abort', watch.tell);
  WATCHES.set(signal, watch);
  return watch;
}
