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
export type { DaemonEvent, EventData, Framing, LogRecord, Profile, ProfileMethods, Stats, Topic } from './types';
// The parts of vscode-jsonrpc that this API uses.
export { CancellationTokenSource, ResponseError } from 'vscode-jsonrpc/node';
export type { CancellationToken, Disposable, Event } from 'vscode-jsonrpc/node';
