// The server's interface: GET and JSON.

// What went wrong, with the code, the message and the hint of the server. `reached` is false when nobody answered.
export class Failure extends Error {
  constructor(code, message, hint = '', reached = true) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.reached = reached;
  }
}

// A path with those parameters that are not empty.
export function address(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters ?? {}).filter(([, value]) => value)).toString();
  return query ? `${path}?${query}` : path;
}

const longestWait = 15000;

// get('/messages', {topic: 'orders'}, signal). Rejects with a Failure, or with an
// AbortError when `signal` said so.
export async function get(path, parameters, signal) {
  const limit = new AbortController();
  const stop = () => limit.abort();
  const timer = setTimeout(stop, longestWait);
  signal?.addEventListener('abort', stop);
  try {
    const response = await fetch(address(`/api/v1${path}`, parameters), { signal: limit.signal, headers: { Accept: 'application/json' } });
    const body = await response.json().catch(() => null);
    if (response.ok && body) return body;
    const error = body?.error;
    throw new Failure(error?.code ?? `http_${response.status}`, error?.message ?? `the server answered ${response.status}`, error?.hint);
  } catch (error) {
    if (signal?.aborted) throw new DOMException('left', 'AbortError');
    if (error instanceof Failure) throw error;
    throw new Failure('server_unreachable', 'The dashboard server does not answer.', 'Is sealane dashboard still running?', false);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', stop);
  }
}
