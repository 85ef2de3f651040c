// The types of what is called, and of what comes by itself.

import type { AgentMethods, DesktopMethods, EditorMethods } from './methods';

/** What the daemon is started for. */
export type Profile = 'editor' | 'desktop' | 'agent';

/** How messages are cut out of the stream: `Content-Length` headers, or 4 bytes of length. */
export type Framing = 'lsp' | 'length';

/** The methods of each profile. */
export interface ProfileMethods {
  readonly editor: EditorMethods;
  readonly desktop: DesktopMethods;
  readonly agent: AgentMethods;
}

/** The names of methods. `shutdown` is left to `stop`, or the daemon would be started again. */
export type MethodName<M> = Exclude<keyof M & string, 'shutdown'>;

export type Params<M, K extends keyof M> = M[K] extends { readonly params: infer P } ? P : never;
export type Result<M, K extends keyof M> = M[K] extends { readonly result: infer R } ? R : never;

/** The arguments behind the name of a method: params can be left out if the method can do without. */
export type Rest<P, Options extends unknown[]> = undefined extends P
  ? [params?: P, ...Options]
  : [params: P, ...Options];

/** A record of the daemon's log. */
export interface LogRecord {
  readonly timestamp: string;
  readonly severity: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  /** The method that it is about. */
  readonly method?: string;
  /** The id of the request that it is about. */
  readonly id?: string | number | null;
  /** Further values that belong to the message. */
  readonly [name: string]: unknown;
}

/** Figures of the connection since it began. */
export interface Stats {
  readonly messages: number;
  readonly faults: number;
  readonly inFlight: number;
  readonly bytesReceived: number;
  readonly bytesSent: number;
}

/** What the data of an event is, by its topic. */
export interface EventData {
  readonly log: LogRecord;
  readonly stats: Stats;
}

export type Topic = keyof EventData;

/** An event, as it comes after `events.subscribe`. */
export interface DaemonEvent<T extends Topic = Topic> {
  readonly topic: T;
  /** Counts the events of a topic, from 1. */
  readonly sequence: number;
  readonly data: EventData[T];
  /** How many events right before this one were dropped because they came faster than they were read. */
  readonly dropped?: number;
}
