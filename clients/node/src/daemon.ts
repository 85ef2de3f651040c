// The daemon: starts it, calls it, restarts it after a crash, and stops it.

import { Emitter, ResponseError, type Disposable, type Event } from 'vscode-jsonrpc/node';
import { Call, type CallOptions } from './call';
import { Child, type Exit } from './child';
import { DaemonError } from './errors';
import { Handlers, type NotificationHandler, type RequestHandler } from './handlers';
import { Link } from './link';
import { atLeast, settle, type DaemonOptions, type Settings } from './options';
import { delayAfter } from './time';
import type { DaemonEvent, MethodName, Params, Profile, ProfileMethods, Rest, Result, Topic } from './types';

/** The state of the daemon:
 * `stopped` before `start` and after `stop`; `starting` until its first answer; `running`; `waiting` for the next
 * start after a crash; `stopping`; `failed` if it will not be started again. */
export type State = 'stopped' | 'starting' | 'running' | 'waiting' | 'stopping' | 'failed';

export interface StateChange {
  readonly state: State;
  /** The process id, if there is a process. */
  readonly pid?: number;
  /** Number of crashes in a row. */
  readonly deaths: number;
  /** The reason why it is not running. */
  readonly error?: Error;
  /** Time until the next start, in milliseconds. */
  readonly delay?: number;
}

/**
 * A child process that is a `duet-rpc` daemon, or any program that uses the same protocol.
 *
 * `request` knows the methods of the profile. `More` adds the methods of your own program:
 * `Daemon<'agent', { add: { params: [number, number]; result: number } }>`.
 */
export class Daemon<P extends Profile = Profile, More = unknown> {
  readonly #settings: Settings;
  readonly #handlers = new Handlers((error) => this.#problems.fire(error));
  readonly #states = new Emitter<StateChange>();
  readonly #problems = new Emitter<Error>();
  #state: State = 'stopped';
  #link: Link | undefined;
  /** The current process, or the last one. */
  #child: Promise<Child | undefined> = Promise.resolve(undefined);
  /** Resolves when the exit of the last process has been handled. */
  #gone: Promise<void> = Promise.resolve();
  /** The reason for the state `failed`. */
  #error: Error | undefined;
  #stop: Promise<Exit | undefined> | undefined;
  /** Number of crashes in a row, and the time of the last start. */
  #deaths = 0;
  #since = 0;
  #cancelRestart = (): void => undefined;
  /** Counts starts and stops, so that a start notices if it was overtaken by another start or a stop. */
  #turn = 0;
  readonly #calls = new Set<Call>();
  /** Calls that wait for the daemon, and callers of `start` that wait for it. */
  readonly #waiting = new Set<Call>();
  readonly #arrivals: { resolve(): void; reject(error: unknown): void }[] = [];

  constructor(options: DaemonOptions<P>) {
    this.#settings = settle(options);
  }

  get state(): State {
    return this.#state;
  }

  /** The id of the running process. */
  get pid(): number | undefined {
    return this.#link?.child.pid;
  }

  /** Fires at each change of state. Subscribe to the daemon's events at each `running`, because subscriptions end with
   * the process. */
  get onState(): Event<StateChange> {
    return this.#states.event;
  }

  /** Fires for problems that do not belong to one call: bytes that are not a message, errors without an id, handlers
   * that failed. */
  get onProblem(): Event<Error> {
    return this.#problems.event;
  }

