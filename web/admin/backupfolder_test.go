package admin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/archive"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/ci/eventually"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/embedded"
	"github.com/skerrydb/skerry/kv"
)

// keeper is a server with a folder of backups and an archive.
type keeper struct {
	*world

	services *skerry.Services
	folder   *backups.Folder
	archive  string                                                 // folder
	take     atomic.Pointer[func(context.Context, io.Writer) error] // runs before a backup; nil: nothing
}

func startKeeper(t *testing.T) *keeper {
	t.Helper()
	k := &keeper{archive: t.TempDir()}
	quiet := slog.New(slog.DiscardHandler)
	var o skerry.Options
	o.Web.Application = func(s *skerry.Services) (http.Handler, error) {
		k.services = s
		return http.NotFoundHandler(), nil
	}
	k.world = startWith(t, o, func(db *embedded.DB, o *skerry.Options) {
		var err error
		if k.folder, err = backups.Open(filepath.Join(t.TempDir(), "backups"), backups.Options{
			Logger: quiet,
			Backup: func(ctx context.Context, w io.Writer) (engine.Position, error) {
				if before := k.take.Load(); before != nil {
					if err := (*before)(ctx, w); err != nil {
						return 0, err
					}
				}
				return db.Backup(ctx, w)
			},
			Verify: func(r io.Reader) (backups.Summary, error) {
				sum, err := embedded.VerifyBackup(r)
				return backups.Summary(sum), err
			},
			Restore: func(ctx context.Context, r io.Reader, dir string) (backups.Summary, error) {
				sum, err := embedded.Restore(ctx, r, dir, embedded.Options{Logger: quiet})
				return backups.Summary(sum), err
			},
		}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := k.folder.Close(); err != nil {
				t.Error(err)
			}
		})
		o.Backups = k.folder
		o.Archive = k.archives(t, db)
	})
	return k
}

// archives archives db until the test ends, and returns what the page does with it.
func (k *keeper) archives(t *testing.T, db *embedded.DB) *skerry.Archive {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	verify := func(r io.Reader) (archive.Summary, error) {
		sum, err := embedded.VerifyBackup(r)
		return archive.Summary(sum), err
	}
	arch, err := archive.Open(k.archive, archive.Options{Verify: verify, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- arch.Run(ctx, db) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, arch.Close()); err != nil {
			t.Error(err)
		}
	})
	return &skerry.Archive{
		Dir:   k.archive,
		Reach: func() (archive.Reach, error) { return archive.ReachOf(nil, k.archive, arch.Status()) },
		Check: func(context.Context, *backups.Progress) (archive.Report, error) {
			return archive.Check(nil, k.archive, verify, nil)
		},
		Restore: func(ctx context.Context, target archive.Target, dir string, _ *backups.Progress) (archive.Summary, string, error) {
			plan, err := archive.Find(nil, k.archive, target)
			if err != nil {
				return archive.Summary{}, "", err
			}
			base, err := plan.OpenBase()
			if err != nil {
				return archive.Summary{}, "", err
			}
			defer base.Close()
			sum, err := embedded.RestoreChanges(ctx, base, plan.Changes(), dir, embedded.Options{Logger: quiet})
			return archive.Summary(sum), plan.Note, err
		},
	}
}

// ended waits until no job runs and returns the page.
func (k *keeper) ended(c *client) *answer {
	k.t.Helper()
	var page *answer
	eventually.True(k.t, "the job has ended", func() bool {
		page = c.get("/admin/backups").expect(200)
		return !strings.Contains(page.Body, `name="job"`)
	})
	return page
}

// list returns the files.
func (k *keeper) list() []backups.File {
	k.t.Helper()
	all, err := k.folder.Files()
	if err != nil {
		k.t.Fatal(err)
	}
	return all
}

