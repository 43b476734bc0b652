package files

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/graph"
	"github.com/skerrydb/skerry/graph/value"
)

// pick returns one of some values.
func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// kept returns a value that a format can hold.
func kept(r *rand.Rand, format Format) any {
	words := []any{"x", "a;b", `c\`, "d, \"e\"", "<f> & ü\n\t", " g ", "日本", "42", "true", "h;i"}
	numbers := []any{true, false, r.Int32(), r.Int64() - math.MaxInt64/2, r.NormFloat64(), float32(r.NormFloat64()), math.NaN(), math.Inf(1), float32(math.Inf(-1))}
	if format == GraphML {
		return pick(r, append(append(words, numbers...), "", "cr\r\nlf", "\r")...)
	}
	more := []any{int8(-3), int16(300), time.Date(2024, 2, 29, 12, 0, 1, 5000000, time.UTC), time.Date(1815, 12, 10, 0, 0, 0, 0, time.FixedZone("", 3600))}
	if format == CSV {
		words = slices.DeleteFunc(words, func(v any) bool { return v == `c\` }) // not one of several
		return pick(r, append(append(words, numbers...), more...)...)
	}
	return pick(r, append(append(append(words, numbers...), more...), nil, "", "\r\n\x00",
		value.UUID{1, 2}, value.Char('ß'), value.Duration{Seconds: -5, Nanos: 7}, []byte{0, 255}, new(big.Int).Lsh(big.NewInt(-7), 90),
		value.Decimal{Unscaled: big.NewInt(1234), Scale: 2}, value.List{int32(1), value.NewSet("a", nil)}, value.MapOf("k", 1.5, int64(2), value.List{}))...)
}

// randomGraph adds a random graph with what a format can hold.
func randomGraph(t *testing.T, r *rand.Rand, db *graph.DB, name string, format Format) {
	ids := []any{int64(1), int64(2), int64(3), int64(70), int64(-5), "a", "b c", `"q"`, "007", "é&<"}
	if format == GraphSON {
		ids = append(ids, "12", value.UUID{9}, "line\r\nend")
	}
	keys := []string{"name", "age", "k:1", "ключ", "a b", "labelV", "@type", "id"}
	update(t, db, name, func(tx *graph.Tx) error {
		rnd := rand.New(rand.NewPCG(r.Uint64(), 0))
		var all []*graph.Vertex
		for _, id := range ids {
			v, err := tx.AddVertex(pick(rnd, nil, []string{"person"}, []string{"x", "y z"}, []string{"@type"}), id)
			if err != nil {
				return err
			}
			all = append(all, v)
			for range rnd.IntN(6) {
				c := graph.List
				if format == GraphML {
					c = graph.Single
				}
				var metas []value.Entry
				for i := range rnd.IntN(3) {
					if format == GraphSON {
						metas = append(metas, value.Entry{Key: keys[i], Val: kept(rnd, format)})
					}
				}
				if _, err := v.Set(c, pick(rnd, keys...), kept(rnd, format), metas...); err != nil {
					return err
				}
			}
		}
		for i := range 2 * len(ids) {
			id := pick[any](rnd, nil, int64(i+100), fmt.Sprint("edge ", i))
			e, err := tx.AddEdge(pick(rnd, "knows", "likes & not", "@type", "a::b"), pick(rnd, all...), pick(rnd, all...), id)
			for range rnd.IntN(3) {
				if err == nil {
					err = e.Set(pick(rnd, keys...), kept(rnd, format))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestRoundTrip imports what was exported of random graphs: both are equal.
func TestRoundTrip(t *testing.T) {
	r := seed.Rand(t)
	db := open(t)
	orders := map[Format]func([]Property){GraphSON: grouped, GraphML: asIs, CSV: byKey}
	for i := range 12 {
		for _, format := range []Format{GraphSON, GraphML, CSV} {
			name := fmt.Sprint(format, i)
			randomGraph(t, r, db, name, format)
			files, out := exported(t, db, name, format, ExportOptions{})
			back, err := imported(t, db, name+"-back", source(format, files...), ImportOptions{Batch: 1 + r.IntN(12)})
			if err != nil {
				t.Fatalf("%v: %v\n%s%s", format, err, files[0], files[1])
			}
			if back.Vertices != out.Vertices || back.Edges != out.Edges || back.Bytes != back.Total {
				t.Errorf("%v: exported %+v, imported %+v", format, out, back)
			}
			same(t, elements(t, db, name+"-back", orders[format]), elements(t, db, name, orders[format]))
			again, err := imported(t, db, name+"-back", source(format, files...), ImportOptions{Resume: true})
			if err != nil || again.Vertices != 0 || again.Edges != 0 || again.Present != out.Vertices+out.Edges {
				t.Errorf("%v: again %+v, %v", format, again, err)
			}
			if t.Failed() {
				t.Fatalf("%s%s", files[0], files[1])
			}
		}
	}
}
