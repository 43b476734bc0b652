package cassandra

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// Codes of errors in the native protocol that the driver has no type for.
const (
	codeServer        = 0x0000
	codeCredentials   = 0x0100
	codeBootstrapping = 0x1002
)

// unsent reports whether a request that failed with err has surely not reached a node, or was refused
// by one that is not ready.
func unsent(err error) bool {
	if errors.Is(err, gocql.ErrNoConnections) || errors.Is(err, gocql.ErrNoStreams) {
		return true
	}
	re, ok := errors.AsType[gocql.RequestError](err)
	return ok && re.Code() == codeBootstrapping
}

// refusedAtOnce reports whether a node has refused a request without beginning it.
func refusedAtOnce(err error) bool {
	re, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return false
	}
	switch re.Code() {
	case gocql.ErrCodeInvalid, gocql.ErrCodeSyntax, gocql.ErrCodeUnauthorized, gocql.ErrCodeConfig, codeCredentials:
		return true
	}
	return false
}

// again reports whether a transaction whose batch failed with err, and was not applied, may succeed
// at once when it runs again.
func again(err error) bool {
	re, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return true // a lost connection, or no answer in time
	}
	switch re.Code() {
	case gocql.ErrCodeWriteTimeout, gocql.ErrCodeReadTimeout, gocql.ErrCodeCASWriteUnknown:
		return true
	}
	return false
}

// passing reports whether a read that failed with err may soon succeed.
func passing(err error) bool {
	if _, ok := errors.AsType[*cut](err); ok {
		return false
	}
	re, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, gocql.ErrSessionClosed)
	}
	switch re.Code() {
	case gocql.ErrCodeUnavailable, gocql.ErrCodeOverloaded, gocql.ErrCodeReadTimeout, gocql.ErrCodeReadFailure, gocql.ErrCodeWriteTimeout,
		gocql.ErrCodeCASWriteUnknown, codeBootstrapping:
		return true
	}
	return false
}

// fault returns an error of the driver, which was called with ctx, as one of the engine.
func (e *db) fault(ctx context.Context, err error) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	return fault(ctx, err)
}

func fault(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	code, text := meaning(err)
	return engine.Errorf(code, "cassandra: %s: %w", text, err)
}

// meaning returns what an error of the driver means.
func meaning(err error) (engine.Code, string) {
	if code, text, ok := refusal(err); ok {
		return code, text
	}
	_, notVerified := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknownCA := errors.AsType[x509.UnknownAuthorityError](err)
	text := err.Error() // the driver turns errors into text when it opens a session
	switch {
	case notVerified || unknownCA || strings.Contains(text, "x509:"):
		return engine.CodeUnauthenticated, "the server's certificate is refused; if its CA is your own, name a file with the CA's certificate with ca= in the URL"
	case strings.Contains(text, "username") && strings.Contains(text, "incorrect"), strings.Contains(text, "Password must not be null"):
		return engine.CodeUnauthenticated, "the server refuses the user or the password of the URL"
	case strings.Contains(text, "authentication required"):
		return engine.CodeUnauthenticated, "the server asks for a password: give user:password in the URL"
	case strings.Contains(text, "schema versions not consistent"):
		return engine.CodeUnavailable, "the nodes do not agree on the schema: one of them is cut off from the others, or has not applied a change (nodetool describecluster)"
	case errors.Is(err, gocql.ErrTimeoutNoResponse):
		return engine.CodeUnavailable, fmt.Sprintf("no node has answered within %v", requestTimeout)
	}
	return engine.CodeUnavailable, "cannot reach the servers"
}

// refusal returns what an error that a node has sent means.
func refusal(err error) (engine.Code, string, bool) {
	if u, ok := errors.AsType[*gocql.RequestErrUnavailable](err); ok {
		return engine.CodeUnavailable, fmt.Sprintf("%d of the %d replicas that consistency %s needs are alive", u.Alive, u.Required, u.Consistency), true
	}
	re, ok := errors.AsType[gocql.RequestError](err)
	if !ok {
		return "", "", false
	}
	switch re.Code() {
	case gocql.ErrCodeOverloaded:
		return engine.CodeUnavailable, "the server is overloaded", true
	case codeBootstrapping:
		return engine.CodeUnavailable, "the server is starting", true
	case gocql.ErrCodeReadTimeout, gocql.ErrCodeWriteTimeout, gocql.ErrCodeCASWriteUnknown:
		return engine.CodeUnavailable, "too few replicas have answered in time", true
	case gocql.ErrCodeReadFailure, gocql.ErrCodeWriteFailure:
		return engine.CodeUnavailable, "replicas have failed; their logs say why", true
	case gocql.ErrCodeUnauthorized:
		return engine.CodeUnsupported, "the user lacks a right. An administrator can run: GRANT ALL ON KEYSPACE keyspace TO role", true
	case codeCredentials:
		return engine.CodeUnauthenticated, "the server refuses the user or the password of the URL", true
	case codeServer:
		return engine.CodeInternal, "the server has failed", true
	}
	return engine.CodeInternal, "the server refused a request", true
}
