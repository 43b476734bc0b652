package disk

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// step is a call in a random history. Its number is part of values and positions, so that
// what comes back tells when it was written.
type step struct {
	kind byte // p, d, m, f, s
	key  string
}

// generator makes the histories of one seed, the same in every process.
type generator struct {
	r     *rand.Rand
	steps []step
}

func newGenerator(seed uint64) *generator {
	return &generator{r: rand.New(rand.NewPCG(seed, 1))}
}

// next makes one random call.
func (g *generator) next(s *Store) {
	key, size, kind := fmt.Sprint("k", g.r.IntN(60)), g.r.IntN(300), byte('f')
	switch n := g.r.IntN(1000); {
	case n < 600:
		kind = 'p'
	case n < 900:
		kind = 'd'
	case n < 960:
		kind = 'm'
	case n < 998:
		kind = 's'
	}
	g.call(s, kind, key, size)
}

// call makes one call. A nil store only remembers it.
func (g *generator) call(s *Store, kind byte, key string, size int) {
	i := len(g.steps)
	if kind != 'p' && kind != 'd' {
		key = ""
	}
	g.steps = append(g.steps, step{kind, key})
	if s == nil {
		return
	}
	switch kind {
	case 'p':
		s.Put(key, g.value(i, size))
	case 'd':
		s.Delete(key)
	case 'm':
		s.Mark(fmt.Sprint(i))
	case 's':
		s.Sync() // its error is a matter of the test
	case 'f':
		s.Flush()
	}
}

func (g *generator) value(i, size int) []byte {
	return fmt.Appendf(nil, "%d %s", i, strings.Repeat(strconv.Itoa(i)+",", size/4))
}

// check compares a reopened store with the rule: no entry whose key was deleted or
// replaced between its Put and the mark, and none without a mark.
func (g *generator) check(t *testing.T, s *Store) {
	t.Helper()
	mark := s.Marked()
	if mark == "" {
		if n := s.Stats().Entries; n > 0 {
			t.Errorf("%d entries without a mark", n)
		}
		return
	}
	m, err := strconv.Atoi(mark)
	if err != nil || m >= len(g.steps) || g.steps[m].kind != 'm' {
		t.Fatalf("the mark is %q", mark)
	}
	for k := range 60 {
		key := fmt.Sprint("k", k)
		v, ok := s.Get(nil, key)
		if !ok {
			continue
		}
		number, rest, _ := strings.Cut(string(v), " ")
		p, err := strconv.Atoi(number)
		if err != nil || p >= len(g.steps) || g.steps[p] != (step{'p', key}) || strings.ReplaceAll(rest, number+",", "") != "" {
			t.Fatalf("%s is %.30q, which was not written to it", key, v)
		}
		for i := p + 1; i < m; i++ {
			if st := g.steps[i]; st.kind == 'f' || st.key == key && (st.kind == 'd' || st.kind == 'p') {
				t.Fatalf("mark %d came back with %s from call %d, but call %d was %c", m, key, p, i, st.kind)
			}
		}
	}
}

// resume does what the rule asks of whoever resumes the feed at the mark: it drops what
// has changed since.
func (g *generator) resume(s *Store) {
	m, err := strconv.Atoi(s.Marked())
	if err != nil {
		return // an empty store
	}
	for _, st := range g.steps[m:] {
		switch st.kind {
		case 'p', 'd':
			s.Delete(st.key)
			g.steps = append(g.steps, step{'d', st.key})
		case 'f':
			s.Flush()
			g.steps = append(g.steps, step{kind: 'f'})
		}
	}
}
