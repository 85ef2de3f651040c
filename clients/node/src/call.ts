// A call: it ends exactly once, by an answer, a timeout, an abort, or the daemon's end.

import { type CancellationToken, CancellationTokenSource, ResponseError } from 'vscode-jsonrpc/node';
import { DaemonError } from './errors';
import type { Link } from './link';
import type { Clock } from './time';

export interface CallOptions {
  /** Aborting ends the call immediately, with the signal's reason, and sends a cancellation to the daemon. */
  readonly signal?: AbortSignal;
  /** Cancelling sends a cancellation to the daemon. The call ends with the daemon's answer: usually an error with the
   * code -32800. */
  readonly token?: CancellationToken;
  /** Maximum time of the call in milliseconds, including the time until the daemon has started; 0 means no limit. */
  readonly timeout?: number;
}

interface Settle {
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** The error code of a cancelled request. */
const CANCELLED = -32800;

export class Call {
  readonly result: Promise<unknown>;
  /** The connection that the call was sent on. */
  link: Link | undefined;
  readonly #method: string;
  readonly #params: unknown;
  readonly #source = new CancellationTokenSource();
  readonly #cleanups: (() => void)[] = [];
  #settle: Settle | undefined;

  /** `onEnd` is called when the call has ended. */
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

  /** Sends a cancellation to the daemon. A call that was not sent yet fails here. */
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

/** Calls `act` when the signal is aborted; the returned function undoes that. Many calls may share a signal, and Node
 * warns of a leak from the eleventh listener on, so all calls of a signal share one listener. */
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
