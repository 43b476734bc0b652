package tinkerpop

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/daemon"
	"github.com/skerrydb/skerry/ci/ports"
)

// The files of a server whose source g is an empty TinkerGraph. Groovy runs only at the start, to name the source.
const (
	serverFile = `host: %s
port: %s
evaluationTimeout: 8000
threadPoolWorker: 1
gremlinPool: 2
channelizer: org.apache.tinkerpop.gremlin.server.channel.HttpChannelizer
graphs: {graph: %[3]s/graph.properties}
scriptEngines:
  gremlin-lang: {}
  gremlin-groovy:
    plugins:
      org.apache.tinkerpop.gremlin.server.jsr223.GremlinServerGremlinPlugin: {}
      org.apache.tinkerpop.gremlin.jsr223.ScriptFileGremlinPlugin: {files: [%[3]s/sources.groovy]}
serializers:
  - className: org.apache.tinkerpop.gremlin.util.ser.GraphSONMessageSerializerV3
    config: {ioRegistries: [org.apache.tinkerpop.gremlin.tinkergraph.structure.TinkerIoRegistryV3]}
`
	graphFile   = "gremlin.graph=org.apache.tinkerpop.gremlin.tinkergraph.structure.TinkerGraph\n"
	sourcesFile = "def globals = [:]\nglobals << [g: traversal().withEmbedded(graph)]\n"
)

// Serve starts TinkerPop's own server with an empty graph for one test, and returns the URL to which requests are
// posted. It skips the test if Java or the jars are missing, or fails it if SKERRY_REQUIRE_SERVERS is set.
func Serve(tb testing.TB) string {
	tb.Helper()
	java, err := exec.LookPath("java")
	if err != nil {
		daemon.Missing(tb, "java", "openjdk-17-jre-headless")
	}
	jar, err := find()
	if err != nil {
		daemon.Missing(tb, fmt.Sprintf("Gremlin Server (%v; ci/jars tinkerpop tinkerpop fetches it)", err), "maven")
	}
	d, err := daemon.New("gremlin", syscall.SIGKILL)
	if err != nil {
		tb.Fatal(err)
	}
	d.EndWith(tb)
	addr := ports.Addr(tb)
	host, port, _ := net.SplitHostPort(addr)
	for name, text := range map[string]string{
		"server.yaml": fmt.Sprintf(serverFile, host, port, d.Dir), "graph.properties": graphFile, "sources.groovy": sourcesFile,
	} {
		if err := os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	// The options shorten the start. A server that runs for seconds needs no other compiler or collector.
	cmd := exec.Command("nice", java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", filepath.Join(filepath.Dir(jar), "*"),
		"org.apache.tinkerpop.gremlin.server.GremlinServer", filepath.Join(d.Dir, "server.yaml"))
	cmd.Dir = d.Dir
	url, begin := "http://"+addr+"/gremlin", time.Now()
	d.Start(tb, cmd, func() bool { return serves(url) })
	tb.Logf("Gremlin Server started in %v", time.Since(begin).Round(time.Millisecond))
	return url
}

func serves(url string) bool {
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"gremlin": "g.inject(1)", "language": "gremlin-lang"}`))
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // of which nothing is read
	return resp.StatusCode == http.StatusOK
}
