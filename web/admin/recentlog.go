package admin

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skerrydb/skerry/mail"
)

const (
	maxLogLines     = 1000
	maxLogLineBytes = 4 << 10
)

// RecentLog keeps the newest lines of a server's log, from level warn on, whatever the log itself keeps. It is safe for
// concurrent use.
type RecentLog struct {
	mu    sync.Mutex // guards the fields below
	lines []logLine  // the newest last
	count int        // of all lines so far
}

// logLine is one line of the log.
type logLine struct {
	N     int // counts from 1
	At    time.Time
	Level string
	Text  string // the message
	Attrs string // key=value …
}

// Handler returns a handler that keeps lines and passes them on to next.
func (l *RecentLog) Handler(next slog.Handler) slog.Handler {
	return &recentHandler{log: l, next: next}
}

func (l *RecentLog) add(line logLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	line.N = l.count
	if len(l.lines) == maxLogLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
}

// find returns up to n of the newest lines before a number that contain text, the newest first; 0 is no number.
func (l *RecentLog) find(before, n int, errorsOnly bool, text string) (found []logLine, more bool) {
	if l == nil {
		return nil, false
	}
	l.mu.Lock()
	lines := slices.Clone(l.lines)
	l.mu.Unlock()
	for _, line := range slices.Backward(lines) {
		switch {
		case before > 0 && line.N >= before, errorsOnly && line.Level != slog.LevelError.String():
		case !strings.Contains(strings.ToLower(line.Text+" "+line.Attrs), strings.ToLower(text)):
		case len(found) == n:
			return found, true
		default:
			found = append(found, line)
		}
	}
	return found, false
}

// recentHandler is a handler for one RecentLog.
type recentHandler struct {
	log  *RecentLog
	next slog.Handler
	with []func(slog.Handler) slog.Handler // the groups and attributes so far
}

// Enabled implements slog.Handler.
func (h *recentHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *recentHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn {
		h.log.add(logLine{At: r.Time, Level: r.Level.String(), Text: shorten(r.Message, maxLogLineBytes), Attrs: h.attrs(ctx, r)})
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// attrs returns the attributes of a record as text. Such records are rare, so it may cost something.
func (h *recentHandler) attrs(ctx context.Context, r slog.Record) string {
	var b bytes.Buffer
	var text slog.Handler = slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	for _, with := range h.with {
		text = with(text)
	}
	_ = text.Handle(ctx, r) // to memory
	return mail.Redacted(strings.TrimSuffix(b.String(), "\n"), maxLogLineBytes)
}

// WithAttrs implements slog.Handler.
func (h *recentHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.plus(func(x slog.Handler) slog.Handler { return x.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h *recentHandler) WithGroup(name string) slog.Handler {
	return h.plus(func(x slog.Handler) slog.Handler { return x.WithGroup(name) })
}

func (h *recentHandler) plus(with func(slog.Handler) slog.Handler) slog.Handler {
	return &recentHandler{h.log, with(h.next), append(slices.Clip(h.with), with)}
}
