package serve

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
)

// archiveOptions are the settings of a server's archive.
type archiveOptions struct {
	dir  string
	keep time.Duration
}

// maxKeep bounds --archive-keep to what a time.Duration can represent.
const maxKeep = 100 * 365 * 24 * time.Hour

func (o *archiveOptions) settings() []verb.Setting {
	return []verb.Setting{
		{Name: "archive", Arg: "DIR", Help: "folder to archive a base backup and every change in, for restore --at", Server: true, Set: verb.Text(&o.dir)},
		{Name: "archive-keep", Arg: "TIME", Help: "how far back to keep the archive, like 168h (default forever)", Server: true, Set: verb.Duration(&o.keep, time.Minute, maxKeep)},
	}
}

// start archives eng in the background, if an archive is configured; otherwise a is nil. A folder that cannot be an archive is an
// error now; later failures are logged and retried.
func (o *archiveOptions) start(eng engine.Engine, log *slog.Logger) (a *archive.Archiver, stop func() error, err error) {
	if o.dir == "" {
		return nil, func() error { return nil }, nil
	}
	src, ok := eng.(archive.Source)
	if !ok {
		return nil, nil, engine.Errorf(engine.CodeUnsupported, "this engine cannot be archived: it has no backups")
	}
	a, err = archive.Open(o.dir, archive.Options{Verify: VerifyBase, Keep: o.keep, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := a.Run(ctx, src); err != nil {
			log.Error("archiving ended", "archive", o.dir, "err", err)
		}
	}()
	stop = func() error {
		cancel()
		<-ended
		return a.Close()
	}
	return a, stop, nil
}

// archiveMetrics yields the metrics of an archive for /metrics.
func archiveMetrics(s archive.Status) iter.Seq[engine.Metric] {
	failing := 0.0
	if s.Err != nil {
		failing = 1
	}
	return slices.Values([]engine.Metric{
		{Name: "archive_position", Help: "Position up to which everything is archived.", Value: float64(s.Position)},
		{Name: "archive_time_seconds", Help: "Time of that transaction, since the Unix epoch.", Value: float64(s.Time.UnixMicro()) / 1e6},
		{Name: "archive_bases_total", Help: "Bases taken since the start.", Counter: true, Value: float64(s.Bases)},
		{Name: "archive_lost_total", Help: "Gaps in the archive because the history did not reach back far enough.", Counter: true, Value: float64(s.Lost)},
		{Name: "archive_failing", Help: "1 while archiving fails; the log has the cause.", Value: failing},
	})
}

// VerifyBase verifies a base of an archive, which is a backup.
func VerifyBase(r io.Reader) (archive.Summary, error) {
	sum, err := embedded.VerifyBackup(r)
	return archive.Summary(sum), err
}
