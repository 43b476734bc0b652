package graphson_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/gremlin"
	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

const driverFile = "testdata/gremlinpython.txt"

var rewrite = flag.Bool("rewrite", false, "rewrite what the requests of "+driverFile+" mean")

// describe returns a request's meaning in one line.
func describe(q *message.Request, err error) string {
	if err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s/%s", q.Op, q.Processor)
	for _, name := range []string{"gremlin", "aliases", "session", "bindings", "batchSize"} {
		switch v, ok := q.Args.Get(name); x := v.(type) {
		case *gremlin.Traversal:
			text += " " + x.String()
		default:
			if ok {
				text += " " + name + "=" + value.Text(v)
			}
		}
	}
	return text
}

// TestDriver reads what gremlinpython 3.8.1 wrote: groups of three lines, a name,
// the request and its meaning.
func TestDriver(t *testing.T) {
	b, err := os.ReadFile(driverFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := 0; i+2 < len(lines); i += 3 {
		q, err := graphson.DecodeRequest([]byte(lines[i+1]))
		if got := describe(q, err); *rewrite {
			lines[i+2] = got
		} else if got != lines[i+2] {
			t.Errorf("%s: got\n%s\nwant\n%s", lines[i], got, lines[i+2])
		}
		if q.ID.String() != id {
			t.Errorf("%s: the id is %v", lines[i], q.ID)
		}
		if err != nil {
			continue
		}
		again, err := graphson.AppendRequest(nil, q)
		if err != nil {
			t.Errorf("%s: %v", lines[i], err)
		}
		if q, err = graphson.DecodeRequest(again); describe(q, err) != lines[i+2] {
			t.Errorf("%s: written and read as %s", lines[i], describe(q, err))
		}
	}
	if *rewrite {
		if err := os.WriteFile(driverFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
