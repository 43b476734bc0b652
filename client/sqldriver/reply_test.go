package sqldriver

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/resp/wire"
)

// FuzzReply reads arbitrary replies as rows of arbitrary schemas. It checks that nothing
// panics, that there are as many rows as announced, and that values have types of
// database/sql.
func FuzzReply(f *testing.F) {
	const object = `{"kind":"object","fields":[{"name":"a","type":{"kind":"time"}},{"name":"b","type":{"kind":"list","of":{"kind":"bytes"}}}]}`
	for schema, reply := range map[string]string{
		`{"kind":"int","bits":64}`:             ":5\r\n",
		`{"kind":"uint"}`:                      "$20\r\n18446744073709551615\r\n",
		`{"kind":"float"}`:                     ",nan\r\n",
		object:                                 "%2\r\n$1\r\na\r\n$20\r\n2026-11-21T15:04:05Z\r\n$1\r\nb\r\n*1\r\n$1\r\n{\r\n",
		`{"kind":"list","of":` + object + `}`:  "*2\r\n_\r\n%2\r\n$1\r\na\r\n_\r\n$1\r\nb\r\n*0\r\n",
		`{"kind":"map","of":{"kind":"map"}}`:   "%1\r\n$1\r\nk\r\n%1\r\n$1\r\nx\r\n,-inf\r\n",
		`{"kind":"list","of":{"kind":"list"}}`: "*1\r\n~2\r\n#t\r\n$2\r\n\xff\xfe\r\n",
		`{"kind":"json"}`:                      "|1\r\n+k\r\n:1\r\n$4\r\nnull\r\n",
		`{}`:                                   "(123456789012345678901234567890\r\n",
		`{"kind":"list"}`:                      "*2\r\n|1\r\n+k\r\n:1\r\n%1\r\n+a\r\n:1\r\n%1\r\n+a\r\n:2\r\n",
		`{"kind":"map","of":{"kind":"uint"}}`:  "%1\r\n$1\r\nk\r\n$1\r\nx\r\n",
		`{"kind":"object"}`:                    "%0\r\n",
		`{"kind":"list","of":{"kind":"json","fields":1}}`: "=7\r\ntxt:abc\r\n",
	} {
		f.Add([]byte(reply), schema)
	}
	f.Fuzz(func(t *testing.T, reply []byte, schema string) {
		if rest, ok := wire.Skip(reply); !ok || len(rest) > 0 {
			return // the client rejects such a reply
		}
		var typed typ
		lay := layShown(reply)
		if json.Unmarshal([]byte(schema), &typed) == nil {
			read(t, layOut(&typed), reply)
		}
		if !read(t, lay, reply) {
			t.Fatalf("%q does not fit what it shows", reply)
		}
	})
}

// read reads a reply as rows and reports whether it matches the layout.
func read(t *testing.T, lay layout, reply []byte) bool {
	var r rows
	if err := r.start(&lay, reply); err != nil {
		if !errors.Is(err, errMisfit) {
			t.Fatalf("%q: %v", reply, err)
		}
		return false
	}
	dest := make([]driver.Value, len(r.Columns()))
	for i := range dest {
		if r.ColumnTypeDatabaseTypeName(i) == "" || r.ColumnTypeScanType(i) == nil {
			t.Fatalf("column %d has no type", i)
		}
	}
	want, got := r.left, 0
	if !r.begun {
		want++
	}
	for ; ; got++ {
		err := r.Next(dest)
		if err == io.EOF {
			break
		}
		if err != nil {
			return false
		}
		for i, v := range dest {
			switch v := v.(type) {
			case nil, int64, float64, bool, string, time.Time, uint64:
			case []byte:
				if t := lay.types[i]; (t == nil || t.Of != nil || t.Fields != nil) && !json.Valid(v) && (t == nil || t.Kind != kindBytes && t.Kind != kindJSON) {
					panic("no JSON: " + string(v))
				}
			default:
				t.Fatalf("a column of type %T", v)
			}
		}
	}
	if err := r.Close(); err != nil || r.at.b != nil || slices.ContainsFunc(r.first, func(v driver.Value) bool { return v != nil }) {
		t.Fatalf("%q: closed rows keep values (%v)", reply, err)
	}
	if got != want {
		t.Fatalf("%q: %d rows, not %d", reply, got, want)
	}
	return true
}
