package graphson_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/graph/graphson"
	"github.com/skerrydb/skerry/graph/message/messagetest"
)

const driverFile = "testdata/gremlinpython.txt"

var rewrite = flag.Bool("rewrite", false, "rewrite what the requests of "+driverFile+" mean")

func codec(f graphson.Format) messagetest.Codec {
	return messagetest.Codec{
		Verb:   "%s",
		Decode: graphson.Decode, Append: f.Append,
		DecodeRequest: graphson.DecodeRequest, AppendRequest: graphson.AppendRequest,
		DecodeResponse: graphson.DecodeResponse, AppendResponse: f.AppendResponse,
		AppendItem: f.AppendItem, AppendItems: f.AppendItems,
	}
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
		if *rewrite {
			lines[i+2] = messagetest.Describe(graphson.DecodeRequest([]byte(lines[i+1])))
		}
		if q := codec(graphson.Typed).Request(t, lines[i], []byte(lines[i+1]), lines[i+2]); q.ID.String() != id {
			t.Errorf("%s: the id is %v", lines[i], q.ID)
		}
	}
	if *rewrite {
		if err := os.WriteFile(driverFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
