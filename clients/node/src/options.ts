// How a daemon is started and kept.

import type { Command } from './child';
import { checkLimit, DEFAULT_LIMIT } from './decoder';
import { DEFAULT_BACKOFF, SYSTEM_CLOCK, type Backoff, type Clock } from './time';
import type { Framing, Profile } from './types';

export interface DaemonOptions<P extends Profile = Profile> {
  /** What the daemon is started for. */
  readonly profile: P;
  /** How messages are framed: as the profile has it, and for an agent `length`. */
  readonly framing?: Framing;
  /** The program; `duet-rpc` on the path if nothing is said. */
  readonly program?: string;
  /** Further arguments. */
  readonly args?: readonly string[];
  /** All arguments, for a program that takes others than `duet-rpc`. It must speak as `profile` and `framing`
   * say. */
  readonly argv?: readonly string[];
  readonly cwd?: string | URL;
  readonly env?: NodeJS.ProcessEnv;
  /** Is called with each line that the daemon writes to stderr. */
  readonly onLog?: (line: string) => void;
  /** The longest message that the daemon accepts, in bytes. A longer one is not sent: its call fails. */
  readonly maxMessageBytes?: number;
  /** The longest message that is taken from the daemon, in bytes, with the framing `length`; 16,777,215 if nothing
   * is said. */
  readonly maxAnswerBytes?: number;
  /** How many milliseconds a call may take; 30,000 if nothing is said, 0 for ever. */
  readonly timeout?: number;
  /** How many milliseconds the daemon may take until it answers for the first time; 10,000 if nothing is
   * said. */
  readonly startTimeout?: number;
  /** How many milliseconds each step of ending it may take: the answer to `shutdown`, the end after stdin was
   * closed, the end after SIGTERM; 2,500 if nothing is said. */
  readonly grace?: number;
  /** How long to wait before it is started again. */
  readonly backoff?: Partial<Backoff>;
  /** How many deaths in a row are followed by a new start; 5 if nothing is said, 0 for none. */
  readonly giveUpAfter?: number;
  /** After a life of so many milliseconds, deaths are counted afresh; 60,000 if nothing is said. */
  readonly stableAfter?: number;
  /** How many calls may wait for a daemon that is being started; 1,000 if nothing is said. */
  readonly maxWaiting?: number;
  /** Time, for tests. */
  readonly clock?: Clock;
  /** A random number from 0 to below 1, for tests. */
  readonly random?: () => number;
}

/** Options with nothing left open. */
export interface Settings {
  readonly command: Command;
  readonly framing: Framing;
  readonly onLog: (line: string) => void;
  readonly maxMessageBytes: number;
  readonly maxAnswerBytes: number;
  readonly timeout: number;
  readonly startTimeout: number;
  readonly grace: number;
  readonly backoff: Backoff;
  readonly giveUpAfter: number;
  readonly stableAfter: number;
  readonly maxWaiting: number;
  readonly clock: Clock;
  readonly random: () => number;
}

const MIB = 1024 * 1024;
const FRAMINGS: Record<Profile, Framing> = { editor: 'lsp', desktop: 'length', agent: 'length' };
const MAX_MESSAGE_BYTES: Record<Profile, number> = { editor: 10 * MIB, desktop: MIB, agent: MIB };

export function settle(options: DaemonOptions): Settings {
  const { profile, program = 'duet-rpc', cwd, env } = options;
  if (!Object.hasOwn(FRAMINGS, profile)) throw new TypeError(`there is no profile ${String(profile)}`);
  const framing = options.framing ?? FRAMINGS[profile];
  if (framing !== 'lsp' && framing !== 'length') throw new TypeError(`there is no framing ${String(framing)}`);
  if (options.argv !== undefined && options.args !== undefined) {
    throw new TypeError('args are further ones, and argv are all: give one of them');
  }
  const limit = options.maxMessageBytes;
  const words = ['rpc', '--profile', profile, '--framing', framing];
  if (limit !== undefined) words.push('--max-message-bytes', String(limit));
  return {
    command: {
      program,
      args: options.argv ?? [...words, ...(options.args ?? [])],
      ...(cwd === undefined ? {} : { cwd }),
      ...(env === undefined ? {} : { env }),
    },
    framing,
    onLog: options.onLog ?? (() => undefined),
    maxMessageBytes: atLeast(1, 'maxMessageBytes', limit ?? MAX_MESSAGE_BYTES[profile]),
    maxAnswerBytes: checkLimit('maxAnswerBytes', options.maxAnswerBytes ?? DEFAULT_LIMIT),
    timeout: atLeast(0, 'timeout', options.timeout ?? 30_000),
    startTimeout: atLeast(0, 'startTimeout', options.startTimeout ?? 10_000),
    grace: atLeast(0, 'grace', options.grace ?? 2_500),
    backoff: backoffOf(options.backoff ?? {}),
    giveUpAfter: atLeast(0, 'giveUpAfter', options.giveUpAfter ?? 5),
    stableAfter: atLeast(0, 'stableAfter', options.stableAfter ?? 60_000),
    maxWaiting: atLeast(0, 'maxWaiting', options.maxWaiting ?? 1_000),
    clock: options.clock ?? SYSTEM_CLOCK,
    random: options.random ?? Math.random,
  };
}

function backoffOf(given: Partial<Backoff>): Backoff {
  const backoff = { ...DEFAULT_BACKOFF, ...given };
  atLeast(0, 'backoff.first', backoff.first);
  atLeast(1, 'backoff.factor', backoff.factor);
  atLeast(0, 'backoff.most', backoff.most);
  if (atLeast(0, 'backoff.jitter', backoff.jitter) > 1) throw new RangeError('backoff.jitter is 1 at most');
  return backoff;
}

/** A number that makes sense. NaN is none. */
export function atLeast(least: number, name: string, value: number): number {
  const isNumber = typeof value === 'number' && value >= least;
  if (!isNumber) throw new RangeError(`${name} is ${least} at least, not ${value}`);
  return value;
}
