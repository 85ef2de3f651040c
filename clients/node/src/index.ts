// Starts a duet-rpc daemon, keeps it running, and calls it.

export { Daemon, type State, type StateChange } from './daemon';
export type { CallOptions } from './call';
export type { Exit } from './child';
export type { DaemonOptions } from './options';
export type { Backoff, Clock } from './time';
export type { NotificationHandler, RequestHandler } from './handlers';
export { DaemonError, FramingError, type DaemonErrorCode, type FaultKind } from './errors';
export { LengthPrefixedMessageReader, type LengthPrefixedOptions } from './reader';
export { LengthPrefixedMessageWriter } from './writer';
export type { AgentMethods, DesktopMethods, EditorMethods, NoParams } from './methods';
export type { DaemonEvent, EventData, Framing, LogRecord, Method, Profile, ProfileMethods, Stats, Topic } from './types';
export { CancellationTokenSource, ResponseError, type CancellationToken, type Disposable, type Event } from 'vscode-jsonrpc/node';
