/** An exact decimal number, e.g. "12.50". */
export type Decimal = string;

/** What createRecords takes. */
export interface RecordsOptions extends ClientOptions {
  /** The path above the collections; "/api" by default. */
  prefix?: string | undefined;
}

/** A record: what every record has, and its data. */
export interface Stored<Data> {
  id: string;
  /** Grows with every change of the record. */
  rev: number;
  created: Timestamp;
  created_by?: string;
  updated?: Timestamp;
  updated_by?: string;
  is_deleted: boolean;
  deleted?: Timestamp;
  deleted_by?: string;
  restored?: Timestamp;
  restored_by?: string;
  data: Data;
  /** The records that the query has asked for with expand, by the names there. */
  expand?: Record<string, unknown>;
}

/** Which records a listing has; see docs/records.md of Skerry. */
export interface Query {
  /** A condition, e.g. 'status = "open" && total > 100'. Put values into it with literal(). */
  filter?: string | undefined;
  /** E.g. "-created,title". */
  sort?: string | readonly string[] | undefined;
  /** The names to return, all by default. The others are missing then, whatever their types say. */
  fields?: string | readonly string[] | undefined;
  /** E.g. "owner,comments(post)". */
  expand?: string | readonly string[] | undefined;
  limit?: number | undefined;
  offset?: number | undefined;
  /** The `next` of the page before. */
  after?: string | undefined;
  /** Whether the page has the `total` of all pages. */
  count?: boolean | undefined;
  deleted?: "live" | "trash" | "all" | undefined;
  /** A time, or the number of a change: the records as they were then. */
  asof?: string | number | undefined;
}

/** One page of a listing. */
export interface Page<Data> {
  items: Stored<Data>[];
  /** For `after`; missing on the last page. */
  next?: string;
  total?: number;
}

/** What a change takes. */
export interface ChangeOptions extends WriteOptions {
  /** The change is made only if the record still has this `rev`; otherwise it fails with "precondition_failed". */
  rev?: number | undefined;
}

/** What the creation of a record takes. */
export interface CreateOptions extends WriteOptions {
  /** Of the new record; the server makes one by default. */
  id?: string | undefined;
}

/** What reading one record takes. */
export interface GetOptions extends CallOptions {
  /** The record as it was after this change of it. */
  rev?: number | undefined;
  /** The record as it was at a time, or after a change of the collection. */
  asof?: Timestamp | number | undefined;
}

/** One change of a record. */
export interface Change {
  collection: string;
  id: string;
  /** Of the record after the change. */
  rev: number;
  /** Of the change in the collection. */
  seq: number;
  op: "create" | "update" | "delete" | "restore" | "purge";
  at: Timestamp;
  /** The id of the user; missing if it was the program. */
  by?: string;
  request?: string;
  /** What was changed in the data (RFC 6902), with the values before; missing if it was redacted. */
  patch?: { op: string; path: string; value?: unknown; old?: unknown }[] | null;
  redacted?: Timestamp;
  redacted_by?: string;
}

/** One page of a history, the newest change first. */
export interface History {
  items: Change[];
  /** For `before`; missing on the last page. */
  next?: number;
}

/** Which changes a page of a history has. */
export interface HistoryOptions extends CallOptions {
  before?: number | undefined;
  limit?: number | undefined;
}

/** Which records a stream of events is about; all of the collection by default. */
export interface Subscription {
  /** Of one record. */
  id?: string | undefined;
  filter?: string | undefined;
  sort?: string | undefined;
  limit?: number | undefined;
}

/** A message of a stream: all records that the client sees at one position, or a change after that. */
export type RecordEvent<Data> =
  | { kind: "state"; position: number; records: Stored<Data>[]; /** There are more records than the limit. */ more: boolean }
  | { kind: "change"; position: number; op: string; id: string; record?: Stored<Data>; /** The record is too long for an event. */ large?: true };

