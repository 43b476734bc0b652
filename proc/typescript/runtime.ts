/** How new what a call reads must be; see docs/http.md of Skerry. */
export type ReadLevel = "linearizable" | "session" | "local";

/** What createClient takes. */
export interface ClientOptions {
  /** Where the server is, e.g. "http://127.0.0.1:7001". Without it: where the page came from. */
  baseUrl?: string | undefined;
  /** The password or an access token, sent as a bearer token; or a function that returns it for each call. */
  token?: string | (() => string | undefined | Promise<string | undefined>) | undefined;
  /** What to use in place of the global fetch. */
  fetch?: typeof globalThis.fetch | undefined;
  /** How long a call may take, 30,000 ms by default; 0: as long as it takes. */
  timeoutMs?: number | undefined;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call; it then rejects with the signal's reason. A call that writes may have been carried out. */
  signal?: AbortSignal | undefined;
  /** In place of the client's. */
  timeoutMs?: number | undefined;
}

/** What a call of a procedure that writes takes. */
export interface WriteOptions extends CallOptions {
  /**
   * 1 to 255 characters of ASCII, new for every call that is meant, e.g. crypto.randomUUID(). The server carries the call
   * out once, however often it is sent with this key, so that it can be repeated after an error.
   */
  idempotencyKey?: string | undefined;
}

/** What a call of a procedure that only reads takes. */
export interface ReadOptions extends CallOptions {
  /** "linearizable" by default. "session" is at least as new as all that this client has seen. */
  read?: ReadLevel | undefined;
  /** With "local": how old the answer may be. */
  maxStaleMs?: number | undefined;
}

/** One thing that is wrong with a call. */
export interface Fault {
  /** JSON pointer into the arguments, e.g. "/phone". */
  pointer?: string;
  parameter?: string;
  header?: string;
  code: string;
  detail: string;
}

/**
 * Why a call failed. `code` is what programs should look at: one of Skerry's docs/errors.md or of the procedure's own, or
 * one of this module: "timeout" and "network" (there was no answer: a call that writes may have been carried out),
 * "http" (the answer was not Skerry's) and "unsafe_integer" (it was carried out, but its result has an integer beyond
 * 2^53 - 1, which a number would not hold exactly).
 */
export class CallError extends Error {
  readonly procedure: string;
  readonly code: string;
  /** Of the HTTP answer; 0 if there was none. */
  readonly status: number;
  /** Nothing was written, and the same call may succeed later. */
  readonly retryable: boolean;
  readonly errors: readonly Fault[];
  /** Finds the call in the server's log. */
  readonly requestId: string;

  constructor(procedure: string, code: string, message: string, more: Partial<Problem> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "CallError";
    this.procedure = procedure;
    this.code = code;
    this.status = more.status ?? 0;
    this.retryable = more.retryable ?? false;
    this.errors = more.errors ?? [];
    this.requestId = more.request_id ?? "";
  }
}

interface Problem {
  status: number;
  code: string;
  detail: string;
  retryable: boolean;
  request_id: string;
  errors: Fault[];
}

/**
 * What has to be done to a value that was JSON: i is an integer of 64 bits, b bytes, v nothing at all; a list, a map and
 * an object hold others. What is null in Go for want of elements is empty here.
 */
type Shape = "i" | "b" | "v" | readonly ["list" | "map", Shape | null] | readonly ["object", readonly (readonly [string, Shape])[]] | readonly ["null", Shape];

interface Procedure {
  readonly name: string;
  readonly path: string;
  readonly shape: Shape | null;
}

type Call = <T>(p: Procedure, args: object | undefined, options: (WriteOptions & ReadOptions) | undefined) => Promise<T>;

