// Uses a generated module as a web application's client would, against the server whose address and password are its
// arguments, and prints "ok". That it compiles is half of the test: a line after @ts-expect-error must not.
import { CallError, createClient, createRecords, literal, type PostsCreate, type PostsData, type Stored } from "./api.js";

declare const process: { argv: string[]; exitCode: number };
const [, , baseUrl = "", password = ""] = process.argv;

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
    same(what, [e.code, e.status], [code, status]);
    return e;
  }
  throw new Error(`${what} did not fail`);
}

let access: string | undefined;
const options = { baseUrl, token: async () => access };
const api = createClient(options);
const { posts, comments, authors, delete_, blogPosts, transaction, transaction2 } = createRecords(options);
const title = 'Grüße "\u2028\n\\ 🌍';

async function login() {
  await fails("a stranger calls", api.greet({ text: "Hello" }), "unauthenticated", 401);
  const answer = await fetch(`${baseUrl}/api/auth/login`, {
    method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ email: "ann@example.org", password: `${password} long enough`, device: "node" }),
  });
  access = ((await answer.json()) as { access_token: string }).access_token;
  same("login", [answer.status, answer.headers.get("Set-Cookie")], [200, null]);
  same("greet", (await api.greet({ text: "Hello" })).startsWith("Hello, "), true);
  // @ts-expect-error: the server sets user
  await fails("another user", api.greet({ text: "Hello", user: "bob" }), "invalid", 400);
  // @ts-expect-error: is closed
  same("closed", typeof api.closed, "undefined");
}

async function changes(): Promise<Stored<PostsData>> {
  const full: PostsCreate = {
    title, slug: "a", status: 'public "now"', tags: ["web", "go"], views: 9007199254740991n, score: 0.5, price: "12.5", pinned: true,
    published: new Date("2026-11-21T12:00:00Z"), meta: { any: [1, null] }, author: null,
  };
  const made = await posts.create(full, { id: "first", idempotencyKey: "k1" });
  const data: PostsData = made.data;
  same("created", [made.id, data.title, data.status, data.tags, data.views, data.score, data.price, data.pinned, data.meta, data.author],
    ["first", title, 'public "now"', ["web", "go"], 9007199254740991, 0.5, "12.50", true, { any: [1, null] }, undefined]);
  same("a time", new Date(data.published ?? "").getTime(), Date.UTC(2026, 10, 21, 12));
  same("created again", (await posts.create(full, { id: "first", idempotencyKey: "k1" })).rev, made.rev);
  same("by default", (await posts.create({ title: "second" })).data.slug, "none");
  // @ts-expect-error: title is missing
  const missing = await fails("missing", posts.create({ slug: "b" }), "record_invalid", 422);
  same("pointer", missing.errors[0]?.pointer, "/data/title");
  // @ts-expect-error: no such option
  await fails("option", posts.create({ title: "x", status: "deleted" }), "record_invalid", 422);
  // @ts-expect-error: no such field
  await fails("field", posts.create({ title: "x", colour: "red" }), "record_invalid", 422);

  const changed = await posts.update("first", { slug: "b", pinned: null }, { rev: made.rev });
  same("changed", [changed.data.slug, changed.data.pinned, changed.data.title, changed.rev > made.rev], ["b", undefined, title, true]);
  await fails("an old rev", posts.update("first", { slug: "c" }, { rev: made.rev }), "precondition_failed", 412);
  same("deleted", await posts.delete("first", { rev: changed.rev }), undefined);
  const gone = await fails("a deleted record", posts.get("first"), "record_not_found", 404);
  same("its name", gone.procedure, "posts.get");
  const restored = await posts.restore("first");
  same("restored", [restored.data.slug, (await posts.get("first")).rev], ["b", restored.rev]);
  await fails("a large integer, changed", posts.update("first", { views: 9007199254740992n }), "unsafe_integer", 200);
  await fails("a large integer", posts.get("first"), "unsafe_integer", 200);
  await posts.update("first", { views: 3 });
  return restored;
}

async function history() {
  const made = await posts.create({ title: "one", views: 1 });
  const { id, rev } = made;
  await posts.update(id, { title: "two" });
  same("as it was", [(await posts.get(id, { rev })).data.title, (await posts.get(id, { asof: made.created })).data.title, (await posts.get(id)).data.title], ["one", "one", "two"]);
  same("reverted", (await posts.revert(id, rev)).data.title, "one");
  const { items, next } = await posts.history(id, { limit: 2 });
  same("history", [items.map((c) => [c.op, c.id, c.patch?.[0]?.old]), next], [[["update", id, "two"], ["update", id, "one"]], items[1]?.rev]);
  const rest = await posts.history(id, { before: next });
  same("its end", [rest.items.map((c) => c.op), rest.next], [["create"], undefined]);
  await posts.delete(id);
  await posts.purge(id);
  same("purged", (await posts.list({ filter: `id = ${literal(id)}`, deleted: "all", count: true })).total, 0);
}

