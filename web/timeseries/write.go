package timeseries

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/series"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/problem"
	"github.com/skerrydb/skerry/web/timeseries/lineproto"
)

// busyAgain is the Retry-After, in seconds, of a write that came too fast.
const busyAgain = "2"

// skippedHeader says how many strings of a write were left out: a sample is a number.
const skippedHeader = "X-Skerry-Skipped-Strings"

func (f *Face) writeV1(c *web.Context) error {
	return f.write(c, c.Query("db").String(), map[string]time.Duration{
		"": 1, "n": 1, "ns": 1, "u": time.Microsecond, "us": time.Microsecond, "µ": time.Microsecond,
		"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour,
	})
}

func (f *Face) writeV2(c *web.Context) error {
	return f.write(c, c.Query("bucket").String(), map[string]time.Duration{
		"": 1, "ns": 1, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
	})
}

func (f *Face) write(c *web.Context, collection string, precisions map[string]time.Duration) error {
	return problem.ForInfluxDB(f.writeLines(c, collection, precisions))
}

// writeLines stores the lines of a body. Lines that are refused do not prevent the others from being stored.
func (f *Face) writeLines(c *web.Context, collection string, precisions map[string]time.Duration) error {
	store, err := f.store(c, collection, true)
	if err != nil {
		return err
	}
	precision, ok := precisions[c.Query("precision").String()]
	if !ok {
		return engine.Errorf(engine.CodeInvalid, "the precision %.20q is not one of ns, us, ms and s", c.Query("precision").String())
	}
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	if body, err = decompressed(c.Request.Header.Get("Content-Encoding"), body); err != nil {
		return err
	}
	w := writers.Get().(*writer)
	defer writers.Put(w)
	pos, err := w.write(c, store, f.known.of(store), body, precision)
	if err != nil {
		if engine.CodeOf(err) == series.CodeBusy {
			c.Header().Set("Retry-After", busyAgain)
		}
		return err
	}
	if pos != 0 {
		c.Header().Set("X-Skerry-Position", strconv.FormatUint(uint64(pos), 10))
	}
	if w.strings > 0 {
		c.Header().Set(skippedHeader, strconv.Itoa(w.strings))
	}
	if w.refused == 0 {
		return c.NoContent()
	}
	return w.report(c)
}

// decompressed returns a body without its Content-Encoding.
func decompressed(coding string, body []byte) ([]byte, error) {
	switch strings.ToLower(coding) {
	case "", "identity":
		return body, nil
	case "gzip":
	default:
		return nil, engine.Errorf(engine.CodeInvalid, "the Content-Encoding %.20q is not gzip or identity", coding)
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "the body is not gzip: %v", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxBody+1))
	switch {
	case err != nil:
		return nil, engine.Errorf(engine.CodeInvalid, "the body is not whole gzip: %v", err)
	case len(out) > MaxBody:
		return nil, engine.Errorf(problem.CodeBodyTooLarge, "the body has more than %d bytes when it is decompressed", MaxBody)
	}
	return out, nil
}

// maxReads bounds how often a body is read whose series are forgotten each time.
const maxReads = 10

var writers = sync.Pool{New: func() any { return new(writer) }}

// writer stores the lines of one body. It is reused.
type writer struct {
	parser  lineproto.Parser
	line    lineproto.Line
	batch   series.Batch
	ids     []series.ID // of the fields of line
	missing []missing
	listed  map[missing]error // why the series of the fields in missing cannot be had, nil if they can
	lines   int               // seen so far
	stored  int               // with at least one sample
	refused int
	strings int
	faults  []lineFault
}

// lineFault is one refused line.
type lineFault struct {
	Line   int         `json:"line"` // from 1
	Code   engine.Code `json:"code"`
	Detail string      `json:"detail"`
}

func (w *writer) reset() {
	w.batch.Reset()
	w.missing = w.missing[:0]
	w.lines, w.stored, w.refused, w.strings, w.faults = 0, 0, 0, 0, w.faults[:0]
}

// write reads the body once if all series are known. Otherwise it defines those that are not, and reads the body
// again, so that samples stay in their order. It reads it once more if series were forgotten in between, or removed.
func (w *writer) write(ctx context.Context, s *series.Store, k *known, body []byte, precision time.Duration) (engine.Position, error) {
	w.listed = nil
	for range maxReads {
		w.read(s, k, body, precision)
		if len(w.missing) == 0 {
			pos, err := s.Append(ctx, &w.batch)
			if engine.CodeOf(err) != series.CodeGone {
				return pos, err
			}
			k.forget() // they are defined again
			continue
		}
		if err := w.define(ctx, s, k); err != nil {
			return 0, err
		}
	}
	return 0, engine.Errorf(series.CodeBusy, "too many new series are written at once; try again later")
}

