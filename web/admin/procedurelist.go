package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/proc"
	"github.com/skerrydb/skerry/web"
)

// proceduresPage is how many procedures a page of the list has.
const proceduresPage = 100

// procedureLine is a procedure in the list.
type procedureLine struct {
	Name, Text, Args, Result string
	ReadOnly                 bool
	procShown

	numbers  procNumbers
	p50, p99 float64 // seconds; -1: it has not run
}

// procShown are the numbers of a procedure as the list has them.
type procShown struct {
	Rate   string `json:"rate"`
	P50    string `json:"p50"`
	P99    string `json:"p99"`
	Errors string `json:"errors"` // with their share
	Panics string `json:"panics"`
	Fails  bool   `json:"fails"` // there are errors
}

// procTotals are the numbers of all procedures.
type procTotals struct {
	Calls   string `json:"calls"`
	Rate    string `json:"rate"`
	Errors  string `json:"errors"`
	Panics  string `json:"panics"`
	Slow    string `json:"slow"`
	Running string `json:"running"`
}

// procColumn is a column by which the list can be sorted.
type procColumn struct {
	Key, Title string
	Recent     bool   // it is about the last minutes
	Sort       string // ascending, descending, or "" if the list is sorted by another one
	Link       string
}

// procOrders compare lines by the columns that the list can be sorted by.
func procOrders() map[string]func(x, y procedureLine) int {
	return map[string]func(x, y procedureLine) int{
		"name":   func(x, y procedureLine) int { return strings.Compare(x.Name, y.Name) },
		"rate":   func(x, y procedureLine) int { return cmp.Compare(x.numbers.Rate, y.numbers.Rate) },
		"p50":    func(x, y procedureLine) int { return cmp.Compare(x.p50, y.p50) },
		"p99":    func(x, y procedureLine) int { return cmp.Compare(x.p99, y.p99) },
		"errors": func(x, y procedureLine) int { return cmp.Compare(x.numbers.Recent.Errors, y.numbers.Recent.Errors) },
		"panics": func(x, y procedureLine) int { return cmp.Compare(x.numbers.Total.Panics, y.numbers.Total.Panics) },
	}
}

// procColumns returns the columns with numbers. A click on a header sorts by it, with the largest first, and the next one turns that around.
func (a *Admin) procColumns(sort, find string) []procColumn {
	all := []procColumn{
		{Key: "name", Title: a.text("Name")}, {Key: "rate", Title: a.text("Per second")}, {Key: "p50", Title: "p50", Recent: true},
		{Key: "p99", Title: "p99", Recent: true}, {Key: "errors", Title: a.text("Errors"), Recent: true}, {Key: "panics", Title: a.text("Panics")},
	}
	for i := range all {
		col := &all[i]
		to := "-" + col.Key
		if col.Key == "name" {
			to = col.Key
		}
		switch sort {
		case col.Key:
			col.Sort, to = "ascending", "-"+col.Key
		case "-" + col.Key:
			col.Sort, to = "descending", col.Key
		}
		col.Link = procLink(to, find, 0)
	}
	return all
}

// procLink returns the link to a page of the list, counted from 0.
func procLink(sort, find string, page int) string {
	q := url.Values{}
	for name, is := range map[string]string{"sort": sort, "find": find} {
		if is != "" {
			q.Set(name, is)
		}
	}
	if page > 0 {
		q.Set("page", strconv.Itoa(page+1))
	}
	return "?" + q.Encode()
}

// procSort returns a valid order: that of the address, else by name.
func procSort(text string) string {
	if procOrders()[strings.TrimPrefix(text, "-")] == nil {
		return "name"
	}
	return text
}

// procedureLines returns those of all procedures whose names contain a text, in order. What is in their schemas is missing.
func procedureLines(all []procNumbers, find, sort string) (lines []procedureLine) {
	for _, n := range all {
		if strings.Contains(strings.ToLower(n.Total.Name), strings.ToLower(find)) {
			lines = append(lines, newProcedureLine(n))
		}
	}
	order, down := procOrders()[strings.TrimPrefix(sort, "-")], strings.HasPrefix(sort, "-")
	slices.SortStableFunc(lines, func(x, y procedureLine) int { // the names are in order already
		if down {
			x, y = y, x
		}
		return order(x, y)
	})
	return lines
}

func newProcedureLine(n procNumbers) procedureLine {
	l := procedureLine{Name: n.Total.Name, numbers: n}
	l.p50, l.p99 = procQuantile(n.Recent.Took, 0.5), procQuantile(n.Recent.Took, 0.99)
	l.procShown = procShown{
		Rate: rateText(n.Rate), P50: procTime(n.Recent.Took, l.p50), P99: procTime(n.Recent.Took, l.p99), Errors: errorsText(n.Recent),
		Panics: numberText(n.Total.Panics), Fails: n.Recent.Errors > 0,
	}
	return l
}

