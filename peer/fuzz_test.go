package peer

import (
	"bufio"
	"bytes"
	"io"
	"net/url"
	"testing"
)

func FuzzFrames(f *testing.F) {
	f.Add(appendFrame(appendFrame(nil, frameMessage, []byte("m")), framePing, make([]byte, 8)))
	long := pattern(3000)
	f.Add(appendFrame(appendFirst(nil, long, 1000), frameMore, long[1000:]))
	f.Add([]byte{0, 0, 4, 0, frameFirst, 255, 255, 255, 255, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := frames{r: bufio.NewReader(bytes.NewReader(b)), limit: 1 << 20, ping: func(uint64) {}}
		got := 0
		for {
			msg, err := r.next()
			if cap(r.long) > 2*len(b)+pieceBytes {
				t.Fatalf("%d bytes of memory for %d that came", cap(r.long), len(b))
			}
			if err != nil {
				return
			}
			if got += len(msg); got > len(b) {
				t.Fatal("more came out than in")
			}
		}
	})
}

func FuzzChunks(f *testing.F) {
	f.Add(append(appendBlob(nil, []byte("meta")), 0, 0, 0, 0, 0, 0, 0, 0))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, meta, err := newChunks(bytes.NewReader(b))
		if err != nil {
			return
		}
		data, err := io.ReadAll(c)
		if len(meta)+len(data) > len(b) {
			t.Fatal("more came out than in")
		}
		if err == nil && len(b) < 4+len(meta)+len(data)+chunkHead {
			t.Fatal("whole without an end")
		}
		readVerdict(bytes.NewReader(b))
	})
}

func FuzzInvitation(f *testing.F) {
	text, err := identities(f, 1)[0].Invite()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, b []byte) {
		if inv, err := parseInvitation(b); err == nil && (inv.Node == 0 || !isClusterID(inv.Cluster)) {
			t.Fatalf("%+v", inv)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("skerry://0123456789abcdef0123456789abcdef/node/3")
	f.Add("v1.2.3-rc1")
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := url.Parse(s); err == nil {
			if cluster, node, ok := parseURI(u); ok && uri(cluster, node).String() != u.String() {
				t.Fatalf("%q was read as %q", s, uri(cluster, node))
			}
		}
		if err := compatible(s, s); err != nil {
			t.Fatal(err)
		}
	})
}
