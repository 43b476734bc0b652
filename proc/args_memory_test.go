package proc_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/proc"
)

// Types whose values use much memory and little text.
type (
	wide struct {
		A [256]int64 `json:",omitempty"`
	}
	inWide struct {
		A int `json:"a,omitempty"`
		*Wide
	}
	Wide struct {
		B int         `json:"b"`
		C [2048]int64 `json:",omitempty"`
	}
	hungry struct {
		Ptr   []*wide                       `json:"ptr,omitempty"`
		Deep  []***wide                     `json:"deep,omitempty"`
		Via   []inWide                      `json:"via,omitempty"`
		Array [][2]*wide                    `json:"array,omitempty"`
		Maps  []map[string]struct{}         `json:"maps,omitempty"`
		Small []map[uint8][16]int64         `json:"small,omitempty"`
		Large map[uint32]wide               `json:"large,omitempty"`
		Tree  map[string]map[string][]*wide `json:"tree,omitempty"`
	}
)

// TestArgumentMemory checks that all memory of arguments is counted before it is allocated.
func TestArgumentMemory(t *testing.T) {
	s := newSet(t, proc.Options{}, proc.DefineRead("p", func(*proc.Tx, hungry) (int, error) { return 1, nil }))
	c, err := s.Begin([]byte("p"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.End()
	var keys strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&keys, `"%d":{},`, i)
	}
	list := func(name, elem string, n int) string {
		return `{"` + name + `":[` + strings.Repeat(elem+",", n-1) + elem + `]}`
	}
	for _, body := range []string{
		list("ptr", "{}", 50_000),
		list("deep", "{}", 50_000),
		list("via", `{"b":1}`, 10_000),
		list("array", "[{},{}]", 30_000),
		list("maps", "{}", 2_500_000),
		list("small", `{"1":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}`, 190_000),
		`{"large":{` + keys.String() + `"x":{}}}`,
		`{"tree":{"a":{"b":[` + strings.Repeat("{},", 50_000) + `{}]}}}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.JSON([]byte(body))
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 4*proc.MaxArgMemory {
			t.Errorf("%.30s: took %d MiB", body, took>>20)
		}
		if engine.CodeOf(err) != engine.CodeLimit || !strings.Contains(err.Error(), "takes too much memory") {
			t.Errorf("%.30s: %v", body, err)
		}
	}
}
