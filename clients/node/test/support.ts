// What the tests have in common.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Daemon, type Clock, type DaemonOptions, type Profile, type State, type StateChange } from '../src/index';

/** The methods that the test bed serves besides those of its profile. */
export interface TestMethods {
  readonly 'test.sleep': { readonly params: { readonly ms: number }; readonly result: number };
  readonly 'test.fail': {
    readonly params: { readonly code: number; readonly message: string; readonly data?: unknown };
    readonly result: never;
  };
  readonly 'test.big': { readonly params: { readonly bytes: number }; readonly result: string };
  readonly 'test.emit': { readonly params: { readonly count: number }; readonly result: number };
}

/** A program that the environment names. */
export function program(name: 'DUET_RPC' | 'TESTBED'): string {
  const path = process.env[name];
  assert.ok(path, `the environment variable ${name} must say where the program is`);
  return path;
}

/** How many seconds a test may take. Who sets it wants to hear of the first failure, and of no other. */
const patience = process.env.PATIENCE;

/** A test that fails if it hangs. */
export function check(name: string, body: () => void | Promise<void>): void {
  void test(name, { timeout: 60_000 }, patience === undefined ? body : () => atMost(Number(patience), name, body));
}

async function atMost(seconds: number, name: string, body: () => void | Promise<void>): Promise<void> {
  const fail = (error: unknown): never => {
    console.error(name, error);
    process.exit(1);
  };
  const timer = setTimeout(() => fail(`it takes longer than ${seconds} s`), seconds * 1000).unref();
  try {
    await body();
  } catch (error) {
    fail(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Does something with a daemon, which is stopped whatever comes of it. */
export async function withDaemon<P extends Profile>(
  options: DaemonOptions<P>,
  act: (daemon: Daemon<P>) => Promise<void>,
): Promise<void> {
  const daemon = new Daemon({ program: program('DUET_RPC'), ...options });
  try {
    await daemon.start();
    await act(daemon);
  } finally {
    await daemon.stop();
  }
}

/** The options of a test bed. */
export function testbed<P extends Profile>(profile: P, framing: 'lsp' | 'length', ...more: string[]): DaemonOptions<P> {
  const argv = ['--profile', profile, '--framing', framing, ...more];
  return { profile, framing, program: program('TESTBED'), argv };
}

/** The same with a test bed. */
export async function withTestbed<P extends Profile>(
  options: DaemonOptions<P>,
  act: (daemon: Daemon<P, TestMethods>) => Promise<void>,
): Promise<void> {
  const daemon = new Daemon<P, TestMethods>(options);
  try {
    await daemon.start();
    await act(daemon);
  } finally {
    await daemon.stop();
  }
}

/** The next change to a state. */
export function next(daemon: Pick<Daemon, 'onState'>, state: State): Promise<StateChange> {
  return new Promise((resolve) => {
    const listener = daemon.onState((change) => {
      if (change.state !== state) return;
      listener.dispose();
      resolve(change);
    });
  });
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A clock that goes on when it is told to. */
export class ManualClock implements Clock {
  #time = 0;
  readonly #timers = new Set<{ at: number; call: () => void }>();

  now(): number {
    return this.#time;
  }

  after(milliseconds: number, call: () => void): () => void {
    const timer = { at: this.#time + milliseconds, call };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  advance(milliseconds: number): void {
    this.#time += milliseconds;
    for (const timer of [...this.#timers].sort((one, other) => one.at - other.at)) {
      if (timer.at <= this.#time && this.#timers.delete(timer)) timer.call();
    }
  }

  /** How many timers run. */
  get timers(): number {
    return this.#timers.size;
  }
}
