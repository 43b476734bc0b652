package mail

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Limits of Faults.
const (
	// DefaultMaxFaults is how many distinct faults are remembered if
	// FaultsOptions.MaxFaults is 0. A new one replaces the one that was not seen
	// for the longest time.
	DefaultMaxFaults = 256
	// MaxFirstMails is how many mails about new faults are sent within one
	// FaultsOptions.Every; the next digest reports the others.
	MaxFirstMails = 10
	// MaxFaultQueue is how many reports may wait to be mailed.
	MaxFaultQueue = 64
	// MaxFaultFields limits the reported fields of a fault; the rest are only counted.
	MaxFaultFields = 100
	// MaxFaultValueBytes limits the reported bytes of one value of a fault.
	MaxFaultValueBytes = 2 << 10
	// MaxFaultStackBytes limits the reported bytes of a stack.
	MaxFaultStackBytes = 32 << 10
	// MaxFaultRefs is how many references of one fault a digest names.
	MaxFaultRefs = 5
	// DefaultFaultsEvery is the time between digests if FaultsOptions.Every is 0.
	DefaultFaultsEvery = 10 * time.Minute
)

// Field is a detail of a fault, such as a header or a form value.
type Field struct{ Name, Value string }

// Fault is an internal error or a panic, as the face that caught it describes it. Everything in it may contain
// secrets; Report redacts them.
type Fault struct {
	Ref       string  // shown to the user, see NewRef; "": Report makes one
	Err       error   // the error; for a panic its value as an error
	Stack     []byte  // as runtime/debug.Stack prints it; nil: none
	Method    string  // of the request; all "" if there was none
	Path      string  // with its query
	Route     string  // the pattern that matched, e.g. /reset/{token}
	RequestID string  //
	Fields    []Field // headers and values of the request, in any order
}

// FaultsOptions configures Faults. Zero means the default unless stated otherwise.
type FaultsOptions struct {
	Sender    Sender   // nil: faults are only logged and counted
	To        []string // recipients of the emails; empty: nobody, as with a nil Sender
	From      string   // "": the sender's default
	Name      string   // of the application, for the subject
	Node      string   // which of its nodes this is
	Version   string   // of the program
	Every     time.Duration
	MaxFaults int
	Logger    *slog.Logger // nil: slog.Default()
}

// Faults reports a program's faults to its operators: immediately by one email for each distinct fault, and
// after that by digests of how often faults recurred, at most one in every FaultsOptions.Every. Whether email
// works or not, each report is logged and counted.
type Faults struct {
	o      FaultsOptions
	queue  chan *report
	counts struct{ reported, mailed, unmailed atomic.Int64 }

	mu     sync.Mutex       // guards what follows
	known  map[string]*seen // by fingerprint
	turns  int64            // number of reports
	firsts int              // emails about new faults since the last digest
	others int              // reports of faults that were forgotten before a digest
}

// NewFaults checks the options. Mistakes are CodeInvalid.
func NewFaults(o FaultsOptions) (*Faults, error) {
	if o.Every < 0 || o.MaxFaults < 0 {
		return nil, engine.Errorf(engine.CodeInvalid, "mail about faults: a limit or time is negative")
	}
	if err := checkLine("application's name", o.Name, MaxRefBytes); err != nil {
		return nil, err
	}
	o.Every = cmp.Or(o.Every, DefaultFaultsEvery)
	o.MaxFaults = cmp.Or(o.MaxFaults, DefaultMaxFaults)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Sender != nil && len(o.To) > 0 {
		if _, err := check(Message{To: o.To, From: o.From, Text: "-"}, outboxFrom); err != nil {
			return nil, engine.Errorf(engine.CodeInvalid, "mail about faults: %w", err)
		}
	}
	return &Faults{o: o, queue: make(chan *report, MaxFaultQueue), known: map[string]*seen{}}, nil
}

// Report logs and counts a fault; Run emails it later. Report returns the fault's reference, for the user's
// page. It never blocks and never fails. The caller may reuse fault as soon as it has returned.
func (f *Faults) Report(fault Fault) string {
	r := f.report(&fault)
	f.counts.reported.Add(1)
	first, n := f.note(r)
	f.log(r, n)
	if !first {
		return r.ref
	}
	r.detail(&fault)
	select {
	case f.queue <- r:
	default:
		f.postpone(r)
	}
	return r.ref
}

// sendWithin bounds how long one call of a Sender may take.
const sendWithin = 30 * time.Second

// Run sends the emails until ctx ends, and then reports everything not yet reported. It returns nil.
func (f *Faults) Run(ctx context.Context) error {
	tick := time.NewTicker(f.o.Every)
	defer tick.Stop()
	for {
		select {
		case r := <-f.queue:
			f.first(r)
		case <-tick.C:
			f.digest()
		case <-ctx.Done():
			f.last()
			return nil
		}
	}
}

// Metrics yields how many faults were reported and emailed. It may be called at any time.
func (f *Faults) Metrics() iter.Seq[engine.Metric] {
	return func(yield func(engine.Metric) bool) {
		f.mu.Lock()
		known := len(f.known)
		f.mu.Unlock()
		for _, m := range []engine.Metric{
			{Name: "faults_total", Help: "Panics and internal errors that were reported.", Counter: true, Value: float64(f.counts.reported.Load())},
			{Name: "faults_distinct", Help: "Distinct faults that are remembered.", Value: float64(known)},
			{Name: "fault_mails_total", Help: "Emails about faults that the sender accepted.", Counter: true, Value: float64(f.counts.mailed.Load())},
			{Name: "fault_mails_failed_total", Help: "Emails about faults that the sender did not accept.", Counter: true, Value: float64(f.counts.unmailed.Load())},
		} {
			if !yield(m) {
				return
			}
		}
	}
}
