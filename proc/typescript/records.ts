/** An exact decimal number, e.g. "12.50". */
export type Decimal = string;

/** What createRecords takes. */
export interface RecordsOptions extends ClientOptions {
  /** The path above the collections; "/api" by default. */
  prefix?: string | undefined;
}

/** A record: what every record has, and its data. */
export interface Stored<Data, Expand = object> {
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
  /** The records that the query has asked for with `expand`, by the names there. */
  expand?: Expand;
}

/** The first records that refer to an expanded one. */
export interface Related<Data, Expand = object> {
  items: Stored<Data, Expand>[];
  /** There are more than `items`. */
  more: boolean;
}

/** The names of what every record has beside its data. */
export type Column = "id" | "rev" | "created" | "created_by" | "updated" | "updated_by" | "deleted" | "deleted_by" | "restored" | "restored_by" | "is_deleted";

/** The names that a query can use: also paths along references, e.g. "author.email". */
export type Name<Data> = Column | (keyof Data & string) | `${keyof Data & string}.${string}`;

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

/** Which records an aggregate is of. */
export interface Selection {
  filter?: string | undefined;
  deleted?: "live" | "trash" | "all" | undefined;
  asof?: string | number | undefined;
}

/** What to compute, and by what to group. */
export interface AggregateQuery<Group extends string, Aggregate extends string> extends Selection {
  /** E.g. ["status", "month(created)"]; without it there is one group. */
  group?: readonly Group[] | undefined;
  /** E.g. ["count", "sum(total)"]. */
  aggregate: readonly Aggregate[];
}

/** By what a query can group. */
export type GroupName<Data> = Name<Data> | `${"hour" | "day" | "week" | "month" | "year"}(${Name<Data>})`;

/** What a query can compute. */
export type AggregateName<Data> = "count" | `${"count" | "sum" | "avg" | "min" | "max"}(${Name<Data>})`;

/** The type of a value of a record, null if there is none. */
type ValueOf<Data, Path> = Path extends keyof Data ? Exclude<Data[Path], undefined> | null : Path extends "rev" ? number : Path extends "is_deleted" ? boolean : Path extends Column ? string | null : string | number | boolean | null;

/** The type of an aggregate; all but counts are null if there are no values. A sum that no 64-bit integer holds is a decimal. */
type Computed<Data, A> =
  A extends "count" | `count(${string})` ? number
  : A extends `avg(${string})` ? number | Decimal | null
  : A extends `sum(${infer Path})` ? ValueOf<Data, Path> | Decimal | null
  : A extends `${"min" | "max"}(${infer Path})` ? ValueOf<Data, Path> | null
  : never;

/** The values of one group, by the names of the query. */
export type Group<Data, G extends string, A extends string> =
  & { [name in G]: name extends `${"hour" | "day" | "week" | "month" | "year"}(${string})` ? Timestamp | null : ValueOf<Data, name> }
  & { [name in A]: Computed<Data, name> };

/** A change of all records that meet a filter, not carried out yet. */
export interface Preview {
  /** How many records would be changed. */
  count: number;
  /** Changes the records, all or none, and returns their number. It fails with "precondition_failed" if the filter now matches another number. */
  apply: (options?: WriteOptions) => Promise<number>;
}

/** The formats of files of records: comma-separated values with a header, and one JSON object a line. */
export type FileFormat = "csv" | "jsonl";

/** Which records an export has, and in which order. JSON lines can have some of the fields only. */
export interface ExportQuery extends Selection {
  sort?: string | readonly string[] | undefined;
  fields?: string | readonly string[] | undefined;
}

/** What an import takes. */
export interface ImportOptions extends WriteOptions {
  /** What happens to records whose id exists; "refuse" by default. */
  existing?: "refuse" | "skip" | "update" | undefined;
  /** Imports the records that are right, and returns the errors of the others. */
  partial?: boolean | undefined;
  /** Checks everything and writes nothing. */
  dryRun?: boolean | undefined;
}

/** What an import has done, or would do. */
export interface Imported {
  created: number;
  updated: number;
  skipped: number;
  failed: number;
  dry_run?: boolean;
  /** The first 100 things that are wrong. Lines and columns count from 1; without a column it is the whole line. */
  errors?: { line: number; column?: number; field?: string; code: string; detail: string }[];
}

/** One operation of a transaction, made by the `op` of a collection. Result is the type of its result. */
export interface Operation<Result> {
  readonly op: "create" | "update" | "delete" | "restore" | "purge";
  readonly collection: string;
  readonly id?: string | undefined;
  readonly rev?: number | undefined;
  readonly data?: object | undefined;
  /** Reads the result. */
  readonly read: (record: unknown) => Result;
}

