package series

import (
	"iter"

	"github.com/skerrydb/skerry/engine"
)

// Metrics yields the metrics of each collection.
func (db *DB) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		for _, m := range []struct {
			name, help string
			value      func(Stats) float64
		}{
			{"series", "Series that are defined.", func(s Stats) float64 { return float64(s.Series) }},
			{"series_unsealed_samples", "Samples in memory that are not compressed yet.", func(s Stats) float64 { return float64(s.Unsealed) }},
			{"series_parts", "Parts of compressed samples.", func(s Stats) float64 { return float64(s.Parts) }},
			{"series_sealed_samples", "Compressed samples.", func(s Stats) float64 { return float64(s.Samples) }},
			{"series_sealed_bytes", "Bytes of compressed samples.", func(s Stats) float64 { return float64(s.Bytes) }},
		} {
			for _, name := range db.Names() {
				s, err := db.Collection(name)
				if err != nil {
					continue
				}
				if !yield(engine.Metric{Name: m.name, Help: m.help, Value: m.value(s.Stats()), Labels: []engine.Label{{Name: "collection", Value: name}}}) {
					return
				}
			}
		}
	}
}
