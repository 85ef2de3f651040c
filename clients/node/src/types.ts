// Types of methods, params, results and events.

import type { AgentMethods, DesktopMethods, EditorMethods } from './methods';

/** The kind of client that the daemon serves. */
export type Profile = 'editor' | 'desktop' | 'agent';

/** The framing of messages: `Content-Length` headers, or 4 bytes of length. */
export type Framing = 'lsp' | 'length';

/** The methods of each profile. */
export interface ProfileMethods {
  readonly editor: EditorMethods;
  readonly desktop: DesktopMethods;
  readonly agent: AgentMethods;
}

/** The names of methods, without `shutdown`: only `stop` sends it, because the daemon would be restarted otherwise. */
export type MethodName<M> = Exclude<keyof M & string, 'shutdown'>;

export type Params<M, K extends keyof M> = M[K] extends { readonly params: infer P } ? P : never;
export type Result<M, K extends keyof M> = M[K] extends { readonly result: infer R } ? R : never;

/** The arguments after the name of a method. Params can be omitted if the method does not require them. */
export type Rest<P, Options extends unknown[]> = undefined extends P
  ? [params?: P, ...Options]
  : [params: P, ...Options];

/** A record of the daemon's log. */
export interface LogRecord {
  readonly timestamp: string;
  readonly severity: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  /** The method of the message that the record is about. */
  readonly method?: string;
  /** The id of the request that the record is about. */
  readonly id?: string | number | null;
  /** Further values that belong to the message. */
  readonly [name: string]: unknown;
}

/** Counters of the connection since its start. */
export interface Stats {
  readonly messages: number;
  readonly faults: number;
  readonly inFlight: number;
  readonly bytesReceived: number;
  readonly bytesSent: number;
}

/** The type of an event's `data`, by topic. */
export interface EventData {
  readonly log: LogRecord;
  readonly stats: Stats;
}

export type Topic = keyof EventData;

/** An event. The daemon sends events after `events.subscribe`. */
export interface DaemonEvent<T extends Topic = Topic> {
  readonly topic: T;
  /** Counts the events of a topic, from 1. */
  readonly sequence: number;
  readonly data: EventData[T];
  /** Number of events directly before this one that were dropped, because they were not read fast enough. */
  readonly dropped?: number;
}
