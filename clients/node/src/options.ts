// Options of the daemon, and their defaults.

import type { Command } from './child';
import { checkLimit, DEFAULT_LIMIT } from './decoder';
import { DEFAULT_BACKOFF, SYSTEM_CLOCK, type Backoff, type Clock } from './time';
import type { Framing, Profile } from './types';

export interface DaemonOptions<P extends Profile = Profile> {
  /** The profile of the daemon. */
  readonly profile: P;
  /** The framing of messages. Default: the framing of the profile, and `length` for `agent`. */
  readonly framing?: Framing;
  /** The program to start. Default: `duet-rpc` on the path. */
  readonly program?: string;
  /** Additional arguments. */
  readonly args?: readonly string[];
  /** All arguments, for your own program. The program must use the framing and the rules of `profile` and `framing`. */
  readonly argv?: readonly string[];
  readonly cwd?: string | URL;
  readonly env?: NodeJS.ProcessEnv;
  /** Called with each line that the daemon writes to stderr. */
  readonly onLog?: (line: string) => void;
  /** Maximum size of a message to the daemon, in bytes. A longer message is not sent, and its call fails. */
  readonly maxMessageBytes?: number;
  /** Maximum size of a message from the daemon, in bytes, with the framing `length`. Default: 16,777,215. */
  readonly maxAnswerBytes?: number;
  /** Maximum time of a call, in milliseconds; 0 means no limit. Default: 30,000. */
  readonly timeout?: number;
  /** Maximum time from the start to the first answer, in milliseconds. Default: 10,000. */
  readonly startTimeout?: number;
  /** Maximum time of each step of stopping, in milliseconds: the answer to `shutdown`, the exit after stdin was closed,
   * the exit after SIGTERM. Default: 2,500. */
  readonly grace?: number;
  /** The delay before a restart. */
  readonly backoff?: Partial<Backoff>;
  /** Maximum number of restarts after crashes in a row; 0 means no restart. Default: 5. */
  readonly giveUpAfter?: number;
  /** Running time in milliseconds after which the count of crashes starts again. Default: 60,000. */
  readonly stableAfter?: number;
  /** Maximum number of calls that wait for the daemon to start. Default: 1,000. */
  readonly maxWaiting?: number;
  /** The clock, for tests. */
  readonly clock?: Clock;
  /** Returns a random number from 0 to below 1, for tests. */
  readonly random?: () => number;
}

/** Options with all defaults filled in. */
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
    throw new TypeError('give either args (additional arguments) or argv (all arguments), not both');
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

/** Checks that a value is a number and at least `least`. NaN fails. */
export function atLeast(least: number, name: string, value: number): number {
  const isNumber = typeof value === 'number' && value >= least;
  if (!isNumber) throw new RangeError(`${name} is ${least} at least, not ${value}`);
  return value;
}
