package records

import (
	"github.com/skerrydb/skerry/record/schema"
)

// ExportsAt returns the limits of exports on an engine with so many views.
func ExportsAt(views int) (all, strangers, each int64) { return exportsAt(views) }

// Rows returns the data of the rows that can be read from a file, and how many mistakes it has.
func Rows(k *schema.Compiled, isCSV bool, body []byte) (data [][]byte, mistakes int) {
	var r reader = newJSONReader(body)
	if isCSV {
		r = newCSVReader(body, k)
	}
	for {
		x, m, err := r.next()
		if m != nil {
			mistakes++
		} else if err == nil {
			data = append(data, x.data)
		}
		if err != nil {
			return data, mistakes
		}
	}
}
