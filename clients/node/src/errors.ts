// Errors of the framing and of the daemon. An error that the daemon returns is a `ResponseError`.

/** The reason why bytes are not a frame. */
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
  'no-newline': 'there is no newline after a message',
  'not-json': 'a message is not JSON in UTF-8',
  'cut-short': 'the stream ends inside a message',
};

/** Bytes that are not a frame. They are skipped, and the next frame is read. */
export class FramingError extends Error {
  override readonly name = 'FramingError';

  constructor(readonly kind: FaultKind) {
    super(FAULTS[kind]);
  }
}

/** The kind of a failure of the daemon, or of a call to it. */
export type DaemonErrorCode =
  /** The program could not be started. */
  | 'not-started'
  /** The daemon exited or was killed while a call was pending, or it is not running. */
  | 'died'
  /** The daemon has crashed too often, and is not started again. */
  | 'gave-up'
  /** The daemon was stopped, or was never started. */
  | 'stopped'
  /** No answer came in time. */
  | 'timeout'
  /** Too many calls wait for the daemon to start. */
  | 'overloaded';

/** A failure of the daemon, or of a call to it. */
export class DaemonError extends Error {
  override readonly name = 'DaemonError';

  constructor(
    readonly code: DaemonErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** True if the same call may succeed later. The daemon may already have carried out the call, so decide whether it
   * may be repeated. */
  get isRecoverable(): boolean {
    return this.code === 'died' || this.code === 'timeout' || this.code === 'overloaded';
  }
}
