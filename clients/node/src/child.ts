// The daemon's process: its streams, its stderr, its exit, and the steps to stop it.

import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { once } from 'node:events';
import { StringDecoder } from 'node:string_decoder';
import { DaemonError } from './errors';
import type { Clock } from './time';

/** Number of last stderr lines that are kept for error messages. */
const KEPT_LINES = 10;
/** Maximum length of a line. The rest of a longer line counts as the next line. */
const LONGEST_LINE = 16_384;
/** Maximum time in milliseconds from the exit of a process until its pipes close. A process that it started may hold
 * them open. */
const PIPES_TIMEOUT = 500;

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd?: string | URL;
  readonly env?: NodeJS.ProcessEnv;
}

/** The exit of a process: exactly one of the two is not null, unless the process never started. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process that was started. */
export class Child {
  /** Resolves when the process has exited and all its output was read. */
  readonly ended: Promise<Exit>;
  readonly #process: ChildProcessWithoutNullStreams;
  readonly #clock: Clock;
  readonly #lastLines: string[] = [];
  #exit: Exit | undefined;

  private constructor(process: ChildProcessWithoutNullStreams, clock: Clock, onLine: (line: string) => void) {
    this.#process = process;
    this.#clock = clock;
    // The pipes of a process break when it exits. `ended` reports the exit, so errors of the streams are ignored.
    for (const stream of [process.stdin, process.stdout, process.stderr]) stream.on('error', () => undefined);
    this.#readLines(onLine);
    this.ended = new Promise((resolve) => {
      let stopWaiting = (): void => undefined;
      process.once('exit', (code, signal) => {
        this.#exit = { code, signal };
        stopWaiting = clock.after(PIPES_TIMEOUT, () => {
          for (const stream of [process.stdin, process.stdout, process.stderr]) stream.destroy();
        });
      });
      process.once('close', (code, signal) => {
        stopWaiting();
        resolve({ code, signal });
      });
    });
  }

  /** Starts a program. */
  static async start(command: Command, clock: Clock, onLine: (line: string) => void): Promise<Child> {
    try {
      const process = spawn(command.program, command.args, {
        stdio: ['pipe', 'pipe', 'pipe'],
        windowsHide: true,
        ...(command.cwd === undefined ? {} : { cwd: command.cwd }),
        ...(command.env === undefined ? {} : { env: command.env }),
      });
      // After the start, an error means only that a signal could not be sent.
      process.on('error', () => undefined);
      await once(process, 'spawn');
      return new Child(process, clock, onLine);
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      // The system reports a missing working directory like a missing program, so name both.
      const where = command.cwd === undefined ? '' : ` in ${command.cwd}`;
      throw new DaemonError('not-started', `${command.program} cannot be started${where}: ${why}`, { cause });
    }
  }

  get pid(): number {
    return this.#process.pid ?? -1;
  }

  get stdin(): ChildProcessWithoutNullStreams['stdin'] {
    return this.#process.stdin;
  }

  get stdout(): ChildProcessWithoutNullStreams['stdout'] {
    return this.#process.stdout;
  }

  /** Describes the exit, with the last lines of stderr. */
  describe(exit: Exit): string {
    const how = exit.signal === null ? `with status ${exit.code}` : `by ${exit.signal}`;
    const words = this.#lastLines.length === 0 ? '' : `; last lines of stderr:\n${this.#lastLines.join('\n')}`;
    return `the daemon ended ${how}${words}`;
  }

  /** Stops the process: closes stdin, then sends SIGTERM, then SIGKILL, each after `grace` milliseconds. */
  async end(grace: number): Promise<Exit> {
    this.#process.stdin.end();
    // Without a reader of stdout, `close` would never fire.
    this.#process.stdout.resume();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      if (await this.#endsWithin(grace)) return this.ended;
      this.#process.kill(signal);
    }
    return this.ended;
  }

  async #endsWithin(time: number): Promise<boolean> {
    let stopWaiting = (): void => undefined;
    const isLate = new Promise<boolean>((resolve) => {
      stopWaiting = this.#clock.after(time, () => resolve(this.#exit !== undefined));
    });
    const inTime = await Promise.race([this.ended.then(() => true), isLate]);
    stopWaiting();
    return inTime;
  }

  /** Reads stderr to its end, because a full pipe would block the process. */
  #readLines(onLine: (line: string) => void): void {
    const decoder = new StringDecoder('utf8');
    let rest = '';
    const tell = (line: string): void => {
      this.#lastLines.push(line);
      if (this.#lastLines.length > KEPT_LINES) this.#lastLines.shift();
      onLine(line);
    };
    const take = (text: string): void => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) tell(line.endsWith('\r') ? line.slice(0, -1) : line);
      for (; rest.length > LONGEST_LINE; rest = rest.slice(LONGEST_LINE)) tell(rest.slice(0, LONGEST_LINE));
    };
    this.#process.stderr.on('data', (piece: Buffer) => take(decoder.write(piece)));
    this.#process.stderr.once('end', () => {
      take(decoder.end());
      if (rest !== '') tell(rest);
      rest = '';
    });
  }
}