async function events() {
  const seen: unknown[] = [];
  const stop = new AbortController();
  const made = await posts.create({ title: "live", views: 1 });
  for await (const e of posts.events({ filter: 'title ~ "live"' }, { signal: stop.signal })) {
    if (e.kind === "state") {
      seen.push(e.kind, e.records.map((r) => r.data.title), e.more);
      await posts.update(made.id, { views: 2 });
      continue;
    }
    seen.push(e.op, e.id === made.id, e.record?.data.views);
    if (e.record?.data.views === 3) break;
    await posts.update(made.id, { views: 3 });
  }
  same("events", seen, ["state", ["live"], false, "update", true, 2, "update", true, 3]);
  let lost = 0;
  const flaky: typeof fetch = async (input, init) => {
    if (++lost === 1) throw new TypeError("the network is down");
    return fetch(input, init);
  };
  for await (const e of createRecords({ ...options, fetch: flaky }).posts.events({ id: made.id })) {
    same("after a lost connection", [e.kind, lost], ["state", 2]);
    break;
  }
  const ended = posts.events({}, { signal: stop.signal });
  await ended.next();
  stop.abort(new Error("enough"));
  same("aborted", await ended.next().catch((e: unknown) => (e as Error).message), "enough");
  await fails("a closed stream", authors.events().next(), "unknown_collection", 404);
}

async function listings() {
  same("one", (await posts.list({ filter: `title = ${literal(title)}`, count: true })).total, 1);
  same("an injection", (await posts.list({ filter: `title = ${literal('x" || "" = "')}`, count: true })).total, 0);
  for (let i = 0; i < 5; i++) await posts.create({ title: `page ${i}`, views: i });
  const slugs: string[] = [];
  for await (const post of posts.all({ filter: 'title ~ "page"', sort: ["-views", "id"], limit: 2 })) slugs.push(post.data.title);
  same("all pages", slugs, ["page 4", "page 3", "page 2", "page 1", "page 0"]);
  const some = await posts.list({ fields: "title", limit: 1, sort: "title" });
  same("fields", [Object.keys(some.items[0]?.data ?? {}), typeof some.next], [["title"], "string"]);
  const bad = await fails("a bad filter", posts.list({ filter: "nothing = 1" }), "query_invalid", 400);
  same("its text", bad.message.includes("nothing"), true);
}

async function transactions() {
  const [post, comment] = await transaction([posts.op.create({ title: "both" }, "both"), comments.op.create({ text: "first", post: "both" }, "c1")]);
  const texts: string[] = [post.id, post.data.title, comment.data.text];
  same("both", texts, ["both", "both", "first"]);
  // @ts-expect-error: a comment has no title
  same("no title", comment.data.title, undefined);
  // @ts-expect-error: no such field
  const refused = await fails("all or none", transaction([posts.op.update("both", { title: "lost" }), comments.op.create({ colour: "red", text: "x", post: "both" })]), "record_invalid", 422);
  same("which", [refused.procedure, refused.errors[0]?.pointer], ["transaction", "/ops/1/data/colour"]);
  await fails("another rev", transaction([posts.op.update("both", { title: "lost" }, post.rev + 1)]), "record_changed", 412);
  const done = await transaction([posts.op.update("both", { views: 7 }, post.rev), comments.op.delete("c1"), comments.op.restore("c1"), comments.op.delete("c1"), comments.op.purge("c1")], { idempotencyKey: "t1" });
  same("results", [done.length, done[0].data.views, done[0].data.title, done[1], done[2].id, done[4]], [5, 7, "both", undefined, "c1", undefined]);
  await transaction([posts.op.update("both", { views: 9007199254740993n })]).catch((e: unknown) => same("a large integer", (e as CallError).code, "unsafe_integer"));
  await transaction([posts.op.delete("both"), posts.op.purge("both")]);
  same("a collection of that name", typeof transaction2.list, "function");
}

async function expansions() {
  await posts.create({ title: "expanded" }, { id: "e" });
  for (const text of ["one", "two"]) await comments.create({ text, post: "e" }, { id: text });
  await comments.update("two", { answers: "one" });
  const [first] = (await posts.list({ filter: 'id = "e"', expand: ["author", "comments(post).answers"] })).items;
  same("nothing there", first?.expand?.author, null);
  const found = first?.expand?.["comments(post)"];
  const texts: (string | undefined)[] | undefined = found?.items.map((c) => c.data.text + (c.expand?.answers?.data.text ?? ""));
  same("referring", [texts, found?.more], [["one", "twoone"], false]);
  for await (const c of comments.all({ filter: 'id = "one"', expand: "post" })) same("referred", c.expand?.post?.data.title, "expanded");
  // @ts-expect-error: nothing refers to comments as post
  same("no such reference", first?.expand?.["posts(post)"], undefined);
}