// rateText formats a rate.
func rateText(perSecond float64) string {
	if perSecond < 100 {
		return numberText(perSecond)
	}
	return numberText(float64(int64(perSecond)))
}

// errorsText formats errors with their share of all runs.
func errorsText(st proc.Stat) string {
	if st.Errors == 0 {
		return "0"
	}
	return numberText(st.Errors) + " (" + shareText(st.Errors, st.Calls) + ")"
}

// procTotals sums up the numbers of all procedures.
func (a *Admin) procTotals(all []procNumbers) procTotals {
	var sum procNumbers
	for _, n := range all {
		sum.Rate += n.Rate
		sum.Total.Calls += n.Total.Calls
		sum.Total.Errors += n.Total.Errors
		sum.Total.Panics += n.Total.Panics
	}
	t := procTotals{Calls: numberText(sum.Total.Calls), Rate: rateText(sum.Rate), Errors: numberText(sum.Total.Errors), Panics: numberText(sum.Total.Panics)}
	for m := range a.o.Procedures.Metrics() {
		switch m.Name {
		case "proc_slow_total":
			t.Slow = numberText(m.Value)
		case "proc_running":
			t.Running = numberText(m.Value)
		}
	}
	return t
}

// procedures lists the procedures whose names contain a text, a page of them.
func (a *Admin) procedures(c *web.Context) error {
	find, sort := strings.TrimSpace(c.Query("find").String()), procSort(c.Query("sort").String())
	all, recent := a.procs.numbers()
	lines := procedureLines(all, find, sort)
	page, _ := strconv.Atoi(c.Query("page").String()) // malformed: the first one
	page = max(0, min(page-1, (len(lines)-1)/proceduresPage))
	locals := web.Locals{
		"title": a.text("Procedures"), "find": find, "sort": sort, "totals": a.procTotals(all), "columns": a.procColumns(sort, find), "recent": a.recently(recent),
		"count": len(all), "found": len(lines), "before": "", "after": "", "cluster": a.o.Cluster != nil,
	}
	if page > 0 {
		locals["before"] = procLink(sort, find, page-1)
	}
	if (page+1)*proceduresPage < len(lines) {
		locals["after"] = procLink(sort, find, page+1)
	}
	lines = lines[page*proceduresPage : min((page+1)*proceduresPage, len(lines))]
	for i := range lines {
		s, err := a.o.Procedures.Schema(lines[i].Name)
		if err != nil {
			return err
		}
		lines[i].Text, lines[i].ReadOnly, lines[i].Args, lines[i].Result = s.Text, s.ReadOnly, procArgsText(s.Args), procTypeText(s.Result, 0)
	}
	locals["lines"], locals["first"], locals["last"] = lines, page*proceduresPage+1, page*proceduresPage+len(lines)
	return a.show(c, http.StatusOK, "procedures", locals)
}

// recently says how long "recent" is.
func (a *Admin) recently(d time.Duration) string {
	if d < 2*time.Minute {
		return a.text("last %d s", int(d/time.Second))
	}
	return a.text("last %d min", int(d/time.Minute))
}

// procNews are what has changed in the list: all numbers are texts as the list shows them.
type procNews struct {
	Totals procTotals           `json:"totals"`
	Recent string               `json:"recent"`
	Lines  map[string]procShown `json:"lines"` // by name, those that differ from the event before
}

// proceduresLive streams the numbers of procedures while the list is open.
func (a *Admin) proceduresLive(c *web.Context) error {
	find := strings.TrimSpace(c.Query("find").String())
	a.samples.watchers.Add(1)
	defer a.samples.watchers.Add(-1)
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		shown := map[string]procShown{}
		for {
			_, next := a.samples.all()
			all, recent := a.procs.numbers()
			news := procNews{a.procTotals(all), a.recently(recent), map[string]procShown{}}
			for _, l := range procedureLines(all, find, "name") {
				if was, ok := shown[l.Name]; !ok || was != l.procShown {
					news.Lines[l.Name], shown[l.Name] = l.procShown, l.procShown
				}
			}
			if err := s.SendJSON(web.Event{Name: "numbers"}, news); err != nil {
				return err
			}
			select {
			case <-next:
			case <-s.Context().Done():
				return nil
			}
			if !a.lookAgain(c) {
				return nil
			}
		}
	})
}
