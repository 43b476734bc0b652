package rig

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// This is the minimum of gRPC over HTTP/2 that puts and reads one key: constant headers, one DATA frame per
// request, and only the ends of replies are examined. It shows what etcd can do when its client costs next to
// nothing. Frames and flags: RFC 9113, header fields: RFC 7541, messages:
// https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
const (
	frameData         = 0
	frameHeaders      = 1
	frameReset        = 3
	frameSettings     = 4
	framePing         = 6
	frameGoAway       = 7
	flagAck           = 1
	flagEndStream     = 1
	flagEndHeaders    = 4
	frameHeadBytes    = 9
	maxWindow         = 1<<31 - 1
	defaultWindow     = 1<<16 - 1
	grpcPrefixBytes   = 5
	maxLeanConcurrent = 1 << 10 // streams in flight on one connection; a power of two
)

// leanGRPC is one connection with many calls in flight.
type leanGRPC struct {
	net.Conn
	Job
	head  []byte // the encoded header fields of every call
	rnd   *rand.PCG
	out   []byte
	next  uint32 // the next stream
	sent  [maxLeanConcurrent]time.Duration
	data  int64 // DATA frames seen; one per successful call
	ends  int64
	start time.Time
	hist  Hist
}

func dialLean(j Job, id uint64) (*leanGRPC, error) {
	addr := j.Addrs[id%uint64(len(j.Addrs))]
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return nil, err
	}
	path := "/etcdserverpb.KV/Range"
	if j.Set {
		path = "/etcdserverpb.KV/Put"
	}
	head := []byte{0x83, 0x86} // :method POST, :scheme http
	for _, f := range []struct {
		name  []byte // a literal field without indexing; its name as an index or in full
		value string
	}{
		{[]byte{0x04}, path},                     // :path
		{[]byte{0x01}, addr},                     // :authority
		{[]byte{0x0f, 0x10}, "application/grpc"}, // content-type
		{[]byte{0x00, 2, 't', 'e'}, "trailers"},  // te
	} {
		head = append(append(append(head, f.name...), byte(len(f.value))), f.value...)
	}
	l := &leanGRPC{Conn: c, Job: j, head: head, rnd: rand.NewPCG(j.Seed, id), next: 1}
	l.out = append(l.out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"...)
	l.frame(frameSettings, 0, 0, nil)
	l.frame(8, 0, 0, binary.BigEndian.AppendUint32(nil, maxWindow-defaultWindow)) // WINDOW_UPDATE
	return l, nil
}

func (l *leanGRPC) frame(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	l.out = append(l.out, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	l.out = append(binary.BigEndian.AppendUint32(l.out, stream), payload...)
}

// call appends one request to the output.
func (l *leanGRPC) call(now time.Duration) {
	key := l.rnd.Uint64() % l.Keys
	msg := make([]byte, grpcPrefixBytes, 160)
	msg = AppendKey(append(msg, 0x0a, KeyBytes), key) // field 1: key
	if l.Set {
		msg = AppendVal(append(msg, 0x12, ValBytes), l.rnd.Uint64()) // field 2: value
	}
	msg[grpcPrefixBytes-1] = byte(len(msg) - grpcPrefixBytes)
	l.frame(frameHeaders, flagEndHeaders, l.next, l.head)
	l.frame(frameData, flagEndStream, l.next, msg)
	l.sent[l.next>>1%maxLeanConcurrent] = now
	l.next += 2
}

func (l *leanGRPC) run(start time.Time) error {
	defer l.Close()
	l.start = start
	for range l.Shape.Flight {
		l.call(time.Since(start))
	}
	r := bufio.NewReaderSize(l, 64<<10)
	flight, end := l.Shape.Flight, l.Warm+l.Window
	for flight > 0 {
		if _, err := l.Write(l.out); err != nil {
			return err
		}
		l.out = l.out[:0]
		l.SetReadDeadline(start.Add(end + drainTime))
		for more := true; more; more = r.Buffered() >= frameHeadBytes {
			ended, err := l.read(r)
			if err != nil {
				return err
			}
			if ended {
				if now := time.Since(start); now < end {
					l.call(now)
				} else {
					flight--
				}
			}
		}
	}
	return nil
}

// read reads one frame and reports whether it ended a call.
func (l *leanGRPC) read(r *bufio.Reader) (ended bool, err error) {
	var h [frameHeadBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return false, err
	}
	n, kind, flags := int(h[0])<<16|int(h[1])<<8|int(h[2]), h[3], h[4]
	stream := binary.BigEndian.Uint32(h[5:])
	if kind == framePing && flags&flagAck == 0 {
		var b [8]byte
		_, err := io.ReadFull(r, b[:])
		l.frame(framePing, flagAck, 0, b[:])
		return false, err
	}
	if _, err := r.Discard(n); err != nil {
		return false, err
	}
	switch kind {
	case frameReset, frameGoAway:
		return false, fmt.Errorf("etcd refused a call (frame type %d)", kind)
	case frameSettings:
		if flags&flagAck == 0 {
			l.frame(frameSettings, flagAck, 0, nil)
		}
	case frameData:
		if l.data++; !l.Set && n < grpcPrefixBytes+KeyBytes+ValBytes {
			return false, fmt.Errorf("reply of %d bytes does not hold the value", n)
		}
	case frameHeaders:
		if flags&flagEndStream == 0 {
			return false, nil
		}
		if l.ends++; l.ends > l.data {
			return false, errors.New("a call ended without a message: it failed")
		}
		sent := l.sent[stream>>1%maxLeanConcurrent]
		if now := time.Since(l.start); now > l.Warm && now <= l.Warm+l.Window {
			l.hist.Add(now - sent)
		}
		return true, nil
	}
	return false, nil
}

// RunLean runs the job on etcd's gRPC with the lean client: one goroutine per connection.
func RunLean(j Job) (Outcome, error) {
	links := make([]*leanGRPC, j.Shape.Conns)
	for i := range links {
		l, err := dialLean(j, uint64(i))
		if err != nil {
			return Outcome{}, err
		}
		defer l.Close()
		links[i] = l
	}
	errs := make([]error, len(links))
	start := time.Now()
	var wg sync.WaitGroup
	for i, l := range links {
		wg.Go(func() { errs[i] = l.run(start) })
	}
	time.Sleep(time.Until(start.Add(j.Warm)))
	j.Begin()
	time.Sleep(time.Until(start.Add(j.Warm + j.Window)))
	j.End()
	wg.Wait()
	out := Outcome{Took: j.Window}
	for _, l := range links {
		out.Lat.Merge(&l.hist)
	}
	out.Ops = out.Lat.Count
	return out, errors.Join(errs...)
}
