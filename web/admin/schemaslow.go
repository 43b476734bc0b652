package admin

import (
	"net/url"
	"strings"
	"time"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/record/query"
	"github.com/skerrydb/skerry/web"
)

// slowShown is how many slow queries a page shows unless it is asked for all.
const slowShown = 10

// slowList is the slow queries of a page.
type slowList struct {
	Took  string // from which time on a query is slow
	Reads int    // from how many records on
	Rows  []slowRow
	Total int
	More  bool // there are more than Rows
}

// slowRow is a slow query as the page shows it.
type slowRow struct {
	record.SlowQuery
	Path          string // of the collection
	Which         string // of its records, if not those that are there
	Mean, Longest string
	Reading       string
	Plan          string
	Indexes       []slowIndex
	Several       bool
	Gain, Why     string
	Grid          string
	Filled        bool // the filter of Grid lacks values
}

// slowIndex is an index that would help.
type slowIndex struct {
	Code string // as an element of a slice of schema.Index
	Path string // of the page that says what it costs
}

// slowQueries returns the slow queries of a collection, "" for all.
func (a *Admin) slowQueries(c *web.Context, collection string) (slowList, error) {
	l := slowList{Took: record.SlowTime.String(), Reads: record.SlowReads}
	all, err := a.o.Records.SlowQueries(c)
	if err != nil {
		return l, err
	}
	for _, x := range all {
		if collection != "" && x.Collection != collection {
			continue
		}
		if l.Total++; l.Total <= slowShown || c.Query("slow").String() != "" {
			l.Rows = append(l.Rows, a.slowRow(x))
		}
	}
	l.More = l.Total > len(l.Rows)
	return l, nil
}

func (a *Admin) slowRow(x record.SlowQuery) slowRow {
	r := slowRow{SlowQuery: x, Path: Prefix + "/schema/" + url.PathEscape(x.Collection), Mean: tookText(x.Time / time.Duration(max(1, x.Runs))), Longest: tookText(x.Most), Plan: a.planWords(x), Several: len(x.Advice.Indexes) > 1}
	r.Grid, r.Filled = Prefix+recordsPath(x), strings.Contains(x.Filter, "?") && x.Advice.Reason != record.TooLong
	switch {
	case x.Past:
		r.Which = a.text("as they were at a time in the past")
	case x.Deleted == query.Trash:
		r.Which = a.text("those in the trash")
	case x.Deleted == query.Both:
		r.Which = a.text("also those in the trash")
	}
	r.Reading = a.text("%s, of which %s were used", numberText(x.Read), numberText(x.Used))
	if x.Used > 0 {
		r.Reading += "; " + a.text("%s for each", numberText((x.Read+x.Used/2)/x.Used))
	}
	for _, index := range x.Advice.Indexes {
		var names []string
		for _, f := range index.Fields {
			if f.Desc {
				f.Name = "-" + f.Name
			}
			names = append(names, f.Name)
		}
		r.Indexes = append(r.Indexes, slowIndex{indexCode(record.By(names...)), r.Path + "/change?" + url.Values{"what": {"index"}, "name": {strings.Join(names, ",")}}.Encode()})
	}
	if r.Indexes == nil {
		r.Why = a.adviceWords(x)
	} else {
		r.Gain = a.text("The planner was asked as if it existed: it would use it, and read about %s records instead of %s. An index is written with each record, and refuses records whose values are very long.", numberText(x.Advice.Reads), numberText(x.Read/max(1, x.Runs)))
	}
	return r
}

// recordsPath returns the path of the grid with the filter and the order of a query.
func recordsPath(x record.SlowQuery) string {
	s := gridState{Filter: x.Filter, Sort: x.Sort, Deleted: x.Deleted == query.Trash}
	if x.Advice.Reason == record.TooLong {
		s.Filter = "" // it was cut
	}
	path := "/records/" + url.PathEscape(x.Collection)
	if v := s.values(); len(v) > 0 {
		path += "?" + v.Encode()
	}
	return path
}

// tookText is a duration with three digits.
func tookText(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// planWords says how the records of a query are found.
func (a *Admin) planWords(x record.SlowQuery) string {
	text := ""
	switch x.Access {
	case "documents":
		text = a.text("reads the records by id, without an index")
	case "index":
		text = a.text("by the index %s", x.Index)
	case "union":
		text = a.text("by several indexes or ids, one for each alternative")
	case "id":
		text = a.text("by ids")
	case "table":
		text = a.text("in tables, as PostgreSQL plans it")
	case "counters":
		text = a.text("by a counter")
	case "nothing":
		text = a.text("finds nothing")
	default:
		text = a.text("none: it is refused")
	}
	if x.Sorted {
		text += ", " + a.text("sorted in memory")
	}
	return text
}

// adviceWords says why no index is suggested.
func (a *Admin) adviceWords(x record.SlowQuery) string {
	switch x.Advice.Reason {
	case record.OtherEngine:
		return a.text("None: PostgreSQL plans queries of tables itself, and does not say how many rows it looks at. EXPLAIN in psql does.")
	case record.InPast:
		return a.text("None: indexes have only the present. Ask for fewer records of the past.")
	case record.Unbounded:
		return a.text("None: an index serves comparisons of a field with a value by =, in, <, <=, > and >=. This query has none, or one of the alternatives of || has none; !, !=, ~, ?= and members of json have no index.")
	case record.Exists:
		return a.text("None: the planner would use %s now, which was not there when the query was slow.", x.Advice.Index)
	case record.Building:
		return a.text("None: %s is being built and will help.", x.Advice.Index)
	case record.NoGain:
		return a.text("None: the planner was asked about indexes on its fields. It would not use one, or read about as many records by it.")
	case record.TooLong:
		return a.text("None: the filter is too long to be kept.")
	case record.Changed:
		return a.text("None: the fields of the collection have changed since.")
	}
	if x.Expand != "" {
		return a.text("None: it uses most of the records that it reads. The time may go into the records that it expands.")
	}
	return a.text("None: it uses most of the records that it reads. Ask for smaller pages, or for fewer fields.")
}
