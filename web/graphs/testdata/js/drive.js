// Drives the server whose URL is the argument, and prints what it answers.
const gremlin = require('gremlin');
const { DriverRemoteConnection } = gremlin.driver;
const { traversal } = gremlin.process.AnonymousTraversalSource;
const { t, P, order, statics: __ } = { ...gremlin.process, statics: gremlin.process.statics };

async function main(url) {
  const connection = new DriverRemoteConnection(url, {});
  const g = traversal().withRemote(connection);
  const say = (...parts) => console.log(parts.map((p) => JSON.stringify(p, (_, v) => (v instanceof Map ? Object.fromEntries([...v].map(([k, w]) => [k.elementName ?? k, w])) : v))).join(' '));
  const ann = (await g.addV('person').property(t.id, 'ann').property('name', 'Ann').next()).value;
  const bob = (await g.addV('person').property(t.id, 'bob').property('name', 'Bob').property('age', 41).next()).value;
  await g.addE('knows').from_(ann).to(bob).property('since', 2020).iterate();
  say(await g.V(ann).out('knows').values('name').toList());
  say(await g.V().elementMap().toList());
  say(await g.V().has('age', P.gt(40)).count().next());
  say(await g.V().order().by('name', order.desc).values('name').toList());
  say(await g.V('ann').repeat(__.out()).times(1).path().by('name').next());
  const tx = g.tx();
  const own = tx.begin();
  await own.addV('person').property('name', 'Eva').iterate();
  say('in it', (await own.V().count().next()).value, 'outside', (await g.V().count().next()).value);
  await tx.commit();
  say('after it', (await g.V().count().next()).value);
  const other = g.tx();
  const undone = other.begin();
  await undone.V().drop().iterate();
  await other.rollback();
  say('undone', (await g.V().count().next()).value);
  try {
    await g.V().fail('not further').next();
  } catch (e) {
    say(e.statusCode, e.message);
  }
  await connection.close();
}

main(process.argv[2]).catch((e) => {
  console.error(e);
  process.exit(1);
});
