package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/keyspace"
	"github.com/skerrydb/skerry/kv"
	"github.com/skerrydb/skerry/web"
)

// Actions of the log that tell of backups. The second one of a pair says that the first has succeeded.
const (
	actionBackup     = "backup.take"
	actionBackupDone = "backup.taken"

	actionVerify       = "backup.verify"
	actionVerified     = "backup.verified"
	actionRestore      = "backup.restore"
	actionRestored     = "backup.restored"
	actionDownload     = "backup.download"
	actionDelete       = "backup.delete"
	actionStop         = "backup.stop"
	actionArchiveCheck = "archive.verify"
	actionArchiveSound = "archive.verified"
	actionAtRestore    = "archive.restore"
	actionAtRestored   = "archive.restored"
)

const (
	backupsShown    = 10    // last backups
	maxBackupLines  = 5_000 // lines of the log of actions that are read to find them
	maxBackupsAtOne = 2     // that one node writes at once: each keeps a snapshot
)

func (a *Admin) addBackups(g *web.Group) {
	private := g.Group("/backups", superadmin)
	private.Get("", a.backupsPage)
	private.Get("/live", a.backupsLive)
	private.Post("/take", a.takeBackup)
	private.Post("/stop", a.stopJob)
	if a.o.Backups != nil {
		private.Post("/folder/take", a.takeIntoFolder)
		private.Post("/folder/verify", a.verifyFile)
		private.Post("/folder/download", a.downloadFile)
		private.Post("/folder/delete", a.deleteFile)
		private.Post("/folder/restore", a.restoreFile)
	}
	if a.o.Archive != nil {
		private.Post("/archive/verify", a.verifyArchive)
		if a.o.Backups != nil {
			private.Post("/archive/restore", a.restoreMoment)
		}
	}
}

// archiveFacts are what the metrics of this node say of its archive.
type archiveFacts struct {
	On, Failing bool
	Position    float64
	Time        time.Time
	Bases, Lost float64
}

func (a *Admin) archiveFacts() (f archiveFacts) {
	if a.o.Metrics == nil {
		return f
	}
	for m := range a.o.Metrics() {
		switch m.Name {
		case "archive_position":
			f.On, f.Position = true, m.Value
		case "archive_time_seconds":
			if m.Value > 0 {
				f.Time = time.UnixMicro(int64(m.Value * 1e6))
			}
		case "archive_bases_total":
			f.Bases = m.Value
		case "archive_lost_total":
			f.Lost = m.Value
		case "archive_failing":
			f.Failing = m.Value != 0
		}
	}
	return f
}

func (a *Admin) backupsPage(c *web.Context) error {
	return a.showBackups(c, http.StatusOK, nil)
}

// showBackups renders the page, with an error that an action has met.
func (a *Admin) showBackups(c *web.Context, status int, met error) error {
	last, err := a.lastBackups(c)
	if err != nil {
		return err
	}
	scheme := "http"
	if c.Secure() {
		scheme = "https"
	}
	problem := ""
	if met != nil {
		problem = c.Detail(met)
	}
	running, past, _ := a.jobs.list()
	dir := a.o.Dir
	lead, self := a.leadsHere()
	return a.show(c, status, "backups", web.Locals{
		"title": a.text("Backups"), "last": last, "archive": a.archiveFacts(), "url": shellWord(scheme + "://" + c.Request.Host), "data": shellWord(dir), "new_folder": shellWord(cmp.Or(dir, "/var/lib/skerry") + "-new"),
		"name": a.backupName(a.o.Now()), "cluster": a.o.Cluster != nil, "embedded": dir != "", "problem": problem,
		"folder": a.folderView(), "reach": a.reachView(), "running": a.jobViews(running), "past": a.jobViews(past), "version": a.backupsVersion(),
		"lead": lead, "self": self, "trial": "trial-" + a.o.Now().UTC().Format("20060102-1504"),
	})
}

