// Handlers for requests and notifications from the daemon. They stay when the daemon restarts.

import { Disposable, ErrorCodes, ResponseError, type CancellationToken } from 'vscode-jsonrpc/node';

/** Answers a request of the daemon. The token is cancelled if the daemon cancels the request. */
export type RequestHandler = (params: unknown, token: CancellationToken) => unknown;

export type NotificationHandler = (params: unknown) => void | Promise<void>;

export class Handlers {
  // Each registration has its own entry, even if the same function is registered more than once.
  readonly #requests = new Map<string, { readonly handler: RequestHandler }>();
  readonly #notifications = new Map<string, Set<{ readonly handler: NotificationHandler }>>();
  readonly #problem: (error: Error) => void;

  constructor(problem: (error: Error) => void) {
    this.#problem = problem;
  }

  serve(method: string, handler: RequestHandler): Disposable {
    if (this.#requests.has(method)) throw new Error(`${method} is served already`);
    const entry = { handler };
    this.#requests.set(method, entry);
    return Disposable.create(() => {
      if (this.#requests.get(method) === entry) this.#requests.delete(method);
    });
  }

  listen(method: string, handler: NotificationHandler): Disposable {
    const handlers = this.#notifications.get(method) ?? new Set();
    const entry = { handler };
    this.#notifications.set(method, handlers.add(entry));
    return Disposable.create(() => {
      handlers.delete(entry);
      if (handlers.size === 0 && this.#notifications.get(method) === handlers) this.#notifications.delete(method);
    });
  }

  /** Answers a request. If the handler fails, the daemon gets only an internal error, without the cause. */
  async answer(method: string, params: unknown, token: CancellationToken): Promise<unknown> {
    const entry = this.#requests.get(method);
    if (entry === undefined) return new ResponseError(ErrorCodes.MethodNotFound, `Method not found: ${method}`);
    try {
      return await entry.handler(params, token);
    } catch (error) {
      if (error instanceof ResponseError) return error;
      this.#tellProblem(`the handler of ${method} failed`, error);
      return new ResponseError(ErrorCodes.InternalError, 'Internal error');
    }
  }

  tell(method: string, params: unknown): void {
    for (const { handler } of [...(this.#notifications.get(method) ?? [])]) {
      Promise.resolve()
        .then(() => handler(params))
        .catch((error: unknown) => this.#tellProblem(`a handler of ${method} failed`, error));
    }
  }

  #tellProblem(what: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause);
    this.#problem(new Error(`${what}: ${why}`, { cause }));
  }
}