async function aggregates() {
  for (const [title, views, price, score] of [["sum 1", 1, "1.25", 0.5], ["sum 2", 2, "2.50", 1.5], ["sum 3", 4, null, null]] as const) {
    await posts.create({ title, views, price, score, pinned: views < 4 });
  }
  const filter = 'title ~ "sum"';
  const [all] = await posts.aggregate({ aggregate: ["count", "count(price)", "sum(views)", "sum(price)", "avg(score)", "max(title)"], filter });
  const views: number | string | null = all?.["sum(views)"] ?? null;
  same("of all", [all?.count, all?.["count(price)"], views, all?.["sum(price)"], all?.["avg(score)"], all?.["max(title)"]], [3, 2, 7, "3.75", 1, "sum 3"]);
  const groups = await posts.aggregate({ aggregate: ["count", "max(views)"], group: ["pinned", "year(created)"], filter });
  same("groups", groups.map((g) => [g.pinned, g.count, g["max(views)"], g["year(created)"]?.slice(4, 14)]), [[false, 1, 4, "-01-01T00:"], [true, 2, 2, "-01-01T00:"]]);
  // @ts-expect-error: no such field
  await fails("an unknown field", posts.aggregate({ aggregate: ["sum(viewers)"] }), "query_invalid", 400);
  const large = await posts.create({ title: "huge", views: 0 });
  await posts.update(large.id, { views: 9007199254740993n }).catch(() => undefined);
  await fails("a large integer", posts.aggregate({ aggregate: ["max(views)"] }), "unsafe_integer", 200);
  await posts.delete(large.id);
}

async function byFilter() {
  const filter = 'title ~ "sum"';
  const change = await posts.updateWhere(filter, { slug: "summed" });
  same("a preview", [change.count, (await posts.list({ filter: 'slug = "summed"', count: true })).total], [3, 0]);
  same("applied", [await change.apply(), (await posts.list({ filter: 'slug = "summed"', count: true })).total], [3, 3]);
  // @ts-expect-error: no such field
  await fails("an unknown field", posts.updateWhere(filter, { colour: "red" }).then((c) => c.apply()), "record_invalid", 422);
  const removal = await posts.deleteWhere(filter);
  await posts.create({ title: "sum 4" });
  await fails("another number", removal.apply(), "precondition_failed", 412);
  same("deleted", await (await posts.deleteWhere(filter)).apply({ idempotencyKey: "d1" }), 4);
}

async function files() {
  const csv = 'id,title,views\nf1,"one, two",1\nf2,three,2\n';
  same("a dry run", await posts.importFile("csv", csv, { dryRun: true }), { created: 2, updated: 0, skipped: 0, failed: 0, dry_run: true });
  same("imported", (await posts.importFile("csv", new Blob([csv]), { idempotencyKey: "i1" })).created, 2);
  const twice = await fails("imported twice", posts.importFile("csv", csv), "record_invalid", 422);
  same("where", twice.errors[0]?.detail.startsWith("line 2"), true);
  same("skipped", (await posts.importFile("csv", new TextEncoder().encode(csv).buffer, { existing: "skip" })).skipped, 2);
  const some = await posts.importFile("jsonl", '{"id":"f3","data":{"title":"four"}}\n{"data":{"title":"five","views":"x"}}\n', { partial: true });
  same("partial", [some.created, some.failed, some.errors?.[0]?.line, some.errors?.[0]?.field], [1, 1, 2, "views"]);
  const lines = await new Response(await posts.exportFile("jsonl", { filter: 'id in ("f1", "f2", "f3")', sort: "-views", fields: ["id", "title"] })).text();
  same("exported", lines, ["f2", "f1", "f3"].map((id, i) => `{"id":"${id}","data":{"title":"${["three", "one, two", "four"][i]}"}}\n`).join(""));
  same("a header", (await new Response(await posts.exportFile("csv")).text()).startsWith("id,title,slug,"), true);
  await fails("no rule", authors.exportFile("csv"), "record_refused", 403);
  await fails("the network", createRecords({ ...options, fetch: async () => { throw new TypeError("down"); } }).posts.exportFile("csv"), "network", 0);
}

async function closed() {
  await fails("no rule", authors.create({ email: "a@example.org", anything: 1 }), "record_refused", 403);
  same("other names", [typeof delete_.get, typeof blogPosts.list], ["function", "function"]);
  access = "ska_x";
  await fails("a bad token", posts.list(), "unauthenticated", 401);
  access = undefined;
  await fails("a stranger", posts.create({ title: "x" }), "record_refused", 403);
  same("what anyone may", (await posts.list({ limit: 1 })).items.length, 1);
  await fails("no id", posts.get("a/b"), "record_not_found", 404);
  for (const id of ["", "."]) same(`the id "${id}"`, await posts.get(id).catch((e: unknown) => e instanceof TypeError), true);
}

await login();
await changes();
await history();
await events();
await listings();
await transactions();
await expansions();
await aggregates();
await byFilter();
await files();
await closed();
if (!process.exitCode) console.log("ok");
