// Drives a cluster at HOST:PORT,HOST:PORT,… (argv) through ioredis's Cluster,
// while the test changes the leader. It prints "ok" at the end; anything else is
// a failure.
"use strict";

const assert = require("node:assert/strict");
const Redis = require("ioredis");

const nodes = process.argv[2].split(",").map((a) => {
  const [host, port] = a.split(":");
  return { host, port: Number(port) };
});

async function drive(scaleReads) {
  const cluster = new Redis.Cluster(nodes, { scaleReads });
  const end = Date.now() + 1500;
  for (let i = 0; Date.now() < end; i++) {
    const key = `k${i % 100}`;
    assert.equal(await cluster.set(key, String(i)), "OK");
    const got = await cluster.get(key);
    if (scaleReads === "master") assert.equal(got, String(i));
  }
  const replies = await cluster.multi().set("{t}1", "x").get("{t}1").exec();
  assert.deepEqual(replies, [[null, "OK"], [null, "x"]]);
  const p = cluster.pipeline();
  for (let i = 0; i < 500; i++) p.incr("{p}n");
  const counts = await p.exec();
  counts.forEach(([err, n], i) => { assert.equal(err, null); assert.equal(n, i + 1); });
  await cluster.del("{p}n");
  assert.equal(cluster.nodes("master").length, 1);
  cluster.disconnect();
}

drive("master").then(() => drive("slave")).then(() => console.log("ok"), (err) => {
  console.log(err.stack);
  process.exit(1);
});