// restored returns the value of a key in a restored folder.
func restored(t *testing.T, dir, key string) string {
	t.Helper()
	db, err := embedded.Open(dir, embedded.Options{Logger: slog.New(slog.DiscardHandler), LogReserveBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	store, err := kv.New(db, kv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	val, _, _, err := store.Get(t.Context(), engine.Read{}, 16, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	return string(val.Val)
}

// TestFolderOfBackups: one is taken, verified, restored, downloaded and deleted, and each is in the log of actions.
func TestFolderOfBackups(t *testing.T) {
	t.Parallel()
	k := startKeeper(t)
	setLiveKey(t, k.services, 16, "fish", "cod")
	c := k.anna()
	c.get("/admin/backups").expect(200, "The folder has no backups yet.", k.folder.Dir(), "none: set --backup-every")
	c.post("/admin/backups/folder/take", "node", "0").expect(200, "Started.")
	k.ended(c).expect(200, "verified", "the newest verified one", "Take a backup", email)
	one := k.list()[0]
	c.get("/admin/log").expect(200, "backup.take", "backup.taken", one.Name)

	c.post("/admin/backups/folder/verify", "node", "0", "file", one.Name).expect(200)
	k.ended(c).expect(200, "verified: position")
	setLiveKey(t, k.services, 16, "fish", "herring")
	c.post("/admin/backups/folder/restore", "node", "0", "file", one.Name, "name", "trial").expect(200)
	dir := filepath.Join(k.folder.Dir(), "restored", "trial")
	k.ended(c).expect(200, "skerry serve --data "+dir)
	if got := restored(t, dir, "fish"); got != "cod" {
		t.Errorf("the restored folder has %q", got)
	}
	c.post("/admin/backups/folder/restore", "node", "0", "file", one.Name, "name", "trial").expect(409, "exists already")

	got := c.post("/admin/backups/folder/download", "node", "0", "file", one.Name).expect(200)
	if sum, err := embedded.VerifyBackup(strings.NewReader(got.Body)); err != nil || sum.Keys != one.Summary.Keys || !strings.Contains(got.Header.Get("Content-Disposition"), one.Name) {
		t.Errorf("the download: %+v, %v, %s", sum, err, got.Header)
	}
	c.post("/admin/backups/folder/delete", "node", "0", "file", one.Name).expect(409, "confirm that it may go")
	c.post("/admin/backups/folder/delete", "node", "0", "file", one.Name, "last", "1").expect(200, "Deleted.", "The folder has no backups yet.")
	c.get("/admin/log").expect(200, "backup.verify", "backup.verified", "backup.restore", "backup.restored", "backup.download", "backup.delete")
}

// TestFolderMistakes: names that lead elsewhere, damaged files, pages of other nodes and people who may not.
func TestFolderMistakes(t *testing.T) {
	t.Parallel()
	k := startKeeper(t)
	c := k.anna()
	c.post("/admin/backups/folder/take", "node", "0").expect(200)
	k.ended(c)
	one := k.list()[0]
	for _, name := range []string{"", "..", "../up", "/tmp/x", "a/b", ".x", "a\x00", strings.Repeat("x", 65)} {
		c.post("/admin/backups/folder/restore", "node", "0", "file", one.Name, "name", name).expect(422, "cannot be the name of a new folder")
		c.post("/admin/backups/archive/restore", "node", "0", "name", name).expect(422, "cannot be the name of a new folder")
	}
	for _, file := range []string{"", "../x.skerry", "/etc/passwd", "verified.json", "LOCK", hostileLive} {
		c.post("/admin/backups/folder/download", "node", "0", "file", file).expect(409, "has no file").lacks("<script>alert")
		c.post("/admin/backups/folder/delete", "node", "0", "file", file, "last", "1").expect(409, "has no file")
		c.post("/admin/backups/folder/verify", "node", "0", "file", file).expect(200)
		k.ended(c).expect(200, "has no file").lacks("<script>alert")
		c.post("/admin/backups/folder/restore", "node", "0", "file", file, "name", "trial").expect(200)
		k.ended(c)
	}
	if dirs, err := k.folder.Restored(); err != nil || len(dirs) > 0 {
		t.Errorf("something was restored: %q %v", dirs, err)
	}
	if err := os.Truncate(filepath.Join(k.folder.Dir(), one.Name), one.Size-7); err != nil {
		t.Fatal(err)
	}
	c.get("/admin/backups").expect(200, "not yet").lacks("the newest verified one</td>")
	c.post("/admin/backups/folder/verify", "node", "0", "file", one.Name).expect(200)
	k.ended(c).expect(200, `<span class="badge wrong">corrupt</span>`)
	c.post("/admin/backups/folder/take", "node", "7").expect(409, "that of node 7")
	c.post("/admin/backups/archive/restore", "node", "0", "name", "trial", "at", "monday").expect(422, "is not a time")
	c.post("/admin/backups/stop", "node", "0", "job", "99").expect(409, "has ended")

	v, stranger := k.liveViewer(), k.client()
	for _, path := range []string{"folder/take", "folder/verify", "folder/download", "folder/delete", "folder/restore", "archive/verify", "archive/restore", "stop"} {
		v.post("/admin/backups/"+path, "node", "0", "file", one.Name, "name", "trial").expect(403)
		stranger.post("/admin/backups/"+path, "node", "0", "file", one.Name, "name", "trial").lacks("Folder of backups")
	}
	v.get("/admin/backups/live").expect(403)
	if len(k.list()) != 1 {
		t.Errorf("%+v", k.list())
	}
}

// TestOneJob: while a job runs there is no other; it can be stopped, and a failure is shown and in the log.
func TestOneJob(t *testing.T) {
	t.Parallel()
	k := startKeeper(t)
	c := k.anna()
	block := func(ctx context.Context, w io.Writer) error {
		_, _ = w.Write([]byte("12345"))
		<-ctx.Done()
		return ctx.Err()
	}
	k.take.Store(&block)
	c.post("/admin/backups/folder/take", "node", "0").expect(200)
	var page *answer
	eventually.True(t, "the page shows the bytes", func() bool {
		page = c.get("/admin/backups")
		return strings.Contains(page.Body, `<span id="far">5 B</span>`)
	})
	c.post("/admin/backups/archive/verify", "node", "0").expect(409, "still runs")
	number := regexp.MustCompile(`name="job" value="(\d+)"`).FindStringSubmatch(page.Body)
	if number == nil {
		t.Fatal(page.Body)
	}
	c.post("/admin/backups/stop", "node", "0", "job", number[1]).expect(200, "Stopping.")
	k.ended(c).expect(200, "stopped", "The folder has no backups yet.")
	fails := func(context.Context, io.Writer) error { return engine.Errorf(engine.CodeDiskFull, "no space <left>") }
	k.take.Store(&fails)
	c.post("/admin/backups/folder/take", "node", "0").expect(200)
	k.ended(c).expect(200, "no space &lt;left&gt;")
	c.get("/admin/log").expect(200, "no space &lt;left&gt;", "stopped")
	for range 12 {
		c.post("/admin/backups/folder/take", "node", "0").expect(200)
		k.ended(c)
	}
	if n := strings.Count(c.get("/admin/backups").Body, "<td>Take a backup<br>"); n != 10 {
		t.Errorf("%d outcomes are kept, want 10", n)
	}
}

// TestReach: the page says what the archive can restore, reads every byte, and restores a moment.
func TestReach(t *testing.T) {
	t.Parallel()
	k := startKeeper(t)
	setLiveKey(t, k.services, 16, "fish", "cod")
	c := k.anna()
	eventually.True(t, "a base", func() bool { return strings.Contains(c.get("/admin/backups").Body, `class="span"`) })
	c.post("/admin/backups/archive/verify", "node", "0").expect(200)
	k.ended(c).expect(200, "verified: ", "what can be restored: ")
	eventually.True(t, "the key is archived", func() bool {
		r, err := archive.ReachOf(nil, k.archive, archive.Status{})
		if err != nil || len(r.Spans) != 1 {
			return false
		}
		c.post("/admin/backups/archive/restore", "node", "0", "name", "m1").expect(200)
		k.ended(c)
		dir := filepath.Join(k.folder.Dir(), "restored", "m1")
		if restored(t, dir, "fish") == "cod" {
			return true
		}
		return os.RemoveAll(dir) != nil
	})
	c.post("/admin/backups/archive/restore", "node", "0", "name", "m2", "at", "1960-01-01 00:00").expect(200)
	k.ended(c).expect(200, "before the archive&#39;s oldest base")
	if _, err := os.Stat(filepath.Join(k.folder.Dir(), "restored", "m2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a restore that failed left a folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(k.archive, "log", "00000000000000000001.part"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.post("/admin/backups/archive/verify", "node", "0").expect(200)
	k.ended(c).expect(200, "the archive is damaged: ")
	c.get("/admin/log").expect(200, "archive.verify", "archive.verified", "archive.restore", "archive.restored")
}

// TestLooksBackups looks at the page of backups: without a folder, with one, and while a job runs, which the page shows live.
func TestLooksBackups(t *testing.T) {
	t.Parallel()
	bare := start(t, skerry.Options{})
	b := bare.open()
	b.visit("/admin/backups")
	b.looks("backups")

	k := startKeeper(t)
	if _, err := k.folder.Take(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	one := k.list()[0]
	if _, _, err := k.folder.Restore(t.Context(), one.Name, "trial", nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(k.folder.Dir(), strings.Repeat("long", 30)+".skerry"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	begin, goOn := make(chan struct{}), make(chan struct{})
	step := func(ctx context.Context, w io.Writer) error {
		close(begin)
		<-goOn
		_, _ = w.Write(make([]byte, 3<<10))
		<-ctx.Done()
		return ctx.Err()
	}
	k.take.Store(&step)
	c := k.open()
	c.visit("/admin/backups")
	c.Do(chromedp.Click(chromedp.CSS(`form[action$="/folder/take"] button`)))
	<-begin
	c.Until(`document.getElementById("far")?.textContent === "0 B"`)
	close(goOn)
	c.Until(`document.getElementById("far")?.textContent === "3.0 KiB"`)
	c.looks("backups-folder")
	c.Do(chromedp.Evaluate[chromedp.Void](`window.confirm = () => true; undefined`), chromedp.Click(chromedp.CSS(`form[action$="/stop"] button`)))
	c.Until(`!document.getElementById("far") && document.body.textContent.includes("Finished since the server started")`)
	c.looks("backups-done")
}

// ownFolder is a folder of backups of one node; its backups are three bytes.
func ownFolder(t *testing.T) *backups.Folder {
	t.Helper()
	f, err := backups.Open(t.TempDir(), backups.Options{
		Logger: slog.New(slog.DiscardHandler),
		Backup: func(_ context.Context, w io.Writer) (engine.Position, error) {
			_, err := w.Write([]byte("all"))
			return 7, err
		},
		Verify:  func(io.Reader) (backups.Summary, error) { return backups.Summary{Position: 7}, nil },
		Restore: func(context.Context, io.Reader, string) (backups.Summary, error) { return backups.Summary{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// TestFoldersOfNodes: a node that does not lead shows its own folder and offers nothing that would happen in the leader's.
func TestFoldersOfNodes(t *testing.T) {
	t.Parallel()
	one, two := ownFolder(t), ownFolder(t)
	nodes := growCluster(t, nil, 1, skerry.Options{Backups: one})
	nodes = growCluster(t, nodes, 2, skerry.Options{Backups: two})
	nodes[0].link = <-nodes[0].links
	anna := nodes[1].client()
	anna.setUp(nodes[1].URL+nodes[0].link[len(nodes[0].URL):], email)
	anna.get("/admin/backups").expect(200, "This is node 2, which does not lead.", two.Dir()).lacks(one.Dir(), "/folder/take", "/folder/restore")
	anna.post("/admin/backups/folder/take", "node", "2").expect(409, "that of node 2, but node 1 leads now", one.Dir())
	anna.post("/admin/backups/folder/take", "node", "1").expect(200)
	eventually.True(t, "the leader has taken one", func() bool {
		all, err := one.Files()
		return err == nil && len(all) == 1
	})
	if all, err := two.Files(); err != nil || len(all) != 0 {
		t.Errorf("the other folder: %+v %v", all, err)
	}
}
