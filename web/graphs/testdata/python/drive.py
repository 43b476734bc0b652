"""Drives the server whose URL is the argument, and prints what it answers."""
import logging
import sys

from gremlin_python.driver.driver_remote_connection import DriverRemoteConnection
from gremlin_python.driver.protocol import GremlinServerError
from gremlin_python.driver.serializer import GraphBinarySerializersV1, GraphSONSerializersV3d0
from gremlin_python.process.anonymous_traversal import traversal
from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import Order, P, T

logging.disable(logging.CRITICAL)


def main(url, serializer):
    connection = DriverRemoteConnection(url, "g", message_serializer=serializer)
    g = traversal().with_(connection)
    g.V().drop().iterate()
    ann = g.add_v("person").property(T.id, "ann").property("name", "Ann").next()
    bob = g.add_v("person").property(T.id, "bob").property("name", "Bob").property("age", 41).next()
    g.add_e("knows").from_(ann).to(bob).property("since", 2020).iterate()
    print(g.V(ann).out("knows").values("name").to_list())
    print([{getattr(k, "name", k): v for k, v in m.items()} for m in g.V().element_map().to_list()])
    print(g.V().has("age", P.gt(40)).count().next())
    print(g.V().order().by("name", Order.desc).values("name").to_list())
    print(g.V("ann").repeat(__.out()).times(1).path().by("name").next())
    tx = g.tx()
    own = tx.begin()
    own.add_v("person").property("name", "Eva").iterate()
    print("in it", own.V().count().next(), "outside", g.V().count().next())
    tx.commit()
    print("after it", g.V().count().next())
    tx = g.tx()
    undone = tx.begin()
    undone.V().drop().iterate()
    tx.rollback()
    print("undone", g.V().count().next())
    try:
        g.V().fail("not further").iterate()
    except GremlinServerError as e:
        print(e)
    connection.close()


for s in GraphBinarySerializersV1(), GraphSONSerializersV3d0():
    main(sys.argv[1], s)