/** The operations of a collection; `rev` is the revision that the record must have. */
export interface Operations<Data, Create, Patch> {
  create: (data: Create, id?: string) => Operation<Stored<Data>>;
  update: (id: string, patch: Patch, rev?: number) => Operation<Stored<Data>>;
  delete: (id: string, rev?: number) => Operation<void>;
  restore: (id: string, rev?: number) => Operation<Stored<Data>>;
  purge: (id: string, rev?: number) => Operation<void>;
}

/**
 * Carries out operations, all or none, and returns their results. It fails with a CallError whose pointers begin with the
 * number of the operation that failed: "/ops/1/data/title".
 */
export type Transaction = <const Results extends readonly unknown[]>(ops: readonly [...{ [I in keyof Results]: Operation<Results[I]> }], options?: WriteOptions) => Promise<Results>;

/** One page of a listing. */
export interface Page<Data, Expand = object> {
  items: Stored<Data, Expand>[];
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
export interface Collection<Data, Create, Patch, Expand = object> {
  list: (query?: Query, options?: CallOptions) => Promise<Page<Data, Expand>>;
  /** All records of all pages. */
  all: (query?: Query, options?: CallOptions) => AsyncGenerator<Stored<Data, Expand>, void, undefined>;
  aggregate: <const A extends AggregateName<Data>, const G extends GroupName<Data> = never>(query: AggregateQuery<G, A>, options?: CallOptions) => Promise<Group<Data, G, A>[]>;
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
  /** Counts the records that meet a filter, at most 10,000; `apply` of the result changes them. */
  updateWhere: (filter: string, patch: Patch, options?: CallOptions) => Promise<Preview>;
  /** In the same way, moves records into the trash. */
  deleteWhere: (filter: string, options?: CallOptions) => Promise<Preview>;
  /** Operations for `transaction`. */
  op: Operations<Data, Create, Patch>;
  /** Imports at most 10,000 records and 16 MiB, all or none unless `partial` is set. */
  importFile: (format: FileFormat, file: string | Blob | ArrayBuffer, options?: ImportOptions) => Promise<Imported>;
  /** All records that meet the query. The stream fails if the export breaks off: what it has so far is not all then. */
  exportFile: (format: FileFormat, query?: ExportQuery, options?: { signal?: AbortSignal | undefined }) => Promise<ReadableStream<Uint8Array>>;
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

/** A body that is not JSON. */
interface Body {
  media: string;
  body: string | Blob | ArrayBuffer;
}

/** Asks for what p names. */
async function ask<T>(p: Procedure, o: RecordsOptions, method: string, options: ChangeOptions = {}, content?: object, file?: Body): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json" };
  const token = await tokenOf(o);
  if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
  if (options.idempotencyKey !== undefined) headers["Idempotency-Key"] = quoted(options.idempotencyKey);
  if (options.rev !== undefined) headers["If-Match"] = `"${options.rev}"`;
  const init: RequestInit = { method, headers };
  if (content !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = encode(content);
  } else if (file !== undefined) {
    headers["Content-Type"] = file.media;
    init.body = file.body;
  }
  const { status, text } = await exchange(p, o, options, p.path, init);
  if (status === 204) return undefined as T;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new CallError(p.name, "http", `${p.name}: the server answered ${status} with what is not JSON`, { status }, cause);
  }
  if (status < 200 || status > 299) throw failure(p, status, value);
  return shaped(p, value, p.shape) as T;
}

function rootOf(o: RecordsOptions): string {
  return (o.baseUrl ?? "").replace(/\/+$/, "") + (o.prefix ?? "/api").replace(/\/+$/, "");
}

function search(parameters: object): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined) params.set(key, String(value)); // a list becomes a,b
  }
  return `${params}` === "" ? "" : `?${params}`;
}

function transactions(o: RecordsOptions): Transaction {
  const p: Procedure = { name: "transaction", path: `${rootOf(o)}/tx`, shape: null };
  return async (ops, options) => {
    const list: readonly Operation<unknown>[] = ops;
    const content = { ops: list.map(({ op, collection, id, rev, data }) => ({ op, collection, id, rev, data })) };
    const { results } = await ask<{ results: { record?: unknown }[] }>(p, o, "POST", options, content);
    return list.map((op, i) => op.read(results[i]?.record)) as never;
  };
}

const media: Record<FileFormat, string> = { csv: "text/csv", jsonl: "application/jsonl" };