/** The functions of one collection. They fail with a CallError, whose `procedure` is e.g. "posts.create". */
export interface Collection<Data, Create, Patch> {
  list: (query?: Query, options?: CallOptions) => Promise<Page<Data>>;
  /** All records of all pages. */
  all: (query?: Query, options?: CallOptions) => AsyncGenerator<Stored<Data>, void, undefined>;
  get: (id: string, options?: GetOptions) => Promise<Stored<Data>>;
  create: (data: Create, options?: CreateOptions) => Promise<Stored<Data>>;
  update: (id: string, patch: Patch, options?: ChangeOptions) => Promise<Stored<Data>>;
  /** Moves a record into the trash. */
  delete: (id: string, options?: ChangeOptions) => Promise<void>;
  /** Takes a record out of the trash. */
  restore: (id: string, options?: ChangeOptions) => Promise<Stored<Data>>;
  /** Removes a record in the trash for good. */
  purge: (id: string, options?: ChangeOptions) => Promise<void>;
  /** Gives a record the data that it had after another revision. */
  revert: (id: string, to: number, options?: ChangeOptions) => Promise<Stored<Data>>;
  history: (id: string, options?: HistoryOptions) => Promise<History>;
  /**
   * The state, then every change, until the loop ends or the signal aborts. After a lost connection it goes on where it was,
   * or with the state again.
   */
  events: (subscription?: Subscription, options?: { signal?: AbortSignal | undefined }) => AsyncGenerator<RecordEvent<Data>, void, undefined>;
}

