"""Drives the servers whose URLs are the arguments, and prints what they answer.

The second one asks for a password.
"""
import logging
import sys
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal

from gremlin_python.driver.auth import basic
from gremlin_python.driver.client import Client
from gremlin_python.driver.connection import GremlinServerError
from gremlin_python.driver.driver_remote_connection import DriverRemoteConnection
from gremlin_python.process.anonymous_traversal import traversal
from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Direction, GValue, Order, P, T, Traverser
from gremlin_python.statics import BigDecimal, SingleByte, SingleChar, bigint, long, short

logging.disable(logging.CRITICAL)

url = sys.argv[1]
connection = DriverRemoteConnection(url, "g", max_connections=4)
g = traversal().with_(connection)


def elements():
    ann = g.add_v("person").property(T.id, "ann").property("name", "Ann").next()
    bob = g.add_v("person").property(T.id, "bob").property("name", "Bob").property("age", 41).next()
    knows = g.add_e("knows").from_(ann).to(bob).property("since", 2020).next()
    print(ann, ann.label, [p.value for p in ann.properties])
    print(knows.label, knows.outV.id, knows.inV.id, [(p.key, p.value) for p in knows.properties])
    print(g.V(ann).out("knows").values("name").to_list())
    print([{getattr(k, "name", k): v for k, v in m.items()} for m in g.V().element_map().to_list()])
    print([{getattr(k, "name", k): v for k, v in m.items()} for m in g.E().element_map().to_list()][0]["label"])
    print(g.V().has("age", P.gt(40)).count().next(), g.V().has("age", P.within([41, 42])).values("name").to_list())
    print(g.V().order().by("name", Order.desc).values("name").to_list())
    print(g.V("ann").repeat(__.out()).times(1).path().by("name").next())
    print(g.V("ann").out_e().in_v().path().next())
    print(g.V("ann").out().tree().by("name").next())
    print(g.V("ann").properties("name").next(), g.E().properties("since").next())
    print([e.id == knows.id for e in g.E().to_list()], g.V("ann").to_e(Direction.OUT).label().next())
    sub = g.E().subgraph("s").cap("s").next()
    print("subgraph", sorted(sub.vertices), [e.outV.id for e in sub.edges.values()])
    print(sorted(g.V().profile().next()))


def values():
    zone = timezone(timedelta(hours=2))
    for v in [
        1, long(2), short(3), SingleByte(-4), bigint(2**70), -bigint(5), 1.5, float("inf"), True, None, "it's \"é\" \u00a0\n", SingleChar("x"),
        b"\x00\xff", uuid.UUID("41d2e28a-20a4-4ab0-b379-d810dede3786"), datetime(2024, 2, 29, 12, 30, tzinfo=zone),
        timedelta(days=1, microseconds=5), timedelta(seconds=-1.5), [1, [2]], {"a": {"b": 1}}, T.id, Direction.OUT,
    ]:
        got = g.inject(v).next()
        print(type(got).__name__, repr(got), got == v)
    print(g.inject(BigDecimal(2, -12345)).next().value == Decimal("-123.45"), g.inject({1, 2}).next() == {1, 2})
    print(g.V(GValue("who", "bob")).values("name").next(), g.inject(1).is_(GValue("n", 1)).count().next())
    many = g.inject(*["x"] * 1000).to_list()
    print(len(many), set(many), g.inject("a", "a", "b").aggregate("s").cap("s").next())
    print(sum(g.inject(1).repeat(__.union(__.identity(), __.identity())).times(14).to_list()))
    print(g.V().has_label("nothing").to_list(), g.with_("batchSize", 1).V().id_().to_list())


def transactions():
    tx = g.tx()
    own = tx.begin()
    own.add_v("person").property("name", "Eva").iterate()
    print("in it", own.V().count().next(), "outside", g.V().count().next())
    tx.commit()
    print("after it", g.V().count().next())
    tx = g.tx()
    undone = tx.begin()
    undone.V().drop().iterate()
    try:
        undone.inject(1).fail("only this request").iterate()
    except GremlinServerError as e:
        print(e)
    print("emptied", undone.V().count().next())
    tx.rollback()
    print("undone", g.V().count().next())
    one, two = g.tx(), g.tx()
    for own in one.begin(), two.begin():
        own.V("bob").property("age", own.V("bob").values("age").next() + 1).iterate()
    one.commit()
    try:
        two.commit()
    except GremlinServerError as e:
        print(e.status_code, e.status_exception)
    two.rollback()
    print(g.V("bob").values("age").next())
    one._is_open = True
    try:
        one.rollback()
    except GremlinServerError as e:
        print(e.status_code, e.status_message.split(" \"")[0])


def scripts():
    client = Client(url, "g", max_connections=1)
    print(client.submit("g.V(who).values('name')", {"who": "ann"}).all().result())
    print(client.submit("g.inject('a', 'a')").all().result())
    print(len(client.submit("g.inject(1..30000).unfold()").all().result()))
    late = client.submit("g.inject(1..30000).unfold().choose(is(29999), fail('late'), identity())")
    n = 0
    try:
        for _ in late:
            n += 1
    except GremlinServerError as e:
        print(n > 20000, e)
    own = client.transact()
    own.begin()
    own.submit("g.addV('x').property(id, i)", {"i": "x"}).all().result()
    own.commit()
    print(client.submit("g.V('x').count()").all().result())
    client.close()
    bulked = Client(url, "g", max_connections=1, bulk_results=True)
    print([(t.object, t.bulk) for t in bulked.submit("g.inject('a', 'b', 'b').barrier()").all().result() if isinstance(t, Traverser)])
    bulked.close()
    for text in "g.V(", "g.V().fail('not further')", "g.inject(1).math('_/x')":
        own = Client(url, "g", max_connections=1)  # closed each time: otherwise its destructor may complain
        try:
            own.submit(text).all().result()
        except GremlinServerError as e:
            print(e.status_code, e.status_message)
        own.close()
    try:
        g.with_("timeoutMillis", 50).inject(1).repeat(__.identity()).until(__.is_(2)).iterate()
    except GremlinServerError as e:
        print(e.status_code, e.status_message.split(" of ")[0])


def users():
    for auth in None, basic("ann", "wrong"), basic("ann", "sécret"):
        own = DriverRemoteConnection(sys.argv[2], "g", max_connections=1, auth=auth)
        try:
            print(traversal().with_(own).inject("welcome").next())
        except GremlinServerError as e:
            print(e)
        own.close()


elements()
values()
transactions()
scripts()
users()
connection.close()
