package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/bench/rig"
)

// voteCodec is FCALL vote in RESP2, the same bytes for Skerry and Redis.
type voteCodec struct {
	m *meter
	*ballot
	num [20]byte
}

// AppendGet is not used: every request is a vote.
func (c *voteCodec) AppendGet(b []byte, _ uint64) []byte { return c.AppendSet(b, 0, 0) }

func (c *voteCodec) AppendSet(b []byte, _, _ uint64) []byte {
	phone, contestant := c.next()
	b = append(b, "*6\r\n$5\r\nFCALL\r\n$4\r\nvote\r\n$1\r\n0\r\n$10\r\n"...)
	b = strconv.AppendInt(b, phone, 10)
	text := strconv.AppendInt(c.num[:0], int64(contestant), 10)
	b = append(strconv.AppendInt(append(b, "\r\n$"...), int64(len(text)), 10), "\r\n"...)
	return append(append(b, text...), "\r\n$10\r\n1000000000\r\n"...)
}

func (c *voteCodec) Reply(b []byte, _ bool) (int, error) {
	end := bytes.IndexByte(b, '\n')
	if len(b) > 0 && b[0] != ':' {
		return 0, fmt.Errorf("unexpected reply %q", b[:min(len(b), 200)])
	}
	if end >= 0 {
		c.m.votes.Add(1)
	}
	return end + 1, nil
}

// driveRaw is rig's epoll load generator: one thread, next to no cost per call.
func driveRaw(m *meter) error {
	m.start = time.Now()
	out, err := rig.Run(rig.Job{
		Addrs: []string{m.Addr}, Codec: &voteCodec{m: m, ballot: m.ballot(0)}, Set: true, Shape: rig.Shape{Conns: m.Conns, Flight: m.Flight / m.Conns},
		Keys: 1, Warm: m.Warm, Window: m.Window, Seed: m.Seed, Begin: m.begin, End: m.end,
	})
	m.hists = append(m.hists, &out.Lat)
	return err
}

// callers runs flight goroutines that make calls one after another until the window is over.
func (m *meter) callers(call func(b *ballot) error) error {
	errs := make([]error, m.Flight)
	hists := make([]*rig.Hist, m.Flight/16+1) // one in 16 records latencies: a histogram takes 32 KiB
	for i := range hists {
		hists[i] = m.hist()
	}
	m.start = time.Now()
	var wg sync.WaitGroup
	for i := range m.Flight {
		wg.Go(func() {
			b := m.ballot(i)
			for !m.done.Load() {
				if i%16 != 0 {
					if errs[i] = call(b); errs[i] != nil {
						return
					}
					m.votes.Add(1)
					continue
				}
				counts, from := m.count.Load(), time.Now()
				if errs[i] = call(b); errs[i] != nil {
					return
				}
				m.votes.Add(1)
				if counts && m.count.Load() {
					hists[i/16].Add(time.Since(from))
				}
			}
		})
	}
	m.window()
	wg.Wait()
	return errors.Join(errs...)
}

// driveRueidis is the fastest Go client for Redis, with its defaults, and one blocking call per goroutine.
func driveRueidis(m *meter) error {
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{m.Addr}, ForceSingleClient: true})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := context.Background()
	limit := strconv.Itoa(maxVotes)
	return m.callers(func(b *ballot) error {
		phone, contestant := b.next()
		cmd := c.B().Fcall().Function("vote").Numkeys(0).Arg(strconv.FormatInt(phone, 10), strconv.Itoa(contestant), limit).Build()
		return c.Do(ctx, cmd).Error()
	})
}