  /** Starts the daemon, and resolves after its first answer. A failed first start is not repeated; only a daemon that
   * was running is restarted. */
  async start(): Promise<void> {
    switch (this.#state) {
      case 'running':
        return;
      case 'starting':
      case 'waiting':
        return new Promise((resolve, reject) => this.#arrivals.push({ resolve, reject }));
      case 'stopping':
        throw new DaemonError('stopped', 'the daemon is being stopped');
      case 'stopped':
      case 'failed':
        this.#deaths = 0;
        return this.#launch((error) => this.#fail(error));
    }
  }

  /** Calls a method. While the daemon starts or restarts, the call waits, at most as long as its timeout. */
  request<K extends MethodName<ProfileMethods[P] & More>>(
    method: K,
    ...rest: Rest<Params<ProfileMethods[P] & More, K>, [options?: CallOptions]>
  ): Promise<Result<ProfileMethods[P] & More, K>> {
    const [params, options] = rest;
    return this.call(method, params, options) as Promise<Result<ProfileMethods[P] & More, K>>;
  }

  /** Calls a method without types. */
  async call(method: string, params?: unknown, options: CallOptions = {}): Promise<unknown> {
    options.signal?.throwIfAborted();
    const timeout = atLeast(0, 'timeout', options.timeout ?? this.#settings.timeout);
    this.#checkUsable();
    if (this.#state !== 'running' && this.#waiting.size >= this.#settings.maxWaiting) {
      throw new DaemonError('overloaded', `${this.#waiting.size} calls wait for the daemon already`);
    }
    const call = new Call(method, params, { ...options, timeout }, this.#settings.clock, (ended) => {
      this.#calls.delete(ended);
      this.#waiting.delete(ended);
    });
    this.#calls.add(call);
    if (this.#state === 'running' && this.#link !== undefined) call.send(this.#link);
    else this.#waiting.add(call);
    return call.result;
  }

  /** Sends a notification, and resolves when it is written. Fails if the daemon is not running. */
  async notify<K extends MethodName<ProfileMethods[P] & More>>(
    method: K,
    ...rest: Rest<Params<ProfileMethods[P] & More, K>, []>
  ): Promise<void> {
    this.#checkUsable();
    if (this.#state !== 'running' || this.#link === undefined) {
      throw new DaemonError('died', 'the daemon is not running');
    }
    await this.#link.notify(method, rest[0]);
  }

  /** Serves a method to the daemon. A `ResponseError` that the handler throws is sent as it is. Any other error goes to
   * `onProblem`, and the daemon gets an internal error. */
  onRequest(method: string, handler: RequestHandler): Disposable {
    return this.#handlers.serve(method, handler);
  }

  /** Handles notifications from the daemon. */
  onNotification(method: string, handler: NotificationHandler): Disposable {
    return this.#handlers.listen(method, handler);
  }

  /** Handles events of a topic. The daemon sends them after `events.subscribe`. */
  onEvent<T extends Topic>(topic: T, handler: (event: DaemonEvent<T>) => void): Disposable {
    const isOfTopic = (params: unknown): params is DaemonEvent<T> => (params as DaemonEvent | null)?.topic === topic;
    return this.#handlers.listen('event', (params) => (isOfTopic(params) ? handler(params) : undefined));
  }

  /** Stops the daemon: sends `shutdown`, closes its stdin, then sends SIGTERM, then SIGKILL, each after the time
   * `grace`. Resolves with the exit of the process. Calls that are still pending then fail. */
  stop(): Promise<Exit | undefined> {
    if (this.#state === 'stopped') return this.#child.then((child) => child?.ended);
    if (this.#stop !== undefined) return this.#stop;
    const running = this.#state === 'running' ? this.#link : undefined;
    this.#turn += 1;
    this.#cancelRestart();
    this.#failWaiting(new DaemonError('stopped', 'the daemon was stopped'));
    // Set `#stop` before the state changes, because a listener may call `stop` too.
    const stop = this.#end(running);
    this.#stop = stop;
    this.#become('stopping');
    return stop;
  }

  async #end(running: Link | undefined): Promise<Exit | undefined> {
    // If the process is being started, wait until it exists.
    const child = await this.#child;
    if (running !== undefined) await this.#askToEnd(running);
    const exit = await child?.end(this.#settings.grace);
    await this.#gone;
    for (const call of this.#calls) call.fail(new DaemonError('stopped', 'the daemon was stopped'));
    this.#stop = undefined;
    this.#become('stopped');
    return exit;
  }

  /** Sends `shutdown`, and waits for the answer or the exit. */
  async #askToEnd(link: Link): Promise<void> {
    const { grace, clock } = this.#settings;
    const call = new Call('shutdown', undefined, { timeout: grace }, clock, () => undefined);
    call.send(link);
    // If the daemon does not know the method or does not answer, the next step stops it.
    await Promise.race([call.result.catch(() => undefined), link.child.ended]);
    call.fail(undefined);
  }

  /** Starts a process, and waits for its first answer. Calls `onFailure` if that fails, unless the daemon was stopped
   * meanwhile. */
  async #launch(onFailure: (error: Error) => void): Promise<void> {
    const turn = ++this.#turn;
    const checkTurn = (): void => {
      if (this.#turn !== turn) throw new DaemonError('stopped', 'the daemon was stopped');
    };
    this.#become('starting');
    try {
      const starting = Child.start(this.#settings.command, this.#settings.clock, (line) => this.#log(line));
      this.#child = starting.catch(() => undefined);
      const child = await starting;
      checkTurn();
      const link = await this.#connect(child);
      checkTurn();
      this.#arrive(link);
    } catch (error) {
      if (this.#turn === turn) onFailure(error as Error);
      throw error;
    }
  }

  /** Connects to a process, and stops the process if it does not answer. */
  async #connect(child: Child): Promise<Link> {
    const { grace } = this.#settings;
    const link: Link = new Link(child, this.#settings, {
      serve: (method, params, token) => this.#handlers.answer(method, params, token),
      notice: (method, params) => this.#handlers.tell(method, params),
      problem: (error) => this.#problems.fire(error),
      // A process without a connection is useless.
      broken: () => void child.end(grace),
    });
    this.#link = link;
    this.#gone = child.ended.then((exit) => this.#ended(link, exit));
    try {
      await this.#probe(link);
    } catch (error) {
      await child.end(grace);
      await this.#gone;
      throw error;
    }
    return link;
  }

  #arrive(link: Link): void {
    this.#since = this.#settings.clock.now();
    this.#become('running');
    for (const call of [...this.#waiting]) {
      this.#waiting.delete(call);
      call.send(link);
    }
    for (const { resolve } of this.#arrivals.splice(0)) resolve();
  }

  /** Waits for the first answer. Any answer will do, even the error `Method not found`. */
  async #probe(link: Link): Promise<void> {
    const { startTimeout, clock } = this.#settings;
    const call = new Call('version', undefined, { timeout: startTimeout }, clock, (ended) => this.#calls.delete(ended));
    this.#calls.add(call);
    call.send(link);
    try {
      await call.result;
    } catch (error) {
      if (!(error instanceof ResponseError)) throw error;
    }
  }

  /** Handles the exit of a process, after all its output was read. */
  async #ended(link: Link, exit: Exit): Promise<void> {
    await link.drained();
    const code = this.#state === 'stopping' ? 'stopped' : 'died';
    const error = new DaemonError(code, link.child.describe(exit));
    const isRunning = this.#state === 'running';
    this.#link = undefined;
    for (const call of [...this.#calls]) if (call.link === link) call.fail(error);
    link.dispose();
    if (!isRunning) return;
    if (this.#settings.clock.now() - this.#since >= this.#settings.stableAfter) this.#deaths = 0;
    this.#restart(error);
  }

  /** Restarts the daemon after a delay, unless it has crashed too often. */
  #restart(error: Error): void {
    const { giveUpAfter, backoff, random, clock } = this.#settings;
    this.#deaths += 1;
    if (this.#deaths > giveUpAfter) {
      const message = `the daemon died ${this.#deaths} times in a row; last error: ${error.message}`;
      this.#fail(new DaemonError('gave-up', message, { cause: error }));
      return;
    }
    const delay = delayAfter(this.#deaths, backoff, random());
    this.#cancelRestart = clock.after(delay, () => {
      this.#launch((next) => this.#restart(next)).catch(() => undefined);
    });
    this.#become('waiting', { error, delay });
  }

  #fail(error: Error): void {
    this.#error = error;
    // Fail the waiting calls first: a listener of the state may start the daemon again, and its new calls must wait.
    this.#failWaiting(error);
    this.#become('failed', { error });
  }

  #failWaiting(error: Error): void {
    for (const call of [...this.#waiting]) call.fail(error);
    for (const { reject } of this.#arrivals.splice(0)) reject(error);
  }

  #checkUsable(): void {
    if (this.#state === 'failed') throw this.#error;
    if (this.#state === 'stopped') throw new DaemonError('stopped', 'the daemon is not started');
    if (this.#state === 'stopping') throw new DaemonError('stopped', 'the daemon is being stopped');
  }

  /** A callback that fails must not stop the reading of stderr. */
  #log(line: string): void {
    try {
      this.#settings.onLog(line);
    } catch (error) {
      this.#problems.fire(new Error('onLog failed', { cause: error }));
    }
  }

  #become(state: State, more: Pick<StateChange, 'error' | 'delay'> = {}): void {
    this.#state = state;
    const pid = this.pid;
    this.#states.fire({ state, deaths: this.#deaths, ...(pid === undefined ? {} : { pid }), ...more });
  }
}
