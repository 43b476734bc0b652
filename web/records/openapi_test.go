package records_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/ci/npm"
)

// TestOpenAPIValidates: a validator by others finds nothing wrong with the document, and does find what is.
func TestOpenAPIValidates(t *testing.T) {
	t.Parallel()
	missing := t.Skip
	if os.Getenv("SKERRY_REQUIRE_SERVERS") == "1" {
		missing = t.Fatal
	}
	program, err := exec.LookPath("node")
	if err != nil {
		missing(err)
	}
	dir, err := npm.Install("openapi", "testdata/openapi", "validate.js")
	if err != nil {
		missing(err)
	}
	validate := func(doc []byte) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, filepath.Join(dir, "validate.js"))
		cmd.Stdin = bytes.NewReader(doc)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	s := open(t)
	for _, user := range []string{"", "root"} {
		doc := s.ask(user, "GET", "/openapi.json", "").is(200).Body.Bytes()
		if out, err := validate(doc); err != nil || strings.TrimSpace(out) != "3.1" {
			t.Errorf("the document for %q: %v\n%s", user, err, out)
		}
		for _, change := range [][2]string{{`"in":"path"`, `"in":"nowhere"`}, {`"#/components/schemas/posts.Create"`, `"#/components/schemas/nothing"`}} {
			broken := bytes.Replace(doc, []byte(change[0]), []byte(change[1]), 1)
			if _, err := validate(broken); err == nil || bytes.Equal(broken, doc) {
				t.Errorf("%s instead of %s is not found", change[1], change[0])
			}
		}
	}
}
