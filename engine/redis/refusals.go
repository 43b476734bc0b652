package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/skerrydb/skerry/engine"
)

// isServers reports whether the server answered err, so that the connection works.
func isServers(err error) bool {
	_, ok := rueidis.IsRedisErr(err)
	return ok
}

// refusals maps the first word of Redis's errors.
var refusals = map[string]refusal{
	"NOAUTH":     {engine.CodeUnauthenticated, "the server asks for a password: give user:password in the URL", false},
	"WRONGPASS":  {engine.CodeUnauthenticated, "the server refuses the user or the password of the URL", false},
	"NOPERM":     {engine.CodeUnsupported, noRight, false},
	"OOM":        {engine.CodeMemoryFull, "the server has reached its maxmemory", false},
	"MISCONF":    {engine.CodeDiskFull, "the server refuses writes, because its last snapshot or append failed: its disk is full, or it may not write to its folder", false},
	"NOREPLICAS": {engine.CodeUnavailable, "the server refuses writes, because it has fewer replicas than its min-replicas-to-write", false},
	"READONLY":   {engine.CodeUnavailable, "the server is no longer the primary: it was demoted", false},
	"LOADING":    {engine.CodeUnavailable, "the server is loading its data", true},
	"BUSY":       {engine.CodeUnavailable, "the server is busy with a script", true},
	"MASTERDOWN": {engine.CodeUnavailable, "the server has lost its primary", true},
	"WRONGTYPE":  {engine.CodeCorrupt, "a key below the prefix is not one of Skerry's: another program uses the same prefix", false},

	"CLUSTERDOWN":   {engine.CodeUnavailable, "the cluster does not serve the slot", true},
	"TRYAGAIN":      {engine.CodeUnavailable, "the slot is being moved", true},
	"SKERRYCORRUPT": {engine.CodeCorrupt, "the data in Redis is damaged", false},
}

// refusal is what an error of the server means.
type refusal struct {
	code engine.Code
	text string
	wait bool // it may soon be over
}

const noRight = "the user lacks a right. An administrator can run: ACL SETUSER name +@all -@dangerous +info +config|get ~prefix* &prefix*"

// refused returns what an error of the server means.
func refused(err *rueidis.RedisError) refusal {
	text := strings.TrimPrefix(err.Error(), "-")
	word, _, _ := strings.Cut(text, " ")
	r, ok := refusals[word]
	switch {
	case ok:
		return r
	case strings.Contains(text, "DB index is out of range"):
		return refusal{engine.CodeInvalid, "the server has no database of that number", false}
	case strings.Contains(text, "Script killed by user"):
		return refusal{engine.CodeUnavailable, "a script was killed", true}
	case strings.Contains(text, "max number of clients"):
		return refusal{engine.CodeUnavailable, "the server has as many clients as its maxclients allows", true}
	case strings.Contains(text, "ACL failure"), strings.Contains(text, "no permissions"), strings.Contains(text, "The user executing the script"):
		return refusal{engine.CodeUnsupported, noRight, false}
	}
	return refusal{engine.CodeInternal, "the server refused a command", false}
}

// fault returns an error of the client, which was called with ctx, as one of the engine. The client also has deadlines of
// its own: only if ctx has ended is an error that looks like it the caller's.
func fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return engine.Errorf(engine.CodeUnauthenticated, "redis: the server's certificate is refused; if its CA is your own, set SSL_CERT_FILE to a file with the CA's certificate: %w", err)
	}
	if errors.Is(err, rueidis.ErrNoSlot) { // the client knows before it asks
		r := refusals["CLUSTERDOWN"]
		return engine.Errorf(r.code, "redis: %s: %w", r.text, err)
	}
	re, ok := rueidis.IsRedisErr(err)
	if !ok {
		return engine.Errorf(engine.CodeUnavailable, "redis: cannot reach the server: %w", err)
	}
	r := refused(re)
	return engine.Errorf(r.code, "redis: %s: %w", r.text, err)
}

// passing reports whether a refusal by the server may soon be over.
func passing(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && refused(re).wait
}

// unsent reports whether a request that failed with err has surely not reached the server.
func unsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot)
}
