package resp_test

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/redisserver"
)

var rewrite = flag.Bool("rewrite", false, "record the transcripts again from the real redis-server")

// TestTranscriptsOnRedis checks the transcripts against Redis.
func TestTranscriptsOnRedis(t *testing.T) {
	plain := redisserver.InMemory(t)
	for _, s := range scripts(t) {
		t.Run(s.name, func(t *testing.T) {
			addr := plain
			if s.password != "" {
				addr = redisserver.InMemory(t, "--requirepass", s.password)
			}
			got := map[int][]played{}
			for _, proto := range []int{2, 3} {
				if s.only == 0 || s.only == proto {
					flushAll(t, addr, s.password)
					got[proto] = playScript(t, s, proto, false, tcp(addr))
				}
			}
			if *rewrite {
				path := filepath.Join("testdata", s.name+".txt")
				if err := os.WriteFile(path, []byte(s.rewrite(got)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func scripts(t *testing.T) []*script {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts in testdata: %v", err)
	}
	var all []*script
	for _, p := range paths {
		s, err := parseScript(p)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func tcp(addr string) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", addr, 5*time.Second) }
}

func flushAll(t *testing.T, addr, password string) {
	t.Helper()
	c, err := tcp(addr)()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := newPeer(c)
	if password != "" {
		p.do("AUTH", password)
	}
	if v, err := p.do("FLUSHALL"); err != nil || v.kind != '+' {
		t.Fatalf("FLUSHALL: %q %v", v.lines(), err)
	}
}

// playScript runs s and compares. It returns the reply to every step.
func playScript(t *testing.T, s *script, proto int, skerry bool, dial func() (net.Conn, error)) []played {
	t.Helper()
	pl := newPlayer(proto, dial)
	defer pl.close()
	all := make([]played, len(s.steps))
	for i := range s.steps {
		st := &s.steps[i]
		if st.only != 0 && st.only != proto || skerry && st.skip {
			all[i].ok = true
			continue
		}
		all[i].lines = pl.play(st)
		why := st.differs(pl, skerry, all[i].lines)
		if all[i].ok = why == ""; !all[i].ok && (skerry || !*rewrite) {
			t.Errorf("testdata/%s.txt:%d: RESP%d: %s\n%s", s.name, st.line, proto, st.src, why)
		}
	}
	for name, p := range pl.peers {
		if v, has, _ := p.push(false); has {
			t.Errorf("%s, RESP%d: connection %s has a push that no step takes: %q", s.name, proto, name, v.lines())
		}
	}
	return all
}

// differs describes how got differs from the reply in the transcript, or returns "".
func (st *step) differs(pl *player, skerry bool, got []string) string {
	want := pl.expand(forProtocol(st.want, pl.proto))
	if skerry && st.reason != "" {
		same := matchReply(want, got)
		want = pl.expand(forProtocol(st.skerry, pl.proto))
		if same && !matchReply(want, got) {
			return "Skerry now replies as Redis does; remove the marked deviation"
		}
	}
	if matchReply(want, got) {
		return ""
	}
	return " got  " + strings.Join(got, "\n      ") + "\n want " + strings.Join(want, "\n      ")
}
