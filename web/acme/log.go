package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// bridge passes certmagic's log to slog. Its messages of level "info" report single steps, so they become
// level "debug"; the Manager logs the important ones itself.
type bridge struct {
	log    *slog.Logger
	fields []zapcore.Field
}

func zapLogger(l *slog.Logger) *zap.Logger { return zap.New(&bridge{log: l}) }

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Enabled implements zapcore.LevelEnabler.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.log.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (b *bridge) With(fields []zapcore.Field) zapcore.Core {
	return &bridge{log: b.log, fields: slices.Concat(b.fields, fields)}
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(b.fields, fields) {
		f.AddTo(enc)
	}
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(enc.Fields)) {
		attrs = append(attrs, slog.Any(name, enc.Fields[name]))
	}
	b.log.LogAttrs(context.Background(), slogLevel(e.Level), "certificates: "+e.Message, attrs...)
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }
