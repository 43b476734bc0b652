package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// started runs a system in a temporary folder, with its keys loaded.
func started(t *testing.T, program, debianPackage string, make func(path string) *system, keys uint64) *system {
	t.Helper()
	path, err := rig.Need(program, debianPackage)
	if err != nil {
		if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	s := make(path)
	s.dir = t.TempDir() + "/data"
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	if _, err := s.start(nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err = s.figures(s); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	if err := s.fill(s, keys); err != nil {
		t.Fatal(err)
	}
	return s
}

// measured runs one job and checks that its results are consistent.
func measured(t *testing.T, s *system, l *lane, sh rig.Shape, set bool, keys uint64) {
	t.Helper()
	const window = 150 * time.Millisecond
	began, ended := time.Time{}, time.Time{}
	out, err := l.run(s, rig.Job{
		Set: set, Shape: sh, Keys: keys, Warm: 50 * time.Millisecond, Window: window, Seed: 1,
		Begin: func() { began = time.Now() }, End: func() { ended = time.Now() },
	})
	if err != nil {
		t.Fatalf("%s %s %v: %v", s.name, l.name, sh, err)
	}
	if d := ended.Sub(began); out.Took < window || out.Took > d+window || d < window-window/10 { // begun late by a little, on a busy machine
		t.Errorf("%s %s: the window took %v by its count, %v by the clock", s.name, l.name, out.Took, d)
	}
	if out.Ops == 0 || out.Lat.Count > out.Ops || out.Lat.Count < out.Ops-int64(sh.Conns*sh.Flight) {
		t.Errorf("%s %s %v: %d operations, %d latencies", s.name, l.name, sh, out.Ops, out.Lat.Count)
	}
	if p50 := out.Lat.Quantile(0.5); p50 <= 0 || p50 > out.Lat.Max {
		t.Errorf("%s %s: p50 %v, max %v", s.name, l.name, p50, out.Lat.Max)
	}
}

func TestRedisIsLoadedAndMeasured(t *testing.T) {
	const keys = 10_007
	s := started(t, "redis-server", "redis-server", func(path string) *system { return newRedis(path, nil) }, keys)
	size, err := rig.Ask(s.ports[0], []byte("*1\r\n$6\r\nDBSIZE\r\n"), func(b []byte) (bool, error) { return bytes.HasSuffix(b, []byte("\r\n")), nil })
	if err != nil || string(size) != ":"+strconv.Itoa(keys)+"\r\n" {
		t.Fatalf("after the load: %q, %v", size, err)
	}
	for _, sh := range []rig.Shape{{Conns: 1, Flight: 1}, {Conns: 64, Flight: 1}, {Conns: 3, Flight: 64}} {
		measured(t, s, s.lanes[0], sh, false, keys)
		measured(t, s, s.lanes[0], sh, true, keys)
	}
	// A key that is not there must fail the run, not speed it up.
	_, err = s.lanes[0].run(s, rig.Job{Shape: rig.Shape{Conns: 1, Flight: 1}, Keys: 1 << 40, Window: time.Second, Seed: 1, Begin: func() {}, End: func() {}})
	if err == nil {
		t.Error("reads of missing keys were counted")
	}
}

func TestEtcdIsLoadedAndMeasured(t *testing.T) {
	const keys = 1_003
	s := started(t, "etcd", "etcd-server", func(path string) *system { return newEtcd(path, nil, nil) }, keys)
	for _, l := range s.lanes {
		sh := rig.Shape{Conns: 3, Flight: 16}
		if l.name == "HTTP" {
			sh.Flight = 1
		}
		measured(t, s, l, sh, false, keys)
		measured(t, s, l, sh, true, keys)
		if l.name == "gRPC" {
			continue // clientv3 reports a missing key itself
		}
		_, err := l.run(s, rig.Job{Shape: rig.Shape{Conns: 1, Flight: 1}, Keys: 1 << 40, Window: time.Second, Seed: 1, Begin: func() {}, End: func() {}})
		if err == nil {
			t.Errorf("%s: reads of missing keys were counted", l.name)
		}
	}
}
