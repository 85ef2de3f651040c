// A daemon that is started, called, kept running and stopped.

import { Emitter, ResponseError, type Disposable, type Event } from 'vscode-jsonrpc/node';
import { Call, type CallOptions } from './call';
import { Child, type Exit } from './child';
import { DaemonError } from './errors';
import { Handlers, type NotificationHandler, type RequestHandler } from './handlers';
import { Link } from './link';
import { atLeast, settle, type DaemonOptions, type Settings } from './options';
import { delayAfter } from './time';
import type { DaemonEvent, MethodName, Params, Profile, ProfileMethods, Rest, Result, Topic } from './types';

/** How the daemon is:
 * `stopped` before the start and after `stop`; `starting` until it answers for the first time; `running`;
 * `waiting` to be started again after it died; `stopping`; `failed` if it is not started again. */
export type State = 'stopped' | 'starting' | 'running' | 'waiting' | 'stopping' | 'failed';

export interface StateChange {
  readonly state: State;
  /** Of the process, if there is one. */
  readonly pid?: number;
  /** How many times in a row it has died. */
  readonly deaths: number;
  /** Why it is not running. */
  readonly error?: Error;
  /** In how many milliseconds it is started again. */
  readonly delay?: number;
}

/**
 * A `duet-rpc` daemon, or any program that speaks as it does, as a child process.
 *
 * The methods are those of the profile, and those of `More` for a program that serves others:
 * `Daemon<'agent', { add: { params: [number, number]; result: number } }>`.
 */
export class Daemon<P extends Profile = Profile, More = unknown> {
  readonly #settings: Settings;
  readonly #handlers = new Handlers((error) => this.#problems.fire(error));
  readonly #states = new Emitter<StateChange>();
  readonly #problems = new Emitter<Error>();
  #state: State = 'stopped';
  #link: Link | undefined;
  /** The process that is started, or was. */
  #child: Promise<Child | undefined> = Promise.resolve(undefined);
  /** Resolves when nothing is left to do about the last process. */
  #gone: Promise<void> = Promise.resolve();
  /** Why it has failed. */
  #error: Error | undefined;
  #stop: Promise<Exit | undefined> | undefined;
  /** How many times in a row it has died, and since when it runs. */
  #deaths = 0;
  #since = 0;
  #cancelRestart = (): void => undefined;
  /** Counts starts and stops, so that what a start waited for is known to be out of date. */
  #turn = 0;
  readonly #calls = new Set<Call>();
  /** Those of the calls that wait for the daemon, and those who wait for it in `start`. */
  readonly #waiting = new Set<Call>();
  readonly #arrivals: { resolve(): void; reject(error: unknown): void }[] = [];

  constructor(options: DaemonOptions<P>) {
    this.#settings = settle(options);
  }

  get state(): State {
    return this.#state;
  }

  /** Of the process that runs now. */
  get pid(): number | undefined {
    return this.#link?.child.pid;
  }

  /** Each change of state. Subscribe to the daemon's events at each `running`, as a new process knows nothing
   * of what the one before it was asked. */
  get onState(): Event<StateChange> {
    return this.#states.event;
  }

  /** What went wrong without being the matter of one call: bytes that are no message, errors without an id,
   * handlers that failed. */
  get onProblem(): Event<Error> {
    return this.#problems.event;
  }

  /** Starts it: resolves when it has answered for the first time. If that fails, it is not tried again; only
   * a daemon that has run is. */
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

  /** Calls a method. Before the daemon runs, and while it is started again, the call waits, as long as its
   * timeout allows. */
  request<K extends MethodName<ProfileMethods[P] & More>>(
    method: K,
    ...rest: Rest<Params<ProfileMethods[P] & More, K>, [options?: CallOptions]>
  ): Promise<Result<ProfileMethods[P] & More, K>> {
    const [params, options] = rest;
    return this.call(method, params, options) as Promise<Result<ProfileMethods[P] & More, K>>;
  }

  /** Calls a method of which no types are known. */
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

  /** Sends a notification: resolves when it is written. It does not wait for a daemon that is not running. */
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

  /** Serves a method to the daemon. What the handler throws is answered as an internal error and told to
   * `onProblem`; a `ResponseError` is answered as it is. */
  onRequest(method: string, handler: RequestHandler): Disposable {
    return this.#handlers.serve(method, handler);
  }

  /** Takes notifications of the daemon. */
  onNotification(method: string, handler: NotificationHandler): Disposable {
    return this.#handlers.listen(method, handler);
  }

  /** Takes events of a topic, which come after `events.subscribe`. */
  onEvent<T extends Topic>(topic: T, handler: (event: DaemonEvent<T>) => void): Disposable {
    const isOfTopic = (params: unknown): params is DaemonEvent<T> => (params as DaemonEvent | null)?.topic === topic;
    return this.#handlers.listen('event', (params) => (isOfTopic(params) ? handler(params) : undefined));
  }

  /** Stops it for certain: asks it to shut down, closes its stdin, then SIGTERM, then SIGKILL, each after a
   * time. Resolves when the process is gone, with how it ended. Calls that are not answered by then fail. */
  stop(): Promise<Exit | undefined> {
    if (this.#state === 'stopped') return this.#child.then((child) => child?.ended);
    if (this.#stop !== undefined) return this.#stop;
    const running = this.#state === 'running' ? this.#link : undefined;
    this.#turn += 1;
    this.#cancelRestart();
    this.#failWaiting(new DaemonError('stopped', 'the daemon was stopped'));
    // Before anybody hears of it, who may call this too.
    const stop = this.#end(running);
    this.#stop = stop;
    this.#become('stopping');
    return stop;
  }

  async #end(running: Link | undefined): Promise<Exit | undefined> {
    // One that is being started is there in a moment.
    const child = await this.#child;
    if (running !== undefined) await this.#askToEnd(running);
    const exit = await child?.end(this.#settings.grace);
    await this.#gone;
    for (const call of this.#calls) call.fail(new DaemonError('stopped', 'the daemon was stopped'));
    this.#stop = undefined;
    this.#become('stopped');
    return exit;
  }

  /** Sends `shutdown`, and waits for the answer or the end. */
  async #askToEnd(link: Link): Promise<void> {
    const { grace, clock } = this.#settings;
    const call = new Call('shutdown', undefined, { timeout: grace }, clock, () => undefined);
    call.send(link);
    // A daemon that does not know the method, or does not answer, is ended by what comes next.
    await Promise.race([call.result.catch(() => undefined), link.child.ended]);
    call.fail(undefined);
  }

  /** Starts a process, and waits until it answers. Unless it was stopped meanwhile, `onFailure` is called if
   * that fails. */
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

  /** Makes a connection to a process, and ends the process if it does not answer. */
  async #connect(child: Child): Promise<Link> {
    const { grace } = this.#settings;
    const link: Link = new Link(child, this.#settings, {
      serve: (method, params, token) => this.#handlers.answer(method, params, token),
      notice: (method, params) => this.#handlers.tell(method, params),
      problem: (error) => this.#problems.fire(error),
      // A process that cannot be talked to is of no use.
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

  /** Any answer shows that it is there, also one that says that it knows no such method. */
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

  /** A process has ended, and all that it wrote was read. */
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

  /** Starts it again after a time, unless it has died too often. */
  #restart(error: Error): void {
    const { giveUpAfter, backoff, random, clock } = this.#settings;
    this.#deaths += 1;
    if (this.#deaths > giveUpAfter) {
      const message = `the daemon died ${this.#deaths} times in a row; at last: ${error.message}`;
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
    // What is waited for from now on, by who listens and starts it anew, is waited for in vain no more.
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

  /** A callback that fails must not end the reading of stderr. */
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
