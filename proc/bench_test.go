package proc_test

import (
	"context"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// The vote of a telephone poll: three statements.
type (
	voteIn struct {
		Phone      int64 `json:"phone"`
		Contestant int   `json:"contestant"`
		Limit      int64 `json:"limit"`
	}
	voteOut struct {
		Phone int64 `json:"phone"` // votes from it so far
		Total int64 `json:"total"` // votes for the contestant
	}
)

var (
	errNoContestant = engine.Errorf("unknown_contestant", "there is no such contestant")
	errTooManyVotes = engine.Errorf("too_many_votes", "this phone has voted as often as it may")
)

func vote(tx *proc.Tx, in voteIn) (out voteOut, err error) {
	k := tx.KV(0)
	var buf [32]byte
	name := strconv.AppendInt(append(buf[:0], "contestant:"...), int64(in.Contestant), 10)
	if _, ok, err := k.Get(name); err != nil {
		return out, err
	} else if !ok {
		return out, errNoContestant
	}
	phone := strconv.AppendInt(append(buf[:0], "phone:"...), in.Phone, 10)
	if out.Phone, err = k.Add(phone, 1); err != nil {
		return out, err
	}
	if out.Phone > in.Limit {
		return out, errTooManyVotes
	}
	total := strconv.AppendInt(append(buf[:0], "votes:"...), int64(in.Contestant), 10)
	out.Total, err = k.Add(total, 1)
	return out, err
}

// discard is a Sink that counts.
type discard struct{ n int64 }

func (d *discard) Null()             { d.n++ }
func (d *discard) Bool(bool)         { d.n++ }
func (d *discard) Int(int64)         { d.n++ }
func (d *discard) Double(float64)    { d.n++ }
func (d *discard) Bulk([]byte)       { d.n++ }
func (d *discard) BulkString(string) { d.n++ }
func (d *discard) Array(int)         { d.n++ }
func (d *discard) Map(int)           { d.n++ }

const contestants = 6

func newPoll(t testing.TB) *proc.Set {
	s := newSet(t, proc.Options{}, proc.Define("vote", vote), proc.Define("put", put))
	for i := range contestants {
		if _, err := call(t, s, "put", fmt.Sprintf("contestant:%d", i), "name"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// poll is a connection that sends batches of votes: text in, values out.
type poll struct {
	set    *proc.Set
	sink   discard
	name   []byte
	args   [3][]byte
	list   [][]byte
	seq    uint64
	phones uint64
}

func newPoller(s *proc.Set, phones uint64) *poll {
	return &poll{set: s, name: []byte("vote"), list: make([][]byte, 3), phones: phones}
}

// one runs one vote in tx.
func (p *poll) one(tx engine.Tx, _ int) error {
	p.seq++
	p.args[0] = strconv.AppendUint(p.args[0][:0], 5_550_000_000+p.seq*0x9e3779b97f4a7c15>>32%p.phones, 10)
	p.args[1] = strconv.AppendUint(p.args[1][:0], p.seq%contestants, 10)
	p.args[2] = append(p.args[2][:0], "1000000"...)
	p.list = append(p.list[:0], p.args[0], p.args[1], p.args[2])
	c, err := p.set.Begin(p.name)
	if err != nil {
		return err
	}
	defer c.End()
	if err := c.Arguments(p.list); err != nil {
		return err
	}
	if err := c.Run(tx); err != nil {
		return err
	}
	return c.Write(&p.sink)
}

// BenchmarkVote measures the procedure alone, with its arguments and its result, in batches
// as a RESP connection passes them on, on an in-memory disk.
func BenchmarkVote(b *testing.B) {
	for _, phones := range []uint64{10_000, 1_000_000} {
		b.Run(fmt.Sprint(phones), func(b *testing.B) {
			s := newPoll(b)
			p := newPoller(s, phones)
			batch := func(n int) {
				if _, err := engine.UpdateEach(context.Background(), s.Engine(), n, p.one); err != nil {
					b.Fatal(err)
				}
			}
			for range phones / 1000 * 2 { // most phones exist then
				batch(1000)
			}
			b.ReportAllocs()
			b.ResetTimer()
			from := cpuTime(b)
			for n := 0; n < b.N; n += 512 {
				batch(min(512, b.N-n))
			}
			used := cpuTime(b) - from
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "votes/s")
			b.ReportMetric(float64(b.N)/used.Seconds(), "votes/cpu-s")
		})
	}
}

// cpuTime returns the CPU time of the process. On a machine with other load, it is more
// meaningful than elapsed time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCall measures the overhead of proc: it calls a procedure that does nothing.
func BenchmarkCall(b *testing.B) {
	s := newSet(b, proc.Options{}, proc.Define("vote", func(_ *proc.Tx, in voteIn) (voteOut, error) { return voteOut{in.Phone, in.Limit}, nil }))
	p := newPoller(s, 1000)
	b.ReportAllocs()
	if _, err := s.Engine().Update(context.Background(), func(tx engine.Tx) error {
		for b.Loop() {
			if err := p.one(tx, 0); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}
