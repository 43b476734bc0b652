package peer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// taker takes snapshots in as a node would.
type taker struct {
	meta, data []byte
	from       uint64
	err        error // of the stream
	done       chan struct{}
}

func (k *taker) take(_ context.Context, from uint64, meta []byte, r io.Reader) error {
	defer close(k.done)
	k.from, k.meta = from, meta
	k.data, k.err = io.ReadAll(r)
	return k.err
}

func newTaker() *taker { return &taker{done: make(chan struct{})} }

func TestSnapshot(t *testing.T) {
	ids := identities(t, 2)
	for _, n := range []int{0, 1, chunkBytes, chunkBytes + 1, 20<<20 + 3} {
		k := newTaker()
		a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) { o.Snapshot = k.take })
		a.SetPeers(map[uint64]string{2: b.Addr()})
		if err := a.SendSnapshot(withTimeout(t), 2, []byte("about"), &repeating{n: n}); err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if k.from != 1 || string(k.meta) != "about" || !bytes.Equal(k.data, pattern(n)) {
			t.Errorf("%d bytes: from node %d, meta %q, %d bytes", n, k.from, k.meta, len(k.data))
		}
		a.Close()
		b.Close()
	}
}

// TestSnapshotErrors: the sender learns what went wrong at the receiver, while it
// still sends and after, with code and text.
func TestSnapshotErrors(t *testing.T) {
	ids := identities(t, 2)
	diskFull := errors.New("no space left on device")
	for _, c := range []struct {
		name string
		take func(ctx context.Context, from uint64, meta []byte, r io.Reader) error
		want string
	}{
		{"at once", func(context.Context, uint64, []byte, io.Reader) error { return diskFull }, diskFull.Error()},
		{"in the middle", func(_ context.Context, _ uint64, _ []byte, r io.Reader) error {
			io.CopyN(io.Discard, r, 3<<20)
			return diskFull
		}, diskFull.Error()},
		{"at the end", func(_ context.Context, _ uint64, _ []byte, r io.Reader) error {
			io.Copy(io.Discard, r)
			return diskFull
		}, diskFull.Error()},
		{"long text", func(context.Context, uint64, []byte, io.Reader) error {
			return errors.New(strings.Repeat("\x00", 1<<20))
		}, strings.Repeat("\x00", maxTextBytes) + "…"},
		{"nothing read, no error", func(context.Context, uint64, []byte, io.Reader) error { return nil }, ""},
	} {
		a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) {
			o.Snapshot = c.take
			o.Explain = func(err error) (string, string) { return "disk_full", err.Error() }
		})
		a.SetPeers(map[uint64]string{2: b.Addr()})
		err := a.SendSnapshot(withTimeout(t), 2, nil, &repeating{n: 40 << 20})
		remote, ok := errors.AsType[*RemoteError](err)
		if c.want == "" && err != nil || c.want != "" && (!ok || remote.Code != "disk_full" || remote.Text != c.want) {
			t.Errorf("%s: %.200v", c.name, err)
		}
		a.Close()
		b.Close()
	}
}

type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err == io.EOF {
		err = f.err
	}
	return n, err
}

// TestSnapshotCut: the receiver never takes a part for the whole.
func TestSnapshotCut(t *testing.T) {
	ids := identities(t, 2)
	broken := errors.New("the sender's disk")
	cases := map[string]func(a *running, via *proxy) error{
		"source fails": func(a *running, _ *proxy) error {
			err := a.SendSnapshot(withTimeout(t), 2, nil, &failing{&repeating{n: 5 << 20}, broken})
			if !errors.Is(err, broken) {
				return err
			}
			return nil
		},
		"context ends": func(a *running, _ *proxy) error {
			ctx, cancel := context.WithCancel(context.Background())
			err := a.SendSnapshot(ctx, 2, nil, io.MultiReader(&repeating{n: 5 << 20}, readFunc(func([]byte) (int, error) {
				cancel()
				time.Sleep(50 * time.Millisecond) // kill runs in a goroutine of its own
				return 1, nil
			})))
			if !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		},
		"connection cut": func(a *running, via *proxy) error {
			err := a.SendSnapshot(withTimeout(t), 2, nil, io.MultiReader(&repeating{n: 5 << 20}, readFunc(func([]byte) (int, error) {
				via.cut()
				return 0, io.EOF
			})))
			if err == nil {
				return errors.New("no error")
			}
			return nil
		},
	}
	for name, run := range cases {
		k := newTaker()
		a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) { o.Snapshot = k.take })
		via := newProxy(t, b.Addr())
		a.SetPeers(map[uint64]string{2: via.Addr().String()})
		if err := run(a, via); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		<-k.done
		if k.err == nil {
			t.Errorf("%s: the receiver accepted %d bytes as the whole snapshot", name, len(k.data))
		}
		a.Close()
		b.Close()
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// TestSnapshotCorrupt: a stream that was changed inside TLS, where only a faulty
// program or memory can do it, is refused, and the sender gets an error.
func TestSnapshotCorrupt(t *testing.T) {
	ids := identities(t, 2)
	k := newTaker()
	a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) { o.Snapshot = k.take })
	a.SetPeers(map[uint64]string{2: b.Addr()})
	c, err := a.dial(withTimeout(t), 2, ProtocolSnap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	stream := appendBlob(nil, []byte("about"))
	stream = append(stream, 4, 0, 0, 0, 1, 2, 3, 4, 'd', 'a', 't', 'a')
	if err := c.writeAll(stream); err != nil {
		t.Fatal(err)
	}
	err = readVerdict(c.Conn)
	if remote, ok := errors.AsType[*RemoteError](err); !ok || remote.Code != CodeCorrupt {
		t.Errorf("the sender: %v", err)
	}
	<-k.done
	if _, ok := errors.AsType[*CorruptError](k.err); !ok {
		t.Errorf("the receiver: %v", k.err)
	}
}

