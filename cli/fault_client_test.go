package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/workload/history"
)

// opWait is how long a client waits for one reply: less than a server would wait for a leader, so that the
// client's own timeout is tested too.
const opWait = 3 * time.Second

// redisClient is a client library of the Redis protocol. None of them repeats a
// write by itself here: what they may do by default, and a history could not tell
// from a fault of the store.
type redisClient interface {
	// do runs one command.
	do(ctx context.Context, args ...string) (any, error)
	// transact WATCHes keys, reads them, and runs the commands that plan
	// makes of their values between MULTI and EXEC. sent is called right before
	// those leave. The replies are nil if a key was changed by others. An error
	// from before sent is given as errNotSent.
	transact(ctx context.Context, keys []string, plan func(vals []any) [][]string, sent func()) ([]any, error)
	close()
}

// errNotSent wraps errors that came before anything was sent that writes.
type errNotSent struct{ error }

// serverError is the text of an error reply, or the code of an HTTP problem in
// brackets.
type serverError string

func (e serverError) Error() string { return string(e) }

// outcomeOf says what an error means for a write. known is false for a reply that
// the servers should not have given.
func outcomeOf(err error) (out history.Outcome, known bool) {
	if err == nil {
		return history.OK, true
	}
	if errors.As(err, new(errNotSent)) {
		return history.Fail, true
	}
	if reply, ok := errors.AsType[serverError](err); ok {
		_, code, _ := strings.Cut(string(reply), "[")
		switch strings.TrimSuffix(code, "]") {
		case "not_leader", "queue_full", "closed", "conflict", "fenced", "position_timeout", "canceled":
			return history.Fail, true
		case "outcome_unknown":
			return history.Unknown, true
		}
		if strings.HasPrefix(string(reply), "MOVED ") || strings.HasPrefix(string(reply), "EXECABORT ") {
			return history.Fail, true
		}
		return history.Unknown, false
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return history.Fail, true
	}
	return history.Unknown, true
}

// silenceGoRedis keeps go-redis from printing what it could not connect to. It
// has one logger for the process.
var silenceGoRedis = sync.OnceFunc(func() { redis.SetLogger(silence{}) })

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// goRedis is go-redis, its plain client or its cluster client.
type goRedis struct{ redis.UniversalClient }

func newGoRedis(addr string) goRedis {
	return goRedis{redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second, ReadTimeout: opWait, ContextTimeoutEnabled: true,
	})}
}

func newGoRedisCluster(addrs []string, name string) goRedis {
	return goRedis{redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, ClientName: name, MaxRedirects: -1, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second,
		ReadTimeout: opWait, ContextTimeoutEnabled: true,
	})}
}

func (c goRedis) do(ctx context.Context, args ...string) (any, error) {
	v, err := c.Do(ctx, anys(args)...).Result()
	return v, fromGoRedis(err)
}

func (c goRedis) transact(ctx context.Context, keys []string, plan func([]any) [][]string, sent func()) (replies []any, err error) {
	under := false
	err = c.Watch(ctx, func(tx *redis.Tx) error {
		vals, err := tx.MGet(ctx, keys...).Result()
		if err != nil {
			return err
		}
		cmds, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			for _, args := range plan(vals) {
				p.Do(ctx, anys(args)...)
			}
			under = true
			sent()
			return nil
		})
		for _, cmd := range cmds {
			replies = append(replies, cmd.(*redis.Cmd).Val())
		}
		return err
	}, keys...)
	switch {
	case errors.Is(err, redis.TxFailedErr):
		return nil, nil
	case err != nil && !under:
		return nil, errNotSent{err}
	}
	return replies, fromGoRedis(err)
}

func (c goRedis) close() { c.Close() }

func fromGoRedis(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if reply, ok := errors.AsType[redis.Error](err); ok && !errors.As(err, new(net.Error)) {
		return serverError(reply.Error())
	}
	return err
}

func anys(args []string) []any {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a
	}
	return all
}

// rueidisClient is rueidis, which finds out by itself that it talks to a cluster.
type rueidisClient struct{ rueidis.Client }

func newRueidisClient(addrs []string, name string) (rueidisClient, error) {
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: addrs, ClientName: name, DisableRetry: true, DisableCache: true,
		Dialer: net.Dialer{Timeout: time.Second}, ConnWriteTimeout: opWait,
	})
	return rueidisClient{c}, err
}

func (c rueidisClient) do(ctx context.Context, args ...string) (any, error) {
	return fromRueidis(c.Do(ctx, c.command(args)))
}

func (c rueidisClient) command(args []string) rueidis.Completed {
	b := c.B().Arbitrary(args[0])
	if len(args) > 1 {
		b = b.Keys(args[1]).Args(args[2:]...)
	}
	return b.Build()
}

func (c rueidisClient) transact(ctx context.Context, keys []string, plan func([]any) [][]string, sent func()) (replies []any, err error) {
	err = c.Dedicated(func(d rueidis.DedicatedClient) error {
		if err := d.Do(ctx, d.B().Watch().Key(keys...).Build()).Error(); err != nil {
			return errNotSent{err}
		}
		got, err := fromRueidis(d.Do(ctx, d.B().Mget().Key(keys...).Build()))
		if err != nil {
			return errNotSent{err}
		}
		all := rueidis.Commands{d.B().Multi().Build()}
		for _, args := range plan(got.([]any)) {
			all = append(all, c.command(args))
		}
		sent()
		results := d.DoMulti(ctx, append(all, d.B().Exec().Build())...)
		end := results[len(results)-1]
		if end.NonRedisError() == nil { // what was queued may have been refused
			for _, r := range results[:len(results)-1] {
				if _, err := fromRueidis(r); err != nil {
					return err
				}
			}
		}
		v, err := fromRueidis(end)
		replies, _ = v.([]any)
		return err
	})
	return replies, err
}

func (c rueidisClient) close() { c.Close() }

func fromRueidis(r rueidis.RedisResult) (any, error) {
	err := r.Error()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		return nil, serverError(reply.Error())
	}
	if err != nil {
		return nil, err
	}
	v, err := r.ToAny()
	return v, err
}

// plainClient is no library: one connection to one node, and its own session.
type plainClient struct {
	addr string
	conn net.Conn
	r    *bufio.Reader
}

func (c *plainClient) do(ctx context.Context, args ...string) (any, error) {
	all, err := c.batch(ctx, args)
	if err != nil {
		return nil, err
	}
	if e, ok := all[0].(serverError); ok {
		return nil, e
	}
	return all[0], nil
}

// batch sends commands at once and reads all replies; errors among them are
// serverErrors.
func (c *plainClient) batch(ctx context.Context, cmds ...[]string) (replies []any, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.addr, time.Second); err != nil {
			return nil, errNotSent{err}
		}
		c.r = bufio.NewReader(c.conn)
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	deadline, _ := ctx.Deadline()
	c.conn.SetDeadline(deadline)
	var b strings.Builder
	for _, args := range cmds {
		fmt.Fprintf(&b, "*%d\r\n", len(args))
		for _, a := range args {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
		}
	}
	if _, err := io.WriteString(c.conn, b.String()); err != nil {
		return nil, err
	}
	for range cmds {
		v, err := readReply(c.r)
		if err != nil {
			return nil, err
		}
		replies = append(replies, v)
	}
	return replies, nil
}

func (c *plainClient) transact(ctx context.Context, keys []string, plan func([]any) [][]string, sent func()) ([]any, error) {
	begun, err := c.batch(ctx, append([]string{"WATCH"}, keys...), append([]string{"MGET"}, keys...))
	if err != nil {
		return nil, errNotSent{err}
	}
	for _, v := range begun {
		if e, ok := v.(serverError); ok {
			return nil, errNotSent{e}
		}
	}
	cmds := append([][]string{{"MULTI"}}, plan(begun[1].([]any))...)
	sent()
	all, err := c.batch(ctx, append(cmds, []string{"EXEC"})...)
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if e, ok := v.(serverError); ok {
			return nil, e
		}
	}
	replies, _ := all[len(all)-1].([]any)
	return replies, nil
}

func (c *plainClient) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// readReply reads one reply of RESP2.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line instead of a reply")
	}
	text := line[1:]
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return serverError(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, err
	}
	if line[0] == '$' {
		b := make([]byte, n+2)
		_, err := io.ReadFull(r, b)
		return string(b[:n]), err
	}
	list := []any{}
	for range n {
		v, err := readReply(r)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// TestOutcomes: calls that are classified as not executed must not have been, or the check of a history would
// blame the store for the client.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		err   error
		out   history.Outcome
		known bool
	}{
		{nil, history.OK, true},
		{errNotSent{io.EOF}, history.Fail, true},
		{refused, history.Fail, true},
		{fmt.Errorf("in a library: %w", refused), history.Fail, true},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, history.Unknown, true},
		{&net.OpError{Op: "write", Err: errors.New("broken pipe")}, history.Unknown, true},
		{io.EOF, history.Unknown, true},
		{context.DeadlineExceeded, history.Unknown, true},
		{serverError("CLUSTERDOWN nobody leads [not_leader]"), history.Fail, true},
		{serverError("BUSY too many calls [queue_full]"), history.Fail, true},
		{serverError("ERR the engine is closed [closed]"), history.Fail, true},
		{serverError("ERR writes are stopped [fenced]"), history.Fail, true},
		{serverError("MOVED 1 127.0.0.1:1"), history.Fail, true},
		{serverError("EXECABORT Transaction discarded because of previous errors."), history.Fail, true},
		{serverError("ERR it broke [outcome_unknown]"), history.Unknown, true},
		{serverError("ERR internal error [internal]"), history.Unknown, false},
		{serverError("HTTP 502 without a code"), history.Unknown, false},
	} {
		if out, known := outcomeOf(c.err); out != c.out || known != c.known {
			t.Errorf("%v: %s, %v; want %s, %v", c.err, out, known, c.out, c.known)
		}
	}
}
