// Sends the values of sensors to Cassandra without Skerry's server: it writes Skerry's tables, which docs/series.md
// describes, so that the server's page shows them.
//
//   node write.mjs HOST:PORT KEYSPACE DATACENTER [SENSORS]
import cassandra from 'cassandra-driver';
import {createHash} from 'node:crypto';

const [host, keyspace, localDataCenter, sensors = '4'] = process.argv.slice(2);
if (!localDataCenter || !/^[1-9][0-9]{0,3}$/.test(sensors)) {
  console.error('usage: node write.mjs HOST:PORT KEYSPACE DATACENTER [SENSORS]');
  process.exit(2);
}

const kinds = {temperature: 30, humidity: 45, pressure: 2.5, vibration: 1.2};
const keptSeconds = 30 * 24 * 3600; // as long as the server keeps them
const dayNanos = 86_400_000_000_000n;
const shards = 16;

const client = new cassandra.Client({
  contactPoints: [host], keyspace, localDataCenter,
  queryOptions: {prepare: true, isIdempotent: true, consistency: cassandra.types.consistencies.localQuorum},
});

// seriesId is the first half of the SHA-256 of the labels, sorted by name: the length and the bytes of each name and value.
function seriesId(labels) {
  const parts = [];
  for (const name of Object.keys(labels).sort()) {
    for (const text of [name, labels[name]]) {
      const bytes = Buffer.from(text);
      if (bytes.length > 127) throw new Error(`${text} is too long for this script`);
      parts.push(Buffer.from([bytes.length]), bytes);
    }
  }
  return createHash('sha256').update(Buffer.concat(parts)).digest().subarray(0, 16);
}

// define stores what a series is called. To do it again is harmless.
async function define(id, labels) {
  await client.execute('INSERT INTO series (collection, shard, at, id, labels) VALUES (?, ?, ?, ?, ?)',
    ['factory', id[0] % shards, new Date(), id, labels]);
}

// send stores ten values, one a second, in one batch for each day: the rows of one partition.
async function send(id, value) {
  const now = BigInt(Date.now()) * 1_000_000n;
  const days = new Map();
  for (let i = 9n; i >= 0n; i--) {
    const at = now - i * 1_000_000_000n;
    const day = Number(at / dayNanos);
    if (!days.has(day)) days.set(day, []);
    days.get(day).push({
      query: 'INSERT INTO samples_factory (series, day, at, value) VALUES (?, ?, ?, ?) USING TTL ?',
      params: [id, day, cassandra.types.Long.fromString(at.toString()), value + Math.random(), keptSeconds],
    });
  }
  for (const [day, rows] of days) {
    await client.execute('INSERT INTO series_days (collection, series, day) VALUES (?, ?, ?) USING TTL ?', ['factory', id, day, keptSeconds + 86_400]);
    await client.batch(rows, {logged: false});
  }
}

try {
  await client.connect();
  let sent = 0;
  for (let i = 0; i < Number(sensors); i++) {
    const kind = Object.keys(kinds)[i % 4];
    const labels = {__name__: 'sensor_value', kind, line: '9', sensor: `node-${i + 1}`};
    const id = seriesId(labels);
    await define(id, labels);
    await send(id, kinds[kind]);
    sent += 10;
  }
  console.log(`${sent} values of ${sensors} sensors are stored`);
} finally {
  await client.shutdown();
}