function collection<Data, Create, Patch, Expand>(o: RecordsOptions, name: string, data: Shape | null): Collection<Data, Create, Patch, Expand> {
  const root = rootOf(o);
  const base = `${root}/${name}`;
  const called = (what: string, path = "", shape: Shape | null = null): Procedure => ({ name: `${name}.${what}`, path: base + path, shape });
  const one: Shape = ["object", data === null ? [["rev", "i"]] : [["rev", "i"], ["data", data]]];
  const page: Shape = ["object", [["items", ["list", one]]]];

  const at = (id: string) => {
    if (id === "" || id === "." || id === "..") throw new TypeError(`${JSON.stringify(id)} is not an id`);
    return `/${encodeURIComponent(id)}`;
  };
  const list = (query: Query = {}, options?: CallOptions): Promise<Page<Data, Expand>> => ask(called("list", search(query), page), o, "GET", options);
  const ints = ["rev", ...(typeof data === "object" && data?.[0] === "object" ? data[1].map(([field]) => field) : [])];
  const whole = (name: string): boolean => ints.includes(/^(?:sum|min|max)\((.*)\)$/.exec(name)?.[1] ?? name);
  const where = async (what: string, method: string, filter: string, options?: CallOptions, content?: object): Promise<Preview> => {
    const { count, token } = await ask<{ count: number; token: string }>(called(what, search({ filter })), o, method, options, content);
    const apply = async (options?: WriteOptions) =>
      (await ask<{ count: number }>(called(what, search({ filter, token })), o, method, options, content)).count;
    return { count, apply };
  };
  const operation = <Result>(op: Operation<Result>["op"], id: string | undefined, rev: number | undefined, data?: object): Operation<Result> =>
    ({ op, collection: name, id, rev, data, read: (record) => shaped(called(op), record, one) as Result });
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
    async aggregate(query, options) {
      const p = called("aggregate", search(query));
      const { groups } = await ask<{ groups: Record<string, unknown>[] }>(p, o, "GET", options);
      for (const group of groups) {
        for (const [name, value] of Object.entries(group)) {
          if (typeof value === "number" && whole(name)) shaped(p, value, "i");
        }
      }
      return groups as never;
    },
    get: async (id, { rev, asof, ...options } = {}) => ask(called("get", at(id) + search({ rev, asof }), one), o, "GET", options),
    create: (content, options) => ask(called("create", "", one), o, "POST", options, { id: options?.id, data: content }),
    update: async (id, patch, options) => ask(called("update", at(id), one), o, "PATCH", options, { data: patch }),
    delete: async (id, options) => ask(called("delete", at(id)), o, "DELETE", options),
    restore: async (id, options) => ask(called("restore", `${at(id)}/restore`, one), o, "POST", options),
    purge: async (id, options) => ask(called("purge", `${at(id)}?purge=true`), o, "DELETE", options),
    revert: async (id, to, options) => ask(called("revert", `${at(id)}/revert`, one), o, "POST", options, { to }),
    updateWhere: (filter, patch, options) => where("updateWhere", "PATCH", filter, options, { data: patch }),
    deleteWhere: (filter, options) => where("deleteWhere", "DELETE", filter, options),
    op: {
      create: (content, id) => operation("create", id, undefined, content as object),
      update: (id, patch, rev) => operation("update", id, rev, patch as object),
      delete: (id, rev) => operation("delete", id, rev),
      restore: (id, rev) => operation("restore", id, rev),
      purge: (id, rev) => operation("purge", id, rev),
    },
    importFile: (format, body, { existing, partial, dryRun, ...options } = {}) =>
      ask(called("importFile", search({ existing, partial, dry_run: dryRun })), o, "POST", options, undefined, { media: media[format], body }),
    async exportFile(format, query = {}, { signal } = {}) {
      const p = called("exportFile", search({ ...query, format }));
      const token = await tokenOf(o);
      const headers: Record<string, string> = { Accept: `${media[format]}, application/json` };
      if (token !== undefined) headers["Authorization"] = `Bearer ${token}`;
      let answer: Response;
      try {
        answer = await (o.fetch ?? globalThis.fetch)(p.path, { headers, signal: signal ?? null });
      } catch (cause) {
        if (signal?.aborted) throw signal.reason;
        throw new CallError(p.name, "network", `${p.name}: ${cause instanceof Error ? cause.message : String(cause)}`, {}, cause);
      }
      if (answer.status !== 200 || answer.body === null) throw failure(p, answer.status, await answer.json().catch(() => null));
      return answer.body;
    },
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
    history: async (id, { before, limit, ...options } = {}) => ask(called("history", `${at(id)}/history${search({ before, limit })}`), o, "GET", options),
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