// leadsHere reports whether this node does what forms of the page ask for, and its number: other nodes forward all forms to the leader,
// whose folders are others.
func (a *Admin) leadsHere() (bool, uint64) {
	if a.o.Cluster == nil {
		return true, 0
	}
	s := a.o.Cluster.State()
	return s.Leader == s.Self, s.Self
}

// here fails if the form of a request was that of another node, which led before or does not lead.
func (a *Admin) here(c *web.Context) error {
	_, self := a.leadsHere()
	if node := c.Form("node").String(); node != strconv.FormatUint(self, 10) {
		return engine.Errorf(engine.CodeConflict, "the page was that of node %s, but node %d leads now and has other files; look at the page again", cmp.Or(node, "?"), self)
	}
	return nil
}

// answer goes back to the page after an action that returned err.
func (a *Admin) answer(c *web.Context, notice string, err error) error {
	switch engine.CodeOf(err) {
	case "":
		return a.done(c, "/backups", notice)
	case engine.CodeInvalid:
		return a.showBackups(c, http.StatusUnprocessableEntity, err)
	case engine.CodeConflict, engine.CodeQueueFull, engine.CodeNotFound:
		return a.showBackups(c, http.StatusConflict, err)
	}
	return err
}

// backupName returns the name of the file of a backup: the server's folder and the time.
func (a *Admin) backupName(at time.Time) string {
	name := "skerry"
	if base := filepath.Base(a.o.Dir); a.o.Dir != "" && base != "." && base != "/" {
		name = base
	}
	return name + "-" + at.UTC().Format("20060102T150405Z") + ".skerry"
}

// lastBackups returns the newest lines of the log about backups that were taken here.
func (a *Admin) lastBackups(ctx context.Context) (all []Line, err error) {
	_, err = a.o.Store.View(ctx, engine.Read{Level: engine.Local}, keyspace.AdminPage, func(t *kv.Tx) error {
		all = nil
		read := 0
		for it, err := range t.ScanPrefixBack([]byte(logPrefix)) {
			if err != nil {
				return err
			}
			if read++; read > maxBackupLines || len(all) == backupsShown {
				return nil
			}
			var l Line
			if err := json.Unmarshal(it.Val, &l); err != nil {
				return engine.Errorf(engine.CodeCorrupt, "a line of the log: %w", err)
			}
			if l.Action == actionBackupDone || l.Action == actionBackup && l.Failed != "" {
				all = append(all, l)
			}
		}
		return nil
	})
	return all, err
}

// errBrokeOff is why a backup ended whose client went away.
var errBrokeOff = errors.New("the download broke off")

// takeBackup streams a backup as a download.
func (a *Admin) takeBackup(c *web.Context) error {
	if a.backups.Add(1) > maxBackupsAtOne {
		a.backups.Add(-1)
		return engine.Errorf(engine.CodeQueueFull, "%d backups are being taken; wait until one is done", maxBackupsAtOne)
	}
	defer a.backups.Add(-1)
	name := a.backupName(a.o.Now())
	return a.act(c, actionBackup, name, "", func() error {
		from, to := io.Pipe()
		ctx, cancel := context.WithCancel(c)
		written := &counter{w: to}
		type outcome struct {
			pos engine.Position
			err error
		}
		ended := make(chan outcome, 1)
		go func() {
			pos, err := a.o.Backup(ctx, written)
			to.CloseWithError(err) // nil: the end of the file
			ended <- outcome{pos, err}
		}()
		c.Attachment(name)
		err := c.Stream(http.StatusOK, "application/octet-stream", from)
		from.CloseWithError(errBrokeOff)
		cancel()
		o := <-ended
		if errors.Is(o.err, errBrokeOff) || errors.Is(o.err, context.Canceled) {
			return a.write(c, person(c), actionBackup, name, "", errBrokeOff) // nobody is there to be answered
		}
		if err = cmp.Or(err, o.err); err != nil {
			return err
		}
		a.record(c, person(c), actionBackupDone, name, a.text("position %s, %s", position(o.pos), byteText(written.n)))
		return nil
	})
}

// counter counts the bytes that it passes on.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
