package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

const grid = "/admin/records/" + collection

// warmup is how many requests of a page are not counted.
const warmup = 20

// page is one page of the grid.
type page struct {
	name, path string
	p50, p99   time.Duration
	most       time.Duration
	bytes      int // compressed
}

// grid measures pages of the grid, each by requests one after the other.
func (m *measurements) grid(c *client) error {
	last := grid
	for range m.plan.pages - 1 {
		text, err := c.get(last)
		if err == nil {
			last, err = next(text)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", last, err)
		}
	}
	query := func(names ...string) string {
		v := url.Values{}
		for i := 0; i < len(names); i += 2 {
			v.Set(names[i], names[i+1])
		}
		return grid + "?" + v.Encode()
	}
	m.pages = []page{
		{name: "first page", path: grid},
		{name: fmt.Sprintf("page %d, by cursor", m.plan.pages), path: last},
		{name: "filter, 1 of 3 match, no index", path: query("filter", `status = "paid"`)},
		{name: "filter, 1 of 100 match, no index", path: query("filter", "lot = 42")},
		{name: "filter by the index", path: query("filter", "total >= 50000")},
		{name: "sorted by the index", path: query("sort", "-total")},
	}
	for i := range m.pages {
		if err := m.pages[i].measure(c, m.plan.requests); err != nil {
			return fmt.Errorf("%s: %w", m.pages[i].name, err)
		}
	}
	m.gridTable()
	return nil
}

func (p *page) measure(c *client, n int) error {
	text, err := c.get(p.path)
	if err != nil {
		return err
	}
	if rows := strings.Count(text, "<tr data-rev="); rows != gridRows {
		return fmt.Errorf("the page has %d records, want %d", rows, gridRows)
	}
	took := make([]time.Duration, 0, n)
	for i := range warmup + n {
		from := time.Now()
		if err := c.send(http.MethodGet, p.path, nil); err != nil {
			return err
		}
		if i >= warmup {
			took = append(took, time.Since(from))
		}
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[min(int(q*float64(n)), n-1)] }
	p.p50, p.p99, p.most, p.bytes = at(0.5), at(0.99), took[n-1], c.read.Len()
	return nil
}

// millis returns d in milliseconds.
func millis(d time.Duration) float64 { return rig.Micros(d) / 1000 }
