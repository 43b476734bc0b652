// Writes points through @influxdata/influxdb-client, as the document on standard input says: see clients_test.go. It
// prints how each write ended.
'use strict';
const {InfluxDB, Point, setLogger} = require('@influxdata/influxdb-client');

// The client logs what it retries. How a write ended is in the results.
setLogger({error() {}, warn() {}});

function point(p) {
  const out = new Point(p.measurement);
  for (const [name, value] of Object.entries(p.tags || {})) out.tag(name, value);
  for (const [name, value] of Object.entries(p.fields)) {
    if (typeof value === 'boolean') out.booleanField(name, value);
    else if (typeof value === 'string') out.stringField(name, value);
    else if (Number.isInteger(value)) out.intField(name, value);
    else out.floatField(name, value);
  }
  if (p.date) return out.timestamp(new Date(p.date));
  return out.timestamp(p.time); // "" leaves the time to the server
}

// write resolves when the client has written the points, which may be after it has tried again, or has given up.
async function write(url, w) {
  const failed = [];
  let api;
  const result = await new Promise((resolve) => {
    api = new InfluxDB({url, token: w.token, timeout: 60_000}).getWriteApi('org', w.bucket, w.precision, {
      gzipThreshold: 0, // compresses every body
      // The client takes the seconds of Retry-After for milliseconds. So these say how long it goes on.
      retryJitter: 1000,
      maxRetries: 20,
      writeSuccess: () => resolve({ok: true, failed}),
      writeFailed: (err) => {
        failed.push(err.statusCode);
        const again = err.statusCode === 429; // the client tries these again
        if (!again) resolve({failed, message: err.message, body: err.body});
      },
    });
    api.writePoints(w.points.map(point));
    api.flush().catch(() => {}); // writeFailed has the error, too
  });
  api.dispose();
  return result;
}

async function main() {
  const {url, writes} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
  const results = [];
  for (const w of writes) results.push(await write(url, w));
  console.log(JSON.stringify(results));
}

main();
