package timeseries

import (
	"slices"
	"sync"

	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web/timeseries/lineproto"
)

// caches remembers for each collection which series the fields of lines are.
type caches struct {
	mu  sync.Mutex // guards all
	all map[*series.Store]*known
}

func (c *caches) of(s *series.Store) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.all[s]
	if k == nil {
		if c.all == nil {
			c.all = map[*series.Store]*known{}
		}
		k = &known{max: MaxKnown, lines: map[string][]field{}}
		c.all[s] = k
	}
	return k
}

// known has the ids of series by measurement and tags, as they are in lines, and by field.
type known struct {
	max   int          // lists in lines, after which all are forgotten
	mu    sync.RWMutex // guards lines; the lists in it do not change
	lines map[string][]field
}

type field struct {
	key string
	id  series.ID
}

// find returns the id of a field. Lines of one device usually have the same fields in the same order, so it looks at
// place first.
func find(fields []field, place int, key []byte) (series.ID, bool) {
	if place < len(fields) && fields[place].key == string(key) {
		return fields[place].id, true
	}
	for _, f := range fields {
		if f.key == string(key) {
			return f.id, true
		}
	}
	return 0, false
}

// missing is a field of a line whose series is not known.
type missing struct{ line, key string }

// labels returns the labels of the series: the measurement and the field make the name, joined by _.
func (m missing) labels() (series.Labels, error) {
	var tags []series.Label
	measurement, err := lineproto.SplitSeries([]byte(m.line), func(key, value []byte) {
		tags = append(tags, series.Label{Name: string(key), Value: string(value)})
	})
	if err != nil {
		return nil, err
	}
	return series.NewLabels(string(measurement)+"_"+m.key, tags...)
}

// forget forgets all series, as some of them were removed.
func (k *known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.lines)
}

// add remembers series.
func (k *known) add(of []missing, ids []series.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lines) > k.max {
		clear(k.lines)
	}
	for i, m := range of {
		if ids[i] == 0 {
			continue
		}
		fields := k.lines[m.line]
		if _, ok := find(fields, len(fields), []byte(m.key)); !ok {
			k.lines[m.line] = append(slices.Clip(fields), field{m.key, ids[i]})
		}
	}
}
