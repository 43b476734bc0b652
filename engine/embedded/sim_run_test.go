package embedded

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

// seededEntropy stands in for crypto/rand, which the raft library draws its
// election timeouts from.
type seededEntropy struct {
	mu sync.Mutex // guards r
	r  *mathrand.ChaCha8
}

var entropy = &seededEntropy{}

func (e *seededEntropy) reset(seed uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	e.r = mathrand.NewChaCha8(key)
}

func (e *seededEntropy) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.r.Read(p)
}

// takeEntropy replaces crypto/rand until the test ends, which must not be parallel.
func takeEntropy(t *testing.T) {
	entropy.reset(0)
	real := rand.Reader
	rand.Reader = entropy
	t.Cleanup(func() { rand.Reader = real })
}

func simEnv(t *testing.T, name string, def int) int {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, s, err)
	}
	return n
}

// TestSimulation runs many seeds. SKERRY_SEED=n runs one, and shows all of it.
func TestSimulation(t *testing.T) {
	takeEntropy(t)
	if s := os.Getenv("SKERRY_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if o := simulate(seed, os.Stdout); o.wrong != "" {
			t.Fatal(o.wrong)
		}
		return
	}
	first, count := simEnv(t, "SKERRY_SIM_FIRST", 1), simEnv(t, "SKERRY_SIM_COUNT", 100)
	var sum outcome
	undecided := 0
	var began = time.Now()
	for seed := first; seed < first+count; seed++ {
		o := simulate(uint64(seed), nil)
		if o.wrong != "" {
			var b bytes.Buffer
			again := simulate(uint64(seed), &b)
			lines := bytes.Split(b.Bytes(), []byte("\n"))
			t.Errorf("seed %d: %s\nlast events:\n%s\n(again: %v)\n  replay: SKERRY_SEED=%d go test -run '^TestSimulation$' ./engine/embedded", seed, o.wrong,
				bytes.Join(lines[max(0, len(lines)-60):], []byte("\n")), again.sum == o.sum, seed)
			return
		}
		if o.undecided {
			undecided++
		}
		sum.ops += o.ops
		sum.acked += o.acked
		sum.unknown += o.unknown
		sum.elections += o.elections
		sum.installed += o.installed
		sum.refused += o.refused
		sum.virtual += o.virtual
		sum.events += o.events
	}
	t.Logf("%d histories, %d undecided, %v each: %+v", count, undecided, time.Since(began)/time.Duration(count), sum)
}
