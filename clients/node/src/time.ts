// The clock, and the delay before a restart. Tests replace the clock and the random numbers.

/** A clock with timers. */
export interface Clock {
  /** The time in milliseconds since an arbitrary start. */
  now(): number;
  /** Calls `call` once after this many milliseconds; the returned function cancels that. */
  after(milliseconds: number, call: () => void): () => void;
}

/** Maximum time of a timer in Node. A longer timer would fire immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(milliseconds, call) {
    const timer = setTimeout(call, Math.min(milliseconds, LONGEST_TIMER));
    return () => clearTimeout(timer);
  },
};

/** The delay before a restart. */
export interface Backoff {
  /** Delay after the first crash, in milliseconds. Default: 100. */
  readonly first: number;
  /** Factor by which the delay grows with each further crash in a row. Default: 2. */
  readonly factor: number;
  /** Maximum delay, in milliseconds. Default: 30,000. */
  readonly most: number;
  /** Random part of the delay, from 0 to 1, so that many programs do not restart at the same time. Default: 0.5. */
  readonly jitter: number;
}

export const DEFAULT_BACKOFF: Backoff = { first: 100, factor: 2, most: 30_000, jitter: 0.5 };

/** The delay after this many crashes in a row. The random number shortens it: 0 gives the whole delay. */
export function delayAfter(deaths: number, backoff: Backoff, random: number): number {
  const grown = Math.min(backoff.most, backoff.first * backoff.factor ** (deaths - 1));
  return grown * (1 - backoff.jitter * random);
}
