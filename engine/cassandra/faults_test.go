package cassandra

import (
	"errors"
	"strings"
	"testing"

	"github.com/apache/cassandra-gocql-driver/v2"

	"github.com/skerrydb/skerry/engine"
)

// sent is an error that a node has sent.
type sent int

func (r sent) Code() int       { return int(r) }
func (r sent) Message() string { return "from the node" }
func (r sent) Error() string   { return "from the node" }

// TestFaults: errors of nodes and of the driver become codes that clients can act on.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		err  error
		code engine.Code
		text string
	}{
		{sent(gocql.ErrCodeOverloaded), engine.CodeUnavailable, "overloaded"},
		{sent(codeBootstrapping), engine.CodeUnavailable, "is starting"},
		{sent(gocql.ErrCodeWriteTimeout), engine.CodeUnavailable, "too few replicas"},
		{sent(gocql.ErrCodeWriteFailure), engine.CodeUnavailable, "replicas have failed"},
		{sent(gocql.ErrCodeUnauthorized), engine.CodeUnsupported, "GRANT"},
		{sent(codeCredentials), engine.CodeUnauthenticated, "password"},
		{sent(codeServer), engine.CodeInternal, "the server has failed"},
		{&gocql.RequestErrUnavailable{Consistency: gocql.Quorum, Required: 2, Alive: 1}, engine.CodeUnavailable, "1 of the 2 replicas"},
		{errors.New("gocql: cluster schema versions not consistent: [a b]"), engine.CodeUnavailable, "do not agree on the schema"},
		{errors.New("connection sent"), engine.CodeUnavailable, "cannot reach"},
	} {
		if code, text := meaning(c.err); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%v: %s %q, want %s %q", c.err, code, text, c.code, c.text)
		}
	}
}
