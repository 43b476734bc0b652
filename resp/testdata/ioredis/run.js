// Drives the server at HOST:PORT (argv) through ioredis and fails on the first
// answer that is not what a Redis server gives. It prints "ok" at the end;
// anything else that it or the client prints is a failure of the test.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const Redis = require("ioredis");

const [host, port, password, ca] = process.argv.slice(2);
const options = {
  host,
  port: Number(port),
  password: password || undefined,
  tls: ca ? { ca: fs.readFileSync(ca), servername: "localhost" } : undefined,
};

async function strings(redis) {
  assert.equal(await redis.set("k", "v", "EX", 100), "OK");
  assert.equal(await redis.get("k"), "v");
  assert.equal(await redis.get("none"), null);
  const ttl = await redis.ttl("k");
  assert.ok(ttl > 95 && ttl <= 100, `ttl ${ttl}`);
  assert.equal(await redis.incrby("n", 41), 41);
  assert.equal(await redis.incrbyfloat("n", 0.5), "41.5");
  assert.deepEqual(await redis.mget("k", "none", "n"), ["v", null, "41.5"]);
  const bytes = Buffer.from([0, 255, 13, 10]);
  await redis.set(bytes, bytes);
  assert.deepEqual(await redis.getBuffer(bytes), bytes);
  await assert.rejects(redis.incr("k"), /^ReplyError: ERR value is not an integer or out of range$/);
  await assert.rejects(redis.call("BOGUS", "x"), /ERR unknown command 'BOGUS', with args beginning with: 'x'/);
}

async function pipelines(redis) {
  const p = redis.pipeline();
  for (let i = 0; i < 1000; i++) p.set(`p:${i}`, String(i));
  p.incr("k"); // k holds text: its error must not disturb the others
  for (let i = 0; i < 1000; i++) p.get(`p:${i}`);
  const replies = await p.exec();
  assert.equal(replies.length, 2001);
  assert.match(String(replies[1000][0]), /not an integer/);
  for (let i = 0; i < 1000; i++) assert.deepEqual(replies[1001 + i], [null, String(i)]);

  let seen = 0;
  for await (const keys of redis.scanStream({ match: "p:*", count: 100 })) seen += keys.length;
  assert.equal(seen, 1000);
}

async function transactions(redis) {
  assert.deepEqual(await redis.multi().set("t", "1").incr("t").get("t").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
  const other = new Redis(options);
  let attempts = 0;
  for (;;) {
    attempts++;
    await redis.watch("t");
    const old = Number(await redis.get("t"));
    if (attempts === 1) await other.set("t", "10");
    if (await redis.multi().set("t", String(old + 1)).exec()) break;
  }
  assert.equal(attempts, 2);
  assert.equal(await redis.get("t"), "11");
  await other.quit();
}

async function calls(redis) {
  assert.equal(await redis.fcall("add", 1, "calls", 2), 2);
  assert.equal(await redis.call("CALL", "add", "calls", "1"), 3);
  assert.equal(await redis.fcall_ro("value", 1, "calls"), "3");
  assert.equal(await redis.fcall_ro("value", 1, "none"), null);
  assert.deepEqual(await redis.fcall("shape", 0),
    ["Int", 7, "Yes", 1, "Text", "a\r\nb", "Float", "1.5", "None", null, "List", [1, 2], "Map", ["a", 1, "b", 2]]);
  await assert.rejects(redis.fcall("fail", 1, "calls", "my_code", "it failed"), /^ReplyError: ERR it failed \[my_code\]$/);
  const p = redis.pipeline();
  for (let i = 0; i < 500; i++) p.fcall("add", 1, "calls", 1);
  (await p.exec()).forEach(([err, n], i) => { assert.equal(err, null); assert.equal(n, i + 4); });
  assert.deepEqual(await redis.multi().fcall("add", 1, "calls", 1).get("calls").exec(), [[null, 504], [null, "504"]]);
}

// The server drops the connection; the client must come back by itself.
async function reconnects(redis) {
  const other = new Redis(options);
  const again = new Promise((resolve) => redis.once("ready", resolve));
  await other.client("KILL", "ID", await redis.client("ID"));
  await again;
  assert.equal(await redis.get("k"), "v");
  await other.quit();
}

async function main() {
  const redis = new Redis({ ...options, connectionName: "ioredis-test" });
  redis.on("error", (err) => console.error("error event:", err));
  await new Promise((resolve) => redis.once("ready", resolve));
  assert.equal(await redis.client("GETNAME"), "ioredis-test");
  await strings(redis);
  await pipelines(redis);
  await transactions(redis);
  await calls(redis);
  await reconnects(redis);
  await redis.quit();
  console.log("ok");
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
