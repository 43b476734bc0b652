// A client of the node at HOST PORT (argv) for the fault tests. It reads one JSON
// object a line, {"id", "args"} or {"id", "watched", "cmds"}, and writes one for
// each: {"id", "reply"}, {"id", "error", "server"} or {"id", "error", "unsent"}.
// No command is sent twice: a test could not tell that from a fault of the server.
"use strict";

const readline = require("node:readline");
const Redis = require("ioredis");

const client = new Redis({
  host: process.argv[2],
  port: Number(process.argv[3]),
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  connectTimeout: 1000,
  commandTimeout: 3000,
  retryStrategy: () => 50,
});
let connections = 0; // what is WATCHed belongs to one of them
client.on("ready", () => connections++);
client.on("error", () => {}); // refused connections; the commands fail by themselves

const unsent = (text) => Object.assign(new Error(text), { unsent: true });

async function run({ args, watched, cmds }) {
  if (client.status !== "ready") throw unsent(`the connection is ${client.status}`);
  if (!cmds) return [connections, await client.call(...args)];
  if (watched !== connections) throw unsent("the connection with the WATCH is gone");
  const replies = await client.multi(cmds.map(([name, ...args]) => [name.toLowerCase(), ...args])).exec();
  for (const [err] of replies || []) if (err) throw err;
  return [connections, replies && replies.map(([, reply]) => reply)];
}

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, ...rest } = JSON.parse(line);
  let answer;
  try {
    const [at, reply] = await run(rest);
    answer = { id, at, reply };
  } catch (err) {
    answer = { id, error: err.message, server: err.name === "ReplyError", unsent: Boolean(err.unsent) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}).on("close", () => client.disconnect());
