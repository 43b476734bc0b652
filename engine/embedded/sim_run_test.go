package embedded

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// How many histories a test run simulates. ci/test simulates more.
const (
	simCount = 400
	simShort = 100 // with -short, and so with the race detector
)

// In the environment: SKERRY_SEED=n simulates one seed and prints every event;
// SKERRY_SIM_COUNT is how many histories, SKERRY_SIM_FIRST the first seed, and
// SKERRY_SIM_FOR for how long new seeds are simulated instead of a number.
const (
	simSeedVar  = "SKERRY_SEED"
	simCountVar = "SKERRY_SIM_COUNT"
	simFirstVar = "SKERRY_SIM_FIRST"
	simForVar   = "SKERRY_SIM_FOR"
	simChildVar = "SKERRY_SIM_CHILD" // the test binary is one of several processes
)

// simLastEvents is how many lines of preceding events a failure shows.
const simLastEvents = 80

// seededEntropy replaces crypto/rand, from which the raft library draws its election
// timeouts. A process simulates one history at a time.
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

func simEnv(t *testing.T, name string, def uint64) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, s, err)
	}
	return n
}

// simTotal is the sum of many outcomes.
type simTotal struct {
	Histories, Undecided, Operations, Acknowledged, Unknown uint64
	Elections, Installed, Refused, Events, Virtual          uint64
}

func (s *simTotal) add(o simTotal) {
	s.Histories += o.Histories
	s.Undecided += o.Undecided
	s.Operations += o.Operations
	s.Acknowledged += o.Acknowledged
	s.Unknown += o.Unknown
	s.Elections += o.Elections
	s.Installed += o.Installed
	s.Refused += o.Refused
	s.Events += o.Events
	s.Virtual += o.Virtual
}

func (o *outcome) total() simTotal {
	s := simTotal{
		Histories: 1, Operations: uint64(o.ops), Acknowledged: uint64(o.acked), Unknown: uint64(o.unknown),
		Elections: uint64(o.elections), Installed: uint64(o.installed), Refused: uint64(o.refused),
		Events: o.events, Virtual: uint64(o.virtual / time.Second),
	}
	if o.undecided {
		s.Undecided = 1
	}
	return s
}

func (s simTotal) String() string {
	return fmt.Sprintf("%d histories with %d operations (%d acknowledged, %d unknown), %d terms with a leader, %d snapshots installed, %d batches refused, %d events in %d simulated seconds; %d undecided",
		s.Histories, s.Operations, s.Acknowledged, s.Unknown, s.Elections, s.Installed, s.Refused, s.Events, s.Virtual, s.Undecided)
}

// TestSimulation simulates clusters, each from a separate seed, and checks what their
// clients saw.
func TestSimulation(t *testing.T) {
	if s := os.Getenv(simSeedVar); s != "" {
		takeEntropy(t)
		if o := simulate(simEnv(t, simSeedVar, 0), os.Stdout); o.wrong != "" {
			t.Fatal(o.wrong)
		}
		return
	}
	count := uint64(simCount)
	if testing.Short() {
		count = simShort
	}
	count = simEnv(t, simCountVar, count)
	first := simEnv(t, simFirstVar, 1)
	switch length := os.Getenv(simForVar); {
	case os.Getenv(simChildVar) != "":
		simChild(t, first, count)
	case length != "":
		simSoak(t, length)
	default:
		simMany(t, first, count)
	}
}

// simSoak simulates new seeds for some time.
func simSoak(t *testing.T, length string) {
	d, err := time.ParseDuration(length)
	if err != nil {
		t.Fatalf("%s: %v", simForVar, err)
	}
	began, first := time.Now(), uint64(time.Now().Unix())*1_000_000
	var total simTotal
	for time.Since(began) < d && !t.Failed() {
		total.add(simMany(t, first+total.Histories, 1000))
		fmt.Printf("%v: %v\n", time.Since(began).Round(time.Second), total)
	}
}

// simMany simulates count seeds in as many processes as there are cores.
func simMany(t *testing.T, first, count uint64) (total simTotal) {
	began := time.Now()
	workers := min(uint64(runtime.GOMAXPROCS(0)), count)
	var mu sync.Mutex // guards total
	var running sync.WaitGroup
	for i := range workers {
		from, to := first+count*i/workers, first+count*(i+1)/workers
		running.Go(func() {
			part, err := simProcess(from, to-from)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			total.add(part)
		})
	}
	running.Wait()
	t.Logf("%v, in %v", total, time.Since(began).Round(100*time.Millisecond))
	if total.Undecided > total.Histories/100 {
		t.Errorf("%d of %d histories are undecided", total.Undecided, total.Histories)
	}
	return total
}

// simProcess simulates count seeds in another process.
func simProcess(first, count uint64) (total simTotal, err error) {
	c := exec.Command(os.Args[0], "-test.run=^TestSimulation$", "-test.timeout=0")
	c.Env = append(os.Environ(), simChildVar+"=1", fmt.Sprintf("%s=%d", simFirstVar, first), fmt.Sprintf("%s=%d", simCountVar, count), "GOMAXPROCS=1")
	out, runErr := c.CombinedOutput()
	for line := range bytes.Lines(out) {
		if rest, ok := bytes.CutPrefix(line, []byte(simResult)); ok {
			err = json.Unmarshal(rest, &total)
		}
	}
	if runErr != nil {
		return total, fmt.Errorf("%w\n%s", runErr, out)
	}
	return total, err
}

// simResult begins the line in which a child process reports its results.
const simResult = "simulated: "

func simChild(t *testing.T, first, count uint64) {
	takeEntropy(t)
	var total simTotal
	for seed := first; seed < first+count; seed++ {
		o := simulate(seed, nil)
		if o.wrong != "" {
			t.Error(simFailure(o))
			break
		}
		total.add(o.total())
	}
	b, err := json.Marshal(total)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s%s\n", simResult, b)
}

// simFailure runs a seed again to show what happened before the failure.
func simFailure(o outcome) string {
	r, w := io.Pipe()
	done := make(chan []string)
	go func() {
		var last []string
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if last = append(last, lines.Text()); len(last) > 2*simLastEvents {
				last = append(last[:0], last[simLastEvents:]...)
			}
		}
		_, _ = io.Copy(io.Discard, r)
		done <- last[max(0, len(last)-simLastEvents):]
	}()
	again := simulate(o.seed, w)
	w.Close()
	last := <-done
	tags := ""
	if f := os.Getenv("SKERRY_TEST_FAULT"); f != "" {
		tags = "-tags failpoints "
	}
	same := ""
	if again.wrong != o.wrong {
		same = fmt.Sprintf("\nA second run of the seed ended otherwise: %q", again.wrong)
	}
	return fmt.Sprintf("seed %d: %s\nThe last events:\n%s%s\nAll events: %s=%d go test %s-run '^TestSimulation$' ./engine/embedded",
		o.seed, o.wrong, strings.Join(last, "\n"), same, simSeedVar, o.seed, tags)
}

// TestSimulationRepeats runs seeds twice: both runs must be identical.
func TestSimulationRepeats(t *testing.T) {
	takeEntropy(t)
	for seed := uint64(1); seed <= 8; seed++ {
		a, b := simulate(seed, nil), simulate(seed, io.Discard)
		if a != b {
			t.Errorf("seed %d: %+v, and again %+v", seed, a, b)
		}
	}
}
