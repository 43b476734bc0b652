package mail

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// report is a fault without its secrets.
type report struct {
	ref, print       string
	time             time.Time
	code             engine.Code
	err              string
	stack            string
	method, path     string
	route, requestID string
	fields           []Field
	moreFields       int
	place            string // where it happened, for people; "": unknown
}

// seen is the state of one distinct fault.
type seen struct {
	latest *report // without fields and stack
	last   time.Time
	turn   int64    // the last report of it
	again  int      // since the last email about it
	refs   []string // references of those, the newest
	total  int
}

// report makes a report of a fault, without stack and fields. Everything in it is copied, bounded and free of
// secrets.
func (f *Faults) report(fault *Fault) *report {
	r := &report{
		ref: fault.Ref, time: time.Now(), code: engine.CodeOf(fault.Err),
		method: line(fault.Method), path: flat(scrubPath(fault.Path, fault.Route)),
		route: line(fault.Route), requestID: line(fault.RequestID),
	}
	if checkRef(r.ref) != nil || r.ref == "" {
		r.ref = NewRef()
	}
	r.err = "no error was given"
	if fault.Err != nil {
		r.err = scrubbed(message(fault.Err), MaxFaultValueBytes)
	}
	var frames string
	frames, r.place = origin(fault.Stack)
	if frames == "" {
		// Without a stack, the same error text on the same route is the same fault.
		frames = r.route + "\n" + numbers.ReplaceAllString(r.err, "#")
	}
	sum := sha256.Sum256([]byte(string(r.code) + "\n" + frames))
	r.print = hex.EncodeToString(sum[:6])
	return r
}

// detail adds stack and fields, which are only in the email about a single fault: searching them for secrets
// takes milliseconds.
func (r *report) detail(fault *Fault) {
	r.stack = scrubbed(string(fault.Stack), MaxFaultStackBytes)
	for i, field := range fault.Fields {
		if i == MaxFaultFields {
			r.moreFields = len(fault.Fields) - i
			break
		}
		r.fields = append(r.fields, scrubField(field))
	}
	// They may come from a map.
	slices.SortStableFunc(r.fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
}

// message returns an error's text. The Error method may be anyone's code, and may panic.
func message(err error) (s string) {
	defer func() {
		if p := recover(); p != nil {
			s = fmt.Sprintf("%T, whose Error method panics", err)
		}
	}()
	return err.Error()
}

// numbers matches the parts of an error's text that vary: quoted text, and words with a digit.
var numbers = regexp.MustCompile(`"[^"]*"|'[^']*'|[\w.:-]*\d[\w.:-]*`)

// originFrames is how many stack frames identify a fault.
const originFrames = 4

// origin returns the functions and lines where a stack began to unwind, and the first of them alone, without
// the parts that vary (arguments, addresses, the number of the goroutine).
func origin(stack []byte) (frames, place string) {
	lines := strings.Split(string(stack), "\n")
	// The frames below the line of panic() are those that panicked; without such a line all frames count.
	for i, l := range lines {
		if strings.HasPrefix(l, "panic(") {
			lines = lines[i:]
			break
		}
	}
	var b strings.Builder
	n := 0
	for i := 0; i+1 < len(lines) && n < originFrames; i++ {
		at, ok := strings.CutPrefix(lines[i+1], "\t")
		if !ok || lines[i] == "" || lines[i][0] == '\t' {
			continue
		}
		name := lines[i]
		if p := strings.LastIndexByte(name, '('); p > 0 {
			name = name[:p]
		}
		if name == "panic" || strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "runtime/") {
			continue
		}
		at, _, _ = strings.Cut(at, " +0x")
		fmt.Fprintf(&b, "%s %s\n", name, at)
		if n == 0 {
			place = fmt.Sprintf("%s (%s)", name, at[strings.LastIndexByte(at, '/')+1:])
		}
		n++
	}
	return b.String(), place
}

// cut shortens a text to at most n bytes and marks the cut.
func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf(" … (%d bytes more)", len(s)-n)
}

// line returns s, scrubbed, as one line of an email.
func line(s string) string { return flat(scrubbed(s, MaxFaultValueBytes)) }

// flat turns a text without secrets into one line.
func flat(s string) string {
	return strings.Map(func(r rune) rune {
		if breaks(r) {
			return ' '
		}
		return r
	}, cut(s, MaxFaultValueBytes))
}

// note records a report. first reports whether to send an email at once, n is how often the fault was seen.
func (f *Faults) note(r *report) (first bool, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.known[r.print]
	if s == nil {
		f.forget()
		s = &seen{}
		f.known[r.print] = s
		first = f.firsts < MaxFirstMails
		if first {
			f.firsts++
		}
	}
	s.total++
	f.turns++
	s.last, s.turn = r.time, f.turns
	brief := *r // without the fields of detail
	s.latest = &brief
	if !first {
		s.await(r.ref)
	}
	return first, s.total
}

// await counts one report for the next digest.
func (s *seen) await(ref string) {
	s.again++
	s.refs = append(s.refs, ref)
	if len(s.refs) > MaxFaultRefs {
		s.refs = s.refs[1:]
	}
}

// forget makes room for one more fault. The caller holds mu.
func (f *Faults) forget() {
	if len(f.known) < f.o.MaxFaults {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(f.known)), func(a, b string) int {
		return cmp.Compare(f.known[a].turn, f.known[b].turn)
	})
	f.others += f.known[oldest].again
	delete(f.known, oldest)
}

