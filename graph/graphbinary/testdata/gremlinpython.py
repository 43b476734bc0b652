"""Prints what gremlinpython 4.0.0b3 writes: lines of a name and bytes in hex.

PYTHONHASHSEED=0 PYTHONPATH=... python3 gremlinpython.py >gremlinpython.txt
"""
import uuid
from collections import OrderedDict
from datetime import datetime, timedelta, timezone

from gremlin_python.driver.request import RequestMessage
from gremlin_python.driver.serializer import GraphBinarySerializersV4
from gremlin_python.process.traversal import Direction, Merge, T
from gremlin_python.statics import BigDecimal, SingleByte, SingleChar, bigint, long, short
from gremlin_python.structure.graph import Edge, Graph, Path, Property, Tree, Vertex, VertexProperty
from gremlin_python.structure.io.graphbinaryV4 import GraphBinaryWriter

vertex = Vertex(1, "v")
edge = Edge(7, vertex, "e", Vertex(long(2), "w"))
tree = Tree()
tree.get_or_create_child(1).get_or_create_child("a")
graph = Graph()
graph.vertices[1] = vertex
of = Vertex(1, "v")
p = VertexProperty(5, "k", "x", of)
p.properties.append(Property("m", 2, p))
of.properties.append(p)
graph.vertices[1] = of
loop = Edge(7, of, "e", of)
loop.properties.append(Property("m", 2, loop))
graph.edges[7] = loop

VALUES = {
    "null": None,
    "int": 1,
    "long": long(-2),
    "short": short(-32768),
    "byte": SingleByte(-1),
    "double": 1.5,
    "string": "é",
    "true": True,
    "false": False,
    "char": SingleChar("€"),
    "bytes": b"\x01\x02\xff",
    "biginteger": bigint(2**64),
    "biginteger-negative": bigint(-5),
    "bigdecimal": BigDecimal(2, -12345),
    "uuid": uuid.UUID("41d2e28a-20a4-4ab0-b379-d810dede3786"),
    "datetime": datetime(2024, 2, 29, 12, 30, 5, 7, tzinfo=timezone(timedelta(hours=1))),
    "duration": timedelta(seconds=1, microseconds=500000),
    "list": [1, None],
    "set": {"x"},
    "map": {T.id: 1, "k": None},
    "map-ordered": OrderedDict([("b", 1), ("a", 2)]),
    "t": T.label,
    "direction": Direction.OUT,
    "merge": Merge.on_create,
    "vertex": vertex,
    "vertex-labels": Vertex(1, labels=["a", "b"]),
    "edge": edge,
    "property": Property("m", 2, None),
    "vertexproperty": VertexProperty(5, "k", "x", None),
    "path": Path([{"a"}, set()], [1, None]),
    "tree": tree,
    "graph": graph,
}

for name, val in VALUES.items():
    out = bytearray()
    GraphBinaryWriter().to_dict(val, out)
    print(name, out.hex())
request = RequestMessage({"g": "g", "batchSize": 64, "bulkResults": True, "parameters": "['x':1]"}, "g.V(x)")
print("request", GraphBinarySerializersV4().serialize_message(request).hex())
