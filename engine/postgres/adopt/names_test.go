package adopt

import (
	"regexp"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/record/schema"
)

// TestFieldNames: every column gets a valid name that no other has, also if names are as long as they may be.
func TestFieldNames(t *testing.T) {
	long := strings.Repeat("c_", 31) + "c"
	used := map[string]bool{}
	for i, c := range []struct{ column, want string }{
		{"created", "c_created"}, {"Full Name", "full_name"}, {"full_name", "c_full_name"}, {"FULL_NAME", "c2_full_name"}, {"full-name", "c3_full_name"},
		{"é", "c__"}, {"1", "c_1"}, {"", "c_"}, {long, long}, {"C" + long[1:], ""}, {long[:62] + "C", ""}, {"C_C" + long[3:], ""},
	} {
		got := fieldName(c.column, used)
		if c.want != "" && got != c.want || !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(got) || len(got) > schema.MaxNameBytes || len(used) != i+1 {
			t.Errorf("column %q: field %q, want %q; %d names for %d columns", c.column, got, c.want, len(used), i+1)
		}
	}
}
