// Time and chance, so that a test can say what they are.

/** A clock with timers. */
export interface Clock {
  /** In milliseconds, from any beginning. */
  now(): number;
  /** Calls once after so many milliseconds; what is returned takes that back. */
  after(milliseconds: number, call: () => void): () => void;
}

/** The longest time that a timer of Node takes; a longer one would fire at once. */
const LONGEST_TIMER = 2 ** 31 - 1;

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after(milliseconds, call) {
    const timer = setTimeout(call, Math.min(milliseconds, LONGEST_TIMER));
    return () => clearTimeout(timer);
  },
};

/** How long to wait before the daemon is started again. */
export interface Backoff {
  /** The time after the first death, in milliseconds; 100 if nothing is said. */
  readonly first: number;
  /** By how much it grows with each further one in a row; 2 if nothing is said. */
  readonly factor: number;
  /** The most that it grows to, in milliseconds; 30,000 if nothing is said. */
  readonly most: number;
  /** Which part of the time is random, from 0 to 1; 0.5 if nothing is said, so that many programs do not
   * come back all at once. */
  readonly jitter: number;
}

export const DEFAULT_BACKOFF: Backoff = { first: 100, factor: 2, most: 30_000, jitter: 0.5 };

/** The time to wait after so many deaths in a row. A random number of 0 gives all of it, larger ones below
 * 1 less. */
export function delayAfter(deaths: number, backoff: Backoff, random: number): number {
  const grown = Math.min(backoff.most, backoff.first * backoff.factor ** (deaths - 1));
  return grown * (1 - backoff.jitter * random);
}
