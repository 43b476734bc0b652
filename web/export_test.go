package web

import "github.com/skerrydb/skerry/engine"

// Statuses lets the tests see that the map is total.
func Statuses() map[engine.Code]int { return statuses() }
