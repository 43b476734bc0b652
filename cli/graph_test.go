package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/skerrydb/skerry/ci/pgserver"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

// cutEngine sends its process a signal after some transactions.
type cutEngine struct {
	engine.Engine
	signal syscall.Signal
	left   int
}

// Update implements engine.Engine. The last transaction is durable when the signal comes.
func (e *cutEngine) Update(ctx context.Context, fn func(engine.Tx) error) (engine.Position, error) {
	pos, err := e.Engine.Update(ctx, fn)
	if e.left--; e.left != 0 || err != nil {
		return pos, err
	}
	if err := syscall.Kill(os.Getpid(), e.signal); err != nil {
		return pos, err
	}
	<-ctx.Done() // never after SIGKILL
	return pos, nil
}

// cutShort returns the embedded engine as a cutEngine. SKERRY_TEST_CUT has its signal and the number of transactions.
func cutShort() verb.Engines {
	return verb.Engines{verb.Embedded: func(ctx context.Context, u *url.URL, o verb.EngineOptions) (engine.Engine, error) {
		eng, err := openEmbedded(ctx, u, o)
		if err != nil {
			return nil, err
		}
		e := &cutEngine{Engine: eng}
		_, err = fmt.Sscan(os.Getenv("SKERRY_TEST_CUT"), &e.signal, &e.left)
		return e, err
	}}
}

// ringFiles writes a graph of n vertices in a circle, in each format.
func ringFiles(s *shell, n int) {
	var son, ml, v, e strings.Builder
	for i := range n {
		next := (i + 1) % n
		fmt.Fprintf(&son, `{"id":%d,"label":"n","outE":{"to":[{"id":"ring.xml#%d","inV":%d}]},"properties":{"i":[{"value":%d}]}}`+"\n", i, i+1, next, i)
		fmt.Fprintf(&ml, "<node id='%d'><data key='labelV'>n</data><data key='i'>%d</data></node><edge source='%d' target='%d'><data key='labelE'>to</data></edge>\n", i, i, i, next)
		fmt.Fprintf(&v, "%d,n,%d\n", i, i)
		fmt.Fprintf(&e, "ring.xml#%d,%d,%d,to\n", i+1, i, next)
	}
	s.write("ring.json", son.String())
	s.write("ring.xml", "<graphml><key id='i' for='node' attr.type='int'/><graph>"+ml.String()+"</graph></graphml>")
	s.write("v.csv", "~id,~label,i:Int\n"+v.String())
	s.write("e.csv", "~id,~from,~to,~label\n"+e.String())
}

// TestGraphImportContinues stops an import by Ctrl-C, kills it when it is run again, and runs it a third time. The graph
// is then that of an import without interruption.
func TestGraphImportContinues(t *testing.T) {
	t.Parallel()
	for _, names := range []string{"ring.json", "ring.xml", "v.csv e.csv"} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			s := newShell(t)
			ringFiles(s, 7)
			cut := func(signal syscall.Signal, after int) string {
				return fmt.Sprintf("SKERRY_TEST_MAIN=cut SKERRY_TEST_CUT='%d %d' skerry graph import --batch 3 %s", signal, after, names)
			}
			s.want(cut(syscall.SIGINT, 2), `! 6 vertices and 0 edges were imported before that; repeat the command to continue
! skerry graph import: stopped by a signal before it was done
[130]
`)
			if got := s.run(cut(syscall.SIGKILL, 5) + " >/dev/null 2>&1"); !strings.HasSuffix(got, "[137]\n") {
				t.Fatalf("a killed import prints %s", got)
			}
			const noTime = " | sed 's/ in [^;]*/ in TIME/'"
			s.want("skerry graph import --batch 3 "+names+noTime, "graph g: imported 0 vertices and 1 edge in TIME; 13 were there already\n")
			s.want("skerry graph import --data whole "+names+noTime, "graph g: imported 7 vertices and 7 edges in TIME\n")
			s.want("for d in data whole; do skerry graph export --data $d --to $d.json >/dev/null; done; cmp data.json whole.json && grep -c ring.xml#7 data.json", "2\n")
		})
	}
}

// TestGraphImportStopsWaiting: a signal ends an import that waits for standard input. Nothing is written.
func TestGraphImportStopsWaiting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stdin, w := io.Pipe()
	defer w.Close()
	go func() {
		io.WriteString(w, `{"id":1}`) // until that is read
		cancel()
	}()
	dir := filepath.Join(t.TempDir(), "data")
	var stderr strings.Builder
	code := Run(ctx, App{}, Process{Args: []string{"graph", "import", "-", "--format", "graphson", "--data", dir}, Stdin: stdin, Stderr: &stderr})
	if _, err := os.Stat(dir); code != verb.ExitStopped || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("[%d] %s, and the folder: %v", code, &stderr, err)
	}
}

// TestGraphOfServer: a folder that a server has open is refused, and after that the server has what was imported.
func TestGraphOfServer(t *testing.T) {
	t.Parallel()
	need(t, "curl")
	s := newShell(t)
	ringFiles(s, 3)
	p := s.serve()
	for _, line := range []string{"list", "import ring.json", "export"} {
		got := s.run("skerry graph " + line)
		if !strings.Contains(got, "data folder data is in use by process ") || !strings.HasSuffix(got, "[locked]; this verb opens the folder itself: stop that process first\n[4]\n") {
			t.Errorf("graph %s prints %s", line, got)
		}
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d\n%s", code, p.log())
	}
	s.want("skerry graph import ring.json | sed 's/ in .*//'", "graph g: imported 3 vertices and 3 edges\n")
	p = s.serve("--gremlin", "127.0.0.1:0")
	const query = `{"gremlin": "g.V(0).out().out().values(\"i\").fold()"}`
	s.want("curl --json '"+query+"' "+strings.Replace(p.Gremlin, "ws://", "http://", 1)+` | grep -o '"g:Int32","@value":2'`, `"g:Int32","@value":2`+"\n")
}

// TestGraphOnDatabase imports into a database while a server uses it, and exports from there.
func TestGraphOnDatabase(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.env = append(s.env, "SKERRY_ENGINE="+pgserver.Shared(t).Database(t))
	ringFiles(s, 3)
	s.serve()
	s.want("skerry graph import ring.json --graph ring | sed 's/ in .*//'", "graph ring: imported 3 vertices and 3 edges\n")
	s.want("skerry graph export --graph ring 2>/dev/null | wc -l; ls", "3\ne.csv\nring.json\nring.xml\nv.csv\n")
	s.want("skerry graph list", "GRAPH  VERTICES  EDGES  INDEXES\ng      0         0      0\nring   3         3      0\n")
}
