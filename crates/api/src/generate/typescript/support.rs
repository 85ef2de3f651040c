//! Functions that generated files contain if they use them.

pub(super) const CALL_OPTIONS: &str = "/** Options of one call. */
export interface CallOptions {
  /** Ends the call with the reason of the signal, and cancels the request. `AbortSignal.timeout(1_000)` is a timeout. */
  readonly signal?: AbortSignal;
}

";

pub(super) const SEND: &str = "
/** Sends params by name or by position, or none. */
function send<T>(
  params: unknown,
  none: () => T,
  some: (structure: ParameterStructures, ...params: unknown[]) => T,
): T {
  if (params === undefined || params === null) return none();
  if (!Array.isArray(params)) return some(ParameterStructures.byName, params);
  let length = params.length;
  while (length > 0 && params[length - 1] === undefined) length -= 1;
  return some(ParameterStructures.byPosition, ...(params as unknown[]).slice(0, length));
}
";

pub(super) const CALL: &str = "
interface ErrorClass {
  readonly code: number;
  new (message: string, data?: never): Error;
}

async function call<T>(
  connection: MessageConnection,
  method: string,
  params: unknown,
  { signal }: CallOptions,
  errors: readonly ErrorClass[],
): Promise<T> {
  signal?.throwIfAborted();
  const source = new CancellationTokenSource();
  let abort = (): void => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = () => {
      source.cancel();
      reject(signal?.reason as Error);
    };
  });
  signal?.addEventListener('abort', abort);
  try {
    const answer = send<Promise<T>>(
      params,
      () => connection.sendRequest<T>(method, source.token),
      (structure, ...some) => connection.sendRequest<T>(method, structure, ...some, source.token),
    );
    return await Promise.race([answer, aborted]);
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const Class = errors.find(({ code }) => code === error.code);
    throw Class === undefined ? error : new Class(error.message, error.data as never);
  } finally {
    signal?.removeEventListener('abort', abort);
    source.dispose();
  }
}
";

pub(super) const NOTIFY: &str = "
function notify(connection: MessageConnection, method: string, params: unknown): Promise<void> {
  return send(
    params,
    () => connection.sendNotification(method),
    (structure, ...some) => connection.sendNotification(method, structure, ...some),
  );
}
";

pub(super) const RECEIVED: &str = "
/** Params of the server as one object. vscode-jsonrpc spreads params by position, and adds a token to those of requests. */
function received<T>(given: readonly unknown[], names: readonly string[] | null): T {
  const isToken = (it: unknown): boolean => typeof it === 'object' && it !== null && 'onCancellationRequested' in it;
  const params = given.length > 0 && isToken(given[given.length - 1]) ? given.slice(0, -1) : given;
  const [first] = params;
  const isNamed = params.length === 1 && typeof first === 'object' && first !== null && !Array.isArray(first);
  if (names === null) return (params.length === 1 && isNamed ? first : params.length === 0 ? undefined : params) as T;
  if (isNamed) return first as T;
  return Object.fromEntries(names.map((name, at) => [name, params[at]])) as T;
}
";

pub(super) const TOKEN: &str = "
function token(given: readonly unknown[]): CancellationToken {
  return given[given.length - 1] as CancellationToken;
}
";