function caller(o: ClientOptions): Call {
  const base = (o.baseUrl ?? "").replace(/\/+$/, "");
  let seen = ""; // the greatest position of all answers

  return async <T>(p: Procedure, args: object | undefined, options: (WriteOptions & ReadOptions) = {}): Promise<T> => {
    const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json" };
    const token = await tokenOf(o);
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    if (options.idempotencyKey !== undefined) headers["Idempotency-Key"] = quoted(options.idempotencyKey);
    if (options.read === "session" && seen !== "") headers["X-Skerry-Position"] = seen;
    const query = new URLSearchParams();
    if (options.read !== undefined) query.set("read", options.read);
    if (options.maxStaleMs !== undefined) query.set("max_stale", `${options.maxStaleMs}ms`);
    const url = base + p.path + (`${query}` === "" ? "" : `?${query}`);
    const body = encode(args ?? {});

    const { status, text, position } = await exchange(p, o, options, url, { method: "POST", headers, body });
    if (position.length > seen.length || (position.length === seen.length && position > seen)) seen = position;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new CallError(p.name, "http", `${p.name}: the server answered ${status} with what is not JSON`, { status }, cause);
    }
    if (status !== 200) throw failure(p, status, value);
    return shaped(p, value, p.shape) as T;
  };
}

async function tokenOf(o: ClientOptions): Promise<string | undefined> {
  return typeof o.token === "function" ? o.token() : o.token;
}

async function exchange(p: Procedure, o: ClientOptions, options: CallOptions, url: string, init: RequestInit) {
  const timeoutMs = options.timeoutMs ?? o.timeoutMs ?? 30_000;
  const signal = options.signal;
  signal?.throwIfAborted();
  const end = new AbortController();
  const forward = () => end.abort(signal?.reason);
  signal?.addEventListener("abort", forward);
  let late = false;
  const timer = timeoutMs <= 0 ? undefined : setTimeout(() => {
    late = true;
    end.abort();
  }, timeoutMs);
  try {
    const send = o.fetch ?? globalThis.fetch;
    const answer = await send(url, { ...init, signal: end.signal });
    return { status: answer.status, text: await answer.text(), position: answer.headers.get("X-Skerry-Position") ?? "" };
  } catch (cause) {
    if (late) throw new CallError(p.name, "timeout", `${p.name}: no answer within ${timeoutMs} ms`, {}, cause);
    if (signal?.aborted) throw signal.reason;
    throw new CallError(p.name, "network", `${p.name}: ${cause instanceof Error ? cause.message : String(cause)}`, {}, cause);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", forward);
  }
}

function failure(p: Procedure, status: number, value: unknown): CallError {
  const problem: Partial<Problem> = typeof value === "object" && value !== null ? value : {};
  if (typeof problem.code !== "string") return new CallError(p.name, "http", `${p.name}: the server answered ${status}`, { status });
  return new CallError(p.name, problem.code, `${p.name}: ${problem.detail ?? problem.code}`, { ...problem, status });
}

function quoted(key: string): string {
  if (!/^[\x20-\x7e]{1,255}$/.test(key)) throw new TypeError("idempotencyKey must be 1 to 255 characters of ASCII");
  return `"${key.replace(/["\\]/g, "\\$&")}"`;
}

/** JSON.stringify, but for bigint, which becomes a number of all its digits. */
function encode(v: unknown): string {
  if (typeof v === "bigint") return v.toString();
  if (Array.isArray(v)) return `[${v.map(encode).join(",")}]`;
  if (typeof v !== "object" || v === null || "toJSON" in v) return JSON.stringify(v) ?? "null";
  return `{${Object.entries(v).filter(([, e]) => e !== undefined).map(([name, e]) => `${JSON.stringify(name)}:${encode(e)}`).join(",")}}`;
}

function shaped(p: Procedure, v: unknown, shape: Shape | null): unknown {
  if (shape === null || v === undefined) return v;
  if (shape === "v") return undefined;
  if (shape === "b") return v ?? "";
  if (shape === "i") {
    if (Number.isSafeInteger(v)) return v;
    throw new CallError(p.name, "unsafe_integer", `${p.name}: the result has the integer ${v}, which a number does not hold exactly`, { status: 200 });
  }
  switch (shape[0]) {
    case "null":
      return v === null ? null : shaped(p, v, shape[1]);
    case "list":
      return Array.isArray(v) ? v.map((e) => shaped(p, e, shape[1])) : [];
    case "map":
      return Object.fromEntries(Object.entries(v ?? {}).map(([name, e]) => [name, shaped(p, e, shape[1])]));
  }
  const all = v as Record<string, unknown>;
  for (const [name, inner] of shape[1]) {
    if (Object.hasOwn(all, name)) all[name] = shaped(p, all[name], inner);
  }
  return all;
}
