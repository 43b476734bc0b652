package files

import (
	"testing"
)

// fuzz reads files with small limits, and checks what is read.
func fuzz(f *testing.F, format Format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s)
	}
	o := ReadOptions{RecordBytes: 4096, NameBytes: 64, Properties: 100}
	f.Fuzz(func(t *testing.T, s string) {
		for v, err := range text(s).Vertices(format, o) {
			if err != nil {
				break
			}
			checkPosition(t, s, v.At)
			if _, ok := ownID(v.ID); !ok || len(v.Labels) == 0 {
				t.Errorf("vertex %+v", v)
			}
		}
		n := int64(0)
		for e, err := range text(s).Edges(format, o) {
			if err != nil {
				break
			}
			checkPosition(t, s, e.At)
			if n++; e.Number != n || e.Out == nil || e.In == nil || e.Label == "" {
				t.Errorf("edge %+v", e)
			}
		}
	})
}

func checkPosition(t *testing.T, s string, at Position) {
	if at.Line < 1 || at.Column < 1 || at.Bytes <= 0 || at.Offset+at.Bytes > int64(len(s)) {
		t.Errorf("position %+v in %d bytes", at, len(s))
	}
}

func FuzzGraphSON(f *testing.F) {
	fuzz(f, GraphSON, goldenLines, `{"id":"\u0041"}`, `{"id":1,"inE":[{}`)
}

func FuzzGraphML(f *testing.F) {
	fuzz(f, GraphML, goldenML, "<graphml><graph><node id='1'/><edge source='1' target='2'/></graph></graphml>")
}

func FuzzCSV(f *testing.F) { fuzz(f, CSV, goldenVertices, goldenEdges, "~id,a:Date\n1,2024-01-01\n") }
