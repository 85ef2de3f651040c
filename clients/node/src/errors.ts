// What can go wrong, apart from the errors that the daemon answers with: those are `ResponseError`s.

/** Why bytes are no frame. */
export type FaultKind =
  | 'no-prefix'
  | 'zero-length'
  | 'oversize'
  | 'zero-byte'
  | 'no-newline'
  | 'not-json'
  | 'cut-short';

const FAULTS: Record<FaultKind, string> = {
  'no-prefix': 'there are bytes between frames',
  'zero-length': 'a length is 0',
  oversize: 'a message is longer than the limit',
  'zero-byte': 'there is a zero byte inside a message',
  'no-newline': 'there is no newline behind a message',
  'not-json': 'a message is not JSON in UTF-8',
  'cut-short': 'the stream ends inside a message',
};

/** Bytes that are no frame. They are skipped, and the next frame is read. */
export class FramingError extends Error {
  override readonly name = 'FramingError';

  constructor(readonly kind: FaultKind) {
    super(FAULTS[kind]);
  }
}

/** What is wrong with the daemon, or with a call to it. */
export type DaemonErrorCode =
  /** The program could not be started. */
  | 'not-started'
  /** It ended, or was ended, and a call was under way. */
  | 'died'
  /** It has died so often that it is not started again. */
  | 'gave-up'
  /** It was stopped, or was never started. */
  | 'stopped'
  /** No answer came in time. */
  | 'timeout'
  /** Too many calls wait for the daemon to be back. */
  | 'overloaded';

/** A daemon that does not work, or a call that it cannot answer. */
export class DaemonError extends Error {
  override readonly name = 'DaemonError';

  constructor(
    readonly code: DaemonErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the same call may work later. It may have been carried out: think of that before it is made
   * again. */
  get isRecoverable(): boolean {
    return this.code === 'died' || this.code === 'timeout' || this.code === 'overloaded';
  }
}
