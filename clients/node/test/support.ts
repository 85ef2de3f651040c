// Helpers for all tests.

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
  assert.ok(path, `set the environment variable ${name} to the path of the program`);
  return path;
}

/** Maximum time of a test in seconds. If the environment sets it, the run stops at the first failure. */
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

/** Runs a function with a daemon, and stops the daemon even if the function fails. */
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

/** Like `withDaemon`, with a test bed. */
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

/** Returns true if the process exists. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** A clock that the test advances. */
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

  /** Number of running timers. */
  get timers(): number {
    return this.#timers.size;
  }
}
