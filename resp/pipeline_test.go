package resp_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/resp"
)

// TestPipelineOrder sends the same random commands to two servers, to one in a pipeline and
// to the other one by one. The replies must be the same, in the same order, regardless of
// whether a command runs at once, in a view, in a transaction or fails.
func TestPipelineOrder(t *testing.T) {
	t.Parallel()
	r := seed.Rand(t)
	dial := func() *peer {
		c, err := net.Dial("tcp", startSkerry(t, resp.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return newPeer(c)
	}
	piped, single := dial(), dial()
	for range 40 {
		var cmds [][]string
		for range 1 + r.IntN(40) {
			cmds = append(cmds, anyCommand(r))
		}
		var lines strings.Builder
		for _, cmd := range cmds {
			lines.WriteString(strings.Join(cmd, " ") + "\r\n")
		}
		if _, err := io.WriteString(piped, lines.String()); err != nil { // in one write, so that they are handled together
			t.Fatal(err)
		}
		for i, cmd := range cmds {
			want, err := single.do(cmd...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := piped.receive()
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("command %d of %q: in a pipeline %v (%v), alone %v", i, cmds, got, err, want)
			}
		}
	}
}

// anyCommand returns a command whose reply depends on the commands before it.
func anyCommand(r *rand.Rand) []string {
	key, n := string(rune('a'+r.IntN(3))), strconv.Itoa(r.IntN(1000))
	return strings.Fields([]string{
		"GET " + key, "GET " + key, "STRLEN " + key, "SET " + key + " " + n, "INCR n", "APPEND " + key + " " + n, "DEL " + key,
		"ECHO " + n, "PING " + n, "PING", "GET", "INCR " + key, "NONSENSE " + n, "MULTI", "EXEC", "DISCARD", "EXEC",
		"WATCH " + key, "UNWATCH", "SELECT " + strconv.Itoa(r.IntN(2)), "EXISTS a b c", "MGET a b n", "GETDEL " + key,
	}[r.IntN(23)])
}