// TestSnapshotLimits: meta data over the limit, at both ends, and more snapshots
// than are taken in at once.
func TestSnapshotLimits(t *testing.T) {
	ids := identities(t, 2)
	goOn := make(chan struct{})
	began := make(chan struct{}, MaxSnapshots)
	a, b := open(t, ids[0], nil), open(t, ids[1], func(o *Options) {
		o.Snapshot = func(context.Context, uint64, []byte, io.Reader) error {
			began <- struct{}{}
			<-goOn
			return nil
		}
	})
	a.SetPeers(map[uint64]string{2: b.Addr()})
	if err := a.SendSnapshot(withTimeout(t), 3, nil, nil); !errors.Is(err, ErrNoPeer) {
		t.Errorf("to an unknown node: %v", err)
	}
	err := a.SendSnapshot(withTimeout(t), 2, make([]byte, MaxMetaBytes+1), nil)
	if _, ok := errors.AsType[*LimitError](err); !ok {
		t.Errorf("meta data too long: %v", err)
	}
	c, err := a.dial(withTimeout(t), 2, ProtocolSnap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.Conn.Write([]byte{0xff, 0xff, 0xff, 0xff}); err == nil {
		err = readVerdict(c.Conn)
	}
	if remote, ok := errors.AsType[*RemoteError](err); !ok || remote.Code != CodeLimit {
		t.Errorf("a sender that does not care: %v", err)
	}
	c.kill()
	results := make(chan error, MaxSnapshots)
	for range MaxSnapshots {
		go func() { results <- a.SendSnapshot(withTimeout(t), 2, nil, &repeating{n: 100}) }()
	}
	for range MaxSnapshots {
		<-began
	}
	err = a.SendSnapshot(withTimeout(t), 2, nil, &repeating{n: 100})
	if remote, ok := errors.AsType[*RemoteError](err); !ok || remote.Code != CodeBusy {
		t.Errorf("one more: %v", err)
	}
	close(goOn)
	for range MaxSnapshots {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// TestSnapshotSilence: a sender and a receiver that do not hear of each other any
// more give up, and a receiver that is slow but alive is waited for.
func TestSnapshotSilence(t *testing.T) {
	ids := identities(t, 2)
	k := newTaker()
	quick := func(o *Options) {
		o.IdleTimeout, o.StallTimeout = 600*time.Millisecond, 600*time.Millisecond
		o.Snapshot = func(ctx context.Context, from uint64, meta []byte, r io.Reader) error {
			err := k.take(ctx, from, meta, r)
			time.Sleep(1500 * time.Millisecond) // longer than either timeout
			return err
		}
	}
	a, b := open(t, ids[0], quick), open(t, ids[1], quick)
	via := newProxy(t, b.Addr())
	a.SetPeers(map[uint64]string{2: via.Addr().String()})
	if err := a.SendSnapshot(withTimeout(t), 2, nil, &repeating{n: 1 << 20}); err != nil {
		t.Errorf("a slow receiver: %v", err)
	}
	k = newTaker()
	err := a.SendSnapshot(withTimeout(t), 2, nil, io.MultiReader(&repeating{n: 1 << 20}, readFunc(func(b []byte) (int, error) {
		via.hold(true)
		return copy(b, "more"), nil
	})))
	if err == nil || isRemote(err) {
		t.Errorf("a silent receiver: %v", err)
	}
	select {
	case <-k.done:
		if k.err == nil {
			t.Error("the receiver accepted an incomplete snapshot")
		}
	case <-time.After(10 * time.Second): // the silence came before it had begun
	}
}
