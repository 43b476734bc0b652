// Writes points through influx, as the document on standard input says: see clients_test.go. It prints how each write
// ended.
'use strict';
const {InfluxDB, escape, toNanoDate} = require('influx');

function point(p) {
  const {tags, fields} = p;
  const measurement = escape.measurement(p.measurement); // the client escapes everything else
  if (p.date) return {measurement, tags, fields, timestamp: new Date(p.date)};
  if (p.nanos) return {measurement, tags, fields, timestamp: toNanoDate(p.nanos)};
  return {measurement, tags, fields, timestamp: p.time || undefined}; // undefined leaves the time to the server
}

async function write(url, w) {
  const {hostname, port} = new URL(url);
  const client = new InfluxDB({host: hostname, port, database: w.bucket, username: 'any', password: w.token});
  try {
    await client.writePoints(w.points.map(point), {precision: w.precision});
    return {ok: true, failed: []};
  } catch (err) {
    if (!err.res) throw err; // the client has sent nothing
    return {failed: [err.res.statusCode], message: err.message, body: err.message};
  }
}

async function main() {
  const {url, writes} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const results = [];
  for (const w of writes) results.push(await write(url, w));
  console.log(JSON.stringify(results));
}

main();