// define defines the missing series.
func (w *writer) define(ctx context.Context, s *series.Store, k *known) error {
	var some []missing
	var labels []series.Labels
	for _, m := range w.missing {
		delete(w.listed, m)
		l, err := m.labels()
		if err != nil {
			w.listed[m] = err
			continue
		}
		some, labels = append(some, m), append(labels, l)
	}
	ids, err := s.Define(ctx, labels)
	if err != nil && engine.CodeOf(err) != series.CodeTooManySeries {
		return err
	}
	for i, id := range ids {
		if id == 0 {
			w.listed[some[i]] = err
		}
	}
	k.add(some, ids)
	return nil
}

// read gathers the samples of all lines whose series are known, and what is missing.
func (w *writer) read(s *series.Store, k *known, body []byte, precision time.Duration) {
	w.reset()
	oldest, newest := s.Bounds()
	now := time.Now().Truncate(precision).UnixNano()
	k.mu.RLock()
	defer k.mu.RUnlock()
	for len(body) > 0 {
		var line []byte
		line, body = lineproto.NextLine(body)
		w.lines++
		if lineproto.Blank(line) {
			continue
		}
		if err := w.parser.Parse(line, precision, &w.line); err != nil {
			w.refuse(err)
			continue
		}
		if !w.line.HasTime {
			w.line.Time = now
		}
		if w.line.Time < oldest || w.line.Time > newest {
			if err := s.Check(w.line.Time); err != nil { // the clock has moved on since
				w.refuse(err)
				continue
			}
		}
		w.add(k.lines[string(w.line.Series)])
	}
}

// add adds the samples of a line, all or none.
func (w *writer) add(fields []field) {
	w.ids = w.ids[:0]
	for i := range w.line.Fields {
		f := &w.line.Fields[i]
		id, ok := series.ID(0), f.Kind == lineproto.String
		if !ok {
			id, ok = find(fields, i, f.Key)
		}
		if !ok {
			w.unknown(fields)
			return
		}
		w.ids = append(w.ids, id)
	}
	numbers := 0
	for i, id := range w.ids {
		if f := &w.line.Fields[i]; f.Kind != lineproto.String {
			w.batch.Add(id, w.line.Time, f.Value)
			numbers++
		}
	}
	w.strings += len(w.ids) - numbers
	if numbers > 0 {
		w.stored++
	}
}

// unknown lists the series of the line that are missing, or refuses the line if some cannot be had.
func (w *writer) unknown(fields []field) {
	var failed error
	for i := range w.line.Fields {
		f := &w.line.Fields[i]
		if _, ok := find(fields, i, f.Key); ok || f.Kind == lineproto.String {
			continue
		}
		m := missing{string(w.line.Series), string(f.Key)}
		err, seen := w.listed[m]
		if !seen {
			if w.listed == nil {
				w.listed = map[missing]error{}
			}
			w.listed[m] = nil
			w.missing = append(w.missing, m)
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		w.refuse(failed)
	}
}

// refuse reports the current line. An error without a code is invalid.
func (w *writer) refuse(err error) {
	w.refused++
	if len(w.faults) >= MaxReported {
		return
	}
	code, detail := engine.CodeInvalid, err.Error()
	if e := (*engine.Error)(nil); errors.As(err, &e) {
		code, detail = e.Code, e.Msg
	}
	w.faults = append(w.faults, lineFault{w.lines, code, detail})
}

// report responds with the lines that were refused.
func (w *writer) report(c *web.Context) error {
	text := fmt.Sprintf("partial write: %d lines were refused and %d stored; line %d: %s", w.refused, w.stored, w.faults[0].Line, w.faults[0].Detail)
	p := problem.Problem{Title: http.StatusText(http.StatusBadRequest), Status: http.StatusBadRequest, Code: series.CodePartial, Detail: text, RequestID: c.RequestID()}
	p.Repeat()
	return c.JSON(http.StatusBadRequest, struct {
		problem.Problem
		Errors  []lineFault `json:"errors"`
		Refused int         `json:"refused"`
		Stored  int         `json:"stored"`
	}{p, w.faults, w.refused, w.stored})
}