/** A text, number, boolean or time as a literal of a filter: `title = ${literal(title)}` cannot be changed by what the title is. */
export function literal(value: string | number | bigint | boolean | null | Date): string {
  if (value instanceof Date) return JSON.stringify(value.toISOString());
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} has no literal`);
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

function collection<Data, Create, Patch>(o: RecordsOptions, name: string, data: Shape | null): Collection<Data, Create, Patch> {
  const root = (o.baseUrl ?? "").replace(/\/+$/, "") + (o.prefix ?? "/api").replace(/\/+$/, "");
  const base = `${root}/${name}`;
  const one: Shape = ["object", data === null ? [["rev", "i"]] : [["rev", "i"], ["data", data]]];
  const page: Shape = ["object", [["items", ["list", one]]]];

  async function ask<T>(what: string, shape: Shape | null, method: string, path: string, options: ChangeOptions = {}, content?: object): Promise<T> {
    const p: Procedure = { name: `${name}.${what}`, path, shape };
    const headers: Record<string, string> = { Accept: "application/json" };
    const token = await tokenOf(o);
    if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
    if (options.idempotencyKey !== undefined) headers["Idempotency-Key"] = quoted(options.idempotencyKey);
    if (options.rev !== undefined) headers["If-Match"] = `"${options.rev}"`;
    const init: RequestInit = { method, headers };
    if (content !== undefined) {
      headers["Content-Type"] = "application/json";
      init.body = encode(content);
    }
    const { status, text } = await exchange(p, o, options, base + path, init);
    if (status === 204) return undefined as T;
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch (cause) {
      throw new CallError(p.name, "http", `${p.name}: the server answered ${status} with what is not JSON`, { status }, cause);
    }
    if (status < 200 || status > 299) throw failure(p, status, value);
    return shaped(p, value, shape) as T;
  }

  const at = (id: string) => {
    if (id === "" || id === "." || id === "..") throw new TypeError(`${JSON.stringify(id)} is not an id`);
    return `/${encodeURIComponent(id)}`;
  };
  const search = (parameters: object) => {
    const params = new URLSearchParams();
    for (const [key, value] of Object.entries(parameters)) {
      if (value !== undefined) params.set(key, String(value)); // a list becomes a,b
    }
    return `${params}` === "" ? "" : `?${params}`;
  };
  const list = (query: Query = {}, options?: CallOptions): Promise<Page<Data>> => ask("list", page, "GET", search(query), options);
  return {
    list,
    async *all(query: Query = {}, options?: CallOptions) {
      for (let after = query.after; ; ) {
        const { items, next } = await list({ ...query, after }, options);
        yield* items;
        if (next === undefined) return;
        after = next;
      }
    },
    get: async (id, { rev, asof, ...options } = {}) => ask("get", one, "GET", at(id) + search({ rev, asof }), options),
    create: (content, options) => ask("create", one, "POST", "", options, { id: options?.id, data: content }),
    update: async (id, patch, options) => ask("update", one, "PATCH", at(id), options, { data: patch }),
    delete: async (id, options) => ask("delete", null, "DELETE", at(id), options),
    restore: async (id, options) => ask("restore", one, "POST", `${at(id)}/restore`, options),
    purge: async (id, options) => ask("purge", null, "DELETE", `${at(id)}?purge=true`, options),
    revert: async (id, to, options) => ask("revert", one, "POST", `${at(id)}/revert`, options, { to }),
    async *events({ id, ...subscription } = {}, options = {}) {
      const p: Procedure = { name: `${name}.events`, path: "", shape: null };
      const url = `${root}/events${search({ topic: `${name}/${id ?? "*"}`, ...subscription })}`;
      let records: Stored<Data>[] = [];
      for await (const { event, data } of messages(p, o, url, options.signal)) {
        const m = JSON.parse(data) as StateMessage & { op: string; id: string; record?: Stored<Data>; large?: true };
        if (event === "change") {
          const { position, op, id, record, large } = m;
          yield { kind: "change", position, op, id, ...(record && { record: shaped(p, record, one) as Stored<Data> }), ...(large && { large }) };
        } else if (event === "state") {
          if (m.first) records = [];
          for (const { record } of m.records) records.push(shaped(p, record, one) as Stored<Data>);
          if (m.last) yield { kind: "state", position: m.position, records, more: m.more !== undefined };
        }
      }
    },
    history: async (id, { before, limit, ...options } = {}) => ask("history", null, "GET", `${at(id)}/history${search({ before, limit })}`, options),
  };
}

/** A part of the state in a stream. */
interface StateMessage {
  position: number;
  first?: boolean;
  records: { record: unknown }[];
  more?: string[];
  last?: boolean;
}

/** Receives server-sent events, again and again. An answer that refuses them is an error, unless it may succeed later. */
async function* messages(p: Procedure, o: ClientOptions, url: string, signal: AbortSignal | undefined): AsyncGenerator<{ event: string; data: string }, void, undefined> {
  const end = new AbortController();
  const forward = () => end.abort(signal?.reason);
  signal?.addEventListener("abort", forward);
  try {
    for (let lastId = "", wait = 0; ; wait = Math.min(2 * wait + 500, 30_000)) {
      signal?.throwIfAborted();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      signal?.throwIfAborted();
      const token = await tokenOf(o);
      const headers: Record<string, string> = { Accept: "text/event-stream, application/json" };
      if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
      if (lastId !== "") headers["Last-Event-ID"] = lastId;
      try {
        const answer = await (o.fetch ?? globalThis.fetch)(url, { headers, signal: end.signal });
        if (answer.status !== 200 || answer.body === null) {
          const problem = failure(p, answer.status, await answer.json().catch(() => null));
          if (problem.retryable) continue;
          throw problem;
        }
        for await (const m of parsed(answer.body)) {
          wait = 0;
          yield m;
          lastId = m.id || lastId;
        }
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        if (cause instanceof CallError) throw cause; // anything else is a lost connection
      }
    }
  } finally {
    end.abort();
    signal?.removeEventListener("abort", forward);
  }
}

/** Reads events from a stream (HTML standard, section 9.2.6). */
async function* parsed(body: ReadableStream<Uint8Array>): AsyncGenerator<{ event: string; data: string; id: string }, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (let rest = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const fields = { event: "message", data: "", id: "" };
        for (const line of block.split("\n")) {
          const colon = line.indexOf(": "); // not a regular expression, whose dot does not match U+2028
          const [key, text] = [line.slice(0, colon), line.slice(colon + 2)];
          if (key === "data") fields.data += (fields.data === "" ? "" : "\n") + text;
          else if (key === "event" || key === "id") fields[key] = text;
        }
        if (fields.data !== "") yield fields;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
