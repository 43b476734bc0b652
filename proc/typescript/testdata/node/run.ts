// Uses a generated module as a program would, against the server whose address and password are its arguments, and prints
// "ok". That it compiles is half of the test: a line after @ts-expect-error must not.
import { CallError, createClient, type EchoArgs, type EchoResult, type NilsResult } from "./api.js";

declare const process: { argv: string[]; exitCode: number };
const [, , baseUrl = "", token = ""] = process.argv;
const api = createClient({ baseUrl: baseUrl + "//", token });

function same(what: string, got: unknown, want: unknown) {
  if (JSON.stringify(got) === JSON.stringify(want) && typeof got === typeof want) return;
  console.log(`${what}: ${JSON.stringify(got)}, not ${JSON.stringify(want)}`);
  process.exitCode = 1;
}

async function fails(what: string, call: Promise<unknown>, code: string, status: number): Promise<CallError> {
  try {
    same(what, await call, `an error ${code}`);
  } catch (e) {
    if (!(e instanceof CallError)) throw e;
    same(what, [e.code, e.status, e.name], [code, status, "CallError"]);
    return e;
  }
  throw new Error(`${what} did not fail`);
}

async function results() {
  const args: EchoArgs = {
    bool: true, int: -5, large: 9007199254740991n, float: 0.5, text: "Grüße \u2028 </script>", bytes: "AP8=",
    time: "2026-11-21T12:00:00.5Z", inner: { "a-b": 7, deep: [{ id: 1 }, { id: 2 }] }, list: ["x"], map: { __proto: [], k: [1, 2] },
  };
  const got: EchoResult = await api.echo(args);
  same("echo", got, { ...args, large: 9007199254740991 });
  const when: string = got.time;
  const id: number | undefined = got.inner.deep[0]?.id;
  same("parts", [when, id, got.optional], ["2026-11-21T12:00:00.5Z", 1, undefined]);
  same("optional", (await api.echo({ ...args, optional: 3n, text: "", inner: { "a-b": 0, deep: [] } })).optional, 3);
  // @ts-expect-error: text is missing
  const wrong: EchoArgs = { ...args, text: undefined };
  // @ts-expect-error: no such procedure
  same("no such function", typeof api.eco, "undefined");
  // @ts-expect-error: of another type
  const other = await fails("other type", api.echo({ ...args, int: "five" }), "invalid", 400);
  same("pointer", other.errors.map((f) => [f.pointer, f.code]), [["/int", "invalid"]]);
  const missing = await fails("missing", api.echo(wrong), "invalid", 400);
  same("pointer of missing", missing.errors[0]?.pointer, "/text");

  const nils: NilsResult = await api.nils();
  same("nils", nils, { list: [], map: {}, bytes: "", pointer: null, lists: [[]] });
  const none: void = await api.nothing();
  same("nothing", none, undefined);
  const large = await fails("large integer", api.largeInteger(), "unsafe_integer", 200);
  same("its text", large.message.includes("large.integer"), true);
  const { delete_ } = api;
  same("bound", await delete_({}), "deleted");
}

async function errors() {
  const vote = { phone: 12345678901n };
  same("vote", [await api.vote(vote), await api.vote(vote)], [1, 2]);
  const own = await fails("own code", api.vote(vote), "too_many_votes", 422);
  same("its parts", [own.message, own.retryable, own.procedure, own.errors.length, own.requestId !== ""],
    ["vote: 12345678901 has voted twice", false, "vote", 0, true]);
  await fails("panic", api.broken(), "internal", 500);
  const key = 'a "key" \\ of mine';
  same("once", [await api.vote({ phone: 5 }, { idempotencyKey: key }), await api.vote({ phone: 5 }, { idempotencyKey: key })], [1, 1]);
  await fails("key for another call", api.vote({ phone: 6 }, { idempotencyKey: key }), "idempotency_key_reused", 422);
  for (const bad of ["", "ü", "a\nb", "x".repeat(256)]) {
    same("bad key", await api.vote(vote, { idempotencyKey: bad }).catch((e: unknown) => e instanceof TypeError), true);
  }
  // @ts-expect-error: nothing is remembered of what only reads
  same("no key", await api.nils({ idempotencyKey: "k" }).then(() => true), true);
  await fails("no password", createClient({ baseUrl }).vote(vote), "unauthenticated", 401);
  await fails("nobody there", createClient({ baseUrl: "http://127.0.0.1:1" }).vote(vote), "network", 0);
  await fails("no procedures there", createClient({ baseUrl: baseUrl + "/elsewhere", token }).vote(vote), "no_route", 404);
  const odd = (status: number, body: string) => createClient({ fetch: async () => new Response(body, { status }) }).vote(vote);
  await fails("a proxy's page", odd(502, "<html>"), "http", 502);
  await fails("a stranger's JSON", odd(500, "null"), "http", 500);
  await fails("no JSON", odd(200, ""), "http", 200);
  same("no integer", (await fails("no integer", odd(200, '"x"'), "unsafe_integer", 200)).retryable, false);
}

async function reads() {
  const seen: string[] = [];
  const spied = createClient({
    baseUrl, token,
    fetch: (url, init) => {
      seen.push(`${String(url).slice(baseUrl.length)} ${new Headers(init?.headers).get("X-Skerry-Position")}`);
      return fetch(url, init);
    },
  });
  await spied.nils({ read: "session" });
  await spied.vote({ phone: 77 });
  await spied.nils({ read: "session" });
  await spied.nils({ read: "local", maxStaleMs: 500 });
  await spied.nils();
  same("first read", seen[0], "/api/call/nils?read=session null");
  same("session", /^\/api\/call\/nils\?read=session [1-9]\d*$/.test(seen[2] ?? ""), true);
  same("others", seen.slice(3), ["/api/call/nils?read=local&max_stale=500ms null", "/api/call/nils null"]);
}

async function ends() {
  await fails("timeout", api.slow({ timeoutMs: 50 }), "timeout", 0);
  await fails("timeout of the client", createClient({ baseUrl, token, timeoutMs: 50 }).slow(), "timeout", 0);
  const reason = new Error("mine");
  const end = new AbortController();
  setTimeout(() => end.abort(reason), 50);
  same("abort", await api.slow({ signal: end.signal, timeoutMs: 0 }).catch((e: unknown) => e === reason), true);
  same("aborted before", await api.slow({ signal: end.signal }).catch((e: unknown) => e === reason), true);
  same("default reason", await api.slow({ signal: AbortSignal.abort() }).catch((e: { name: string }) => e.name), "AbortError");
}

await results();
await errors();
await reads();
await ends();
if (!process.exitCode) console.log("ok");