// postpone leaves a report to the next digest, because its email could not be sent.
func (f *Faults) postpone(r *report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.known[r.print]; s != nil {
		s.await(r.ref)
	} else {
		f.others++
	}
}

func (f *Faults) log(r *report, n int) {
	f.o.Logger.Error("fault", "ref", r.ref, "fault", r.print, "times", n, "code", string(r.code),
		"error", r.err, "place", r.place, "method", r.method, "path", r.path, "route", r.route,
		"request_id", r.requestID)
}

// first emails a new fault.
func (f *Faults) first(r *report) {
	if !f.send(r.ref, r.subject(), f.body(r)) {
		f.postpone(r)
	}
}

// last reports everything not yet reported, when Run stops.
func (f *Faults) last() {
	for {
		select {
		case r := <-f.queue:
			f.first(r)
		default:
			f.digest()
			return
		}
	}
}

// digest emails how often known faults recurred, if any did.
func (f *Faults) digest() {
	f.mu.Lock()
	var rows []seen
	for _, s := range f.known {
		if s.again > 0 {
			rows = append(rows, *s)
			s.again, s.refs = 0, nil
		}
	}
	others := f.others
	f.firsts, f.others = 0, 0
	f.mu.Unlock()
	if len(rows) == 0 && others == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b seen) int {
		return cmp.Or(cmp.Compare(b.again, a.again), cmp.Compare(a.turn, b.turn))
	})
	n := others
	for _, s := range rows {
		n += s.again
	}
	ref := NewRef()
	if f.send(ref, fmt.Sprintf("%d more faults", n), f.summary(rows, others)) {
		return
	}
	// Keep them for the next digest.
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others += others
	for _, row := range rows {
		if s := f.known[row.latest.print]; s != nil {
			s.again += row.again
			s.refs = slices.Concat(row.refs, s.refs)
			s.refs = s.refs[max(0, len(s.refs)-MaxFaultRefs):]
		} else {
			f.others += row.again
		}
	}
}

// send sends one email. It reports false if the faults must be reported again.
func (f *Faults) send(ref, subject, text string) bool {
	if f.o.Sender == nil || len(f.o.To) == 0 {
		return true
	}
	if f.o.Name != "" {
		subject = "[" + f.o.Name + "] " + subject
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendWithin) // even after the stop
	defer cancel()
	err := f.o.Sender.Send(ctx, Message{
		To: f.o.To, From: f.o.From, Subject: subject, Text: text, Ref: "fault-" + ref,
	})
	if err == nil {
		f.counts.mailed.Add(1)
		return true
	}
	f.counts.unmailed.Add(1)
	f.o.Logger.Error("mail about a fault was not accepted", "ref", ref, "code", string(engine.CodeOf(err)), "error", line(message(err)))
	return false
}

// subject returns one line that identifies the fault in a mailbox.
func (r *report) subject() string {
	what, _, _ := strings.Cut(r.err, "\n")
	const most = 120 // mailboxes show no more
	if what = flat(what); len(what) > most {
		what = strings.ToValidUTF8(what[:most], "") + "…"
	}
	return "fault " + r.ref + ": " + what
}

// body returns the text of an email about one fault.
func (f *Faults) body(r *report) string {
	var b bytes.Buffer
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-11s %s\n", name+":", value)
		}
	}
	fmt.Fprintf(&b, "%s\n\n", r.err)
	row("reference", r.ref)
	row("fault", r.print+" (the same one is not mailed again, only counted)")
	row("code", string(r.code))
	row("place", r.place)
	row("time", r.time.UTC().Format(time.RFC3339Nano))
	row("node", f.o.Node)
	row("version", f.o.Version)
	row("request", strings.TrimSpace(r.method+" "+r.path))
	row("route", r.route)
	row("request id", r.requestID)
	if len(r.fields) > 0 {
		b.WriteString("\n")
		for _, field := range r.fields {
			fmt.Fprintf(&b, "%s: %s\n", field.Name, field.Value)
		}
	}
	if r.moreFields > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.moreFields)
	}
	if r.stack != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(r.stack, "\n"))
	}
	return b.String()
}

// summary returns the text of a digest.
func (f *Faults) summary(rows []seen, others int) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Faults since the last mail; the log has each of them under its reference.\nnode: %s\nversion: %s\n", f.o.Node, f.o.Version)
	for _, s := range rows {
		r := s.latest
		fmt.Fprintf(&b, "\n%d × %s\n  fault: %s, %d in all, last at %s\n", s.again, cut(flat(r.err), 300), r.print, s.total, s.last.UTC().Format(time.RFC3339))
		if r.place != "" {
			fmt.Fprintf(&b, "  place: %s\n", r.place)
		}
		if r.path != "" {
			fmt.Fprintf(&b, "  last request: %s %s\n", r.method, r.path)
		}
		fmt.Fprintf(&b, "  references: %s\n", strings.Join(s.refs, " "))
	}
	if others > 0 {
		fmt.Fprintf(&b, "\n%d of faults that are no longer remembered\n", others)
	}
	return b.String()
}

// refDigits omits characters that are easily confused when read out.
const refDigits = "abcdefghjkmnpqrstuvwxyz23456789"

// NewRef returns a new reference for a fault: 10 random digits (49 bits), short enough to read out on the phone.
func NewRef() string {
	b := make([]byte, 10)
	_, _ = rand.Read(b)
	for i := range b {
		b[i] = refDigits[int(b[i])%len(refDigits)] // the slight bias does not matter here
	}
	return string(b)
}
