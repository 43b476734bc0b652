package rig

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// GremlinServer is a server of TinkerPop's in Java, and the graph in it.
type GremlinServer struct {
	Main       string   // class
	Plugins    []string // classes
	Properties string   // of the graph
	Init       string   // in Groovy: lines about the variable graph, before requests
	jars       string
}

// gremlinThreads is the threads that carry out requests: one for each that is in flight, so that writers can share a sync.
const gremlinThreads = 16

// TinkerGraph returns a Gremlin Server with a graph in memory, from the jars that graph/gremlinserver/pom.xml names.
func TinkerGraph() (*GremlinServer, error) {
	jars, err := jarsOf("../bench/graph/gremlinserver", "gremlinserver")
	return &GremlinServer{
		Main:    "org.apache.tinkerpop.gremlin.server.GremlinServer",
		Plugins: []string{"org.apache.tinkerpop.gremlin.tinkergraph.jsr223.TinkerGraphGremlinPlugin"},
		Properties: `gremlin.graph=org.apache.tinkerpop.gremlin.tinkergraph.structure.TinkerGraph
gremlin.tinkergraph.vertexIdManager=LONG
gremlin.tinkergraph.edgeIdManager=LONG
`,
		Init: "graph.createIndex('name', Vertex.class)\n",
		jars: jars,
	}, err
}

// JanusGraph returns a JanusGraph server, from the jars that graph/janusgraph/pom.xml names. Its backend is berkeleyje, whose files are
// below dir, or inmemory. With storage.transactions BerkeleyDB calls fdatasync at each commit, which is its default.
func JanusGraph(backend, dir string) (*GremlinServer, error) {
	jars, err := jarsOf("../bench/graph/janusgraph", "janusgraph")
	properties := "gremlin.graph=org.janusgraph.core.JanusGraphFactory\nstorage.backend=" + backend + "\n"
	if backend != "inmemory" {
		properties += "storage.directory=" + filepath.Join(dir, "files") + "\nstorage.transactions=true\ncache.db-cache=true\n"
	}
	return &GremlinServer{
		Main:       "org.janusgraph.graphdb.server.JanusGraphServer",
		Plugins:    []string{"org.janusgraph.graphdb.tinkerpop.plugin.JanusGraphGremlinPlugin"},
		Properties: properties,
		Init: `m = graph.openManagement()
name = m.makePropertyKey('name').dataType(String.class).cardinality(org.janusgraph.core.Cardinality.SINGLE).make()
m.makePropertyKey('age').dataType(Long.class).cardinality(org.janusgraph.core.Cardinality.SINGLE).make()
m.makeVertexLabel('person').make()
m.makeEdgeLabel('knows').multiplicity(org.janusgraph.core.Multiplicity.MULTI).make()
m.buildIndex('byName', Vertex.class).addKey(name).buildCompositeIndex()
m.commit()
`,
		jars: jars,
	}, err
}

// jarsOf returns the folder to which ci/jars brings the jars that a folder's pom.xml names. Both arguments are those of ci/jars, so
// the folder is relative to ci/. The current folder must be bench/.
func jarsOf(folder, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("../ci", folder, "pom.xml"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "skerry", fmt.Sprintf("%s-%.6x", name, sha256.Sum256(text)))
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("%w: run ci/jars %s %s, or leave %[3]s out with -systems", err, folder, name)
	}
	return dir, nil
}

// Start writes the files of the server into dir, runs it and waits until it serves WebSockets at addr.
func (s *GremlinServer) Start(f *Fleet, java, dir, addr string) (*Process, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	init := filepath.Join(dir, "init.groovy")
	graph := filepath.Join(dir, "graph.properties")
	yaml := fmt.Sprintf(`host: %s
port: %s
evaluationTimeout: 3600000
gremlinPool: %d
maxContentLength: 10485760
channelizer: org.apache.tinkerpop.gremlin.server.channel.WebSocketChannelizer
graphs: { graph: %q }
serializers:
  - { className: org.apache.tinkerpop.gremlin.util.ser.GraphBinaryMessageSerializerV1 }
scriptEngines:
  gremlin-groovy:
    plugins:
      org.apache.tinkerpop.gremlin.server.jsr223.GremlinServerGremlinPlugin: {}
`, host, port, gremlinThreads, graph)
	for _, p := range s.Plugins {
		yaml += "      " + p + ": {}\n"
	}
	yaml += fmt.Sprintf("      org.apache.tinkerpop.gremlin.jsr223.ScriptFileGremlinPlugin: { files: [ %q ] }\n", init)
	conf := filepath.Join(dir, "server.yaml")
	for name, text := range map[string]string{conf: yaml, graph: s.Properties, init: s.Init + "globals = [g: traversal().withEmbedded(graph)]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(java, "-Xms1G", "-Xmx2G", "-Djava.io.tmpdir="+dir, "-cp", s.jars+"/*", s.Main, conf)
	cmd.Dir = dir
	p, err := f.Start(cmd, filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	if err := p.Await(addr, StartLimit); err != nil {
		_ = f.Stop(p, syscall.SIGKILL) // the first error is the one to report
		return nil, err
	}
	return p, nil
}
