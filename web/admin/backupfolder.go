package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/backups"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// folderView is the folder of backups as the page shows it; nil: there is none.
type folderView struct {
	Dir      string
	Files    []fileView
	Status   backups.Status
	Failed   string // why the last scheduled backup failed
	Taking   string // how much the schedule has written of the backup that it takes now
	Restored []restoredView
	Problem  string // why the folder cannot be read
}

// fileView is a line of the list of backups.
type fileView struct {
	backups.File
	Position  string
	Scheduled bool
	Last      bool // the newest that was verified
}

// restoredView is a restored folder, with the command that serves it.
type restoredView struct{ Dir, Serve string }

func (a *Admin) folderView() *folderView {
	f := a.o.Backups
	if f == nil {
		return nil
	}
	v := &folderView{Dir: f.Dir()}
	files, err := f.Files()
	if err != nil {
		v.Problem = err.Error()
	}
	last := backups.Last(files)
	for _, one := range files {
		v.Files = append(v.Files, fileView{one, position(one.Summary.Position), one.Kind == backups.Scheduled, one.Name == last})
	}
	dirs, err := f.Restored()
	if err != nil {
		v.Problem = err.Error()
	}
	for _, dir := range dirs {
		v.Restored = append(v.Restored, restoredView{dir, "skerry serve --data " + shellWord(dir)})
	}
	if v.Status = f.Status(); v.Status.Err != nil {
		v.Failed = v.Status.Err.Error()
	}
	if v.Status.Taking != nil {
		done, _ := v.Status.Taking.Bytes()
		v.Taking = byteText(done)
	}
	return v
}

// jobView is a job as the page shows it.
type jobView struct {
	job

	What        string
	Done, Total int64
	Far         string
}

// jobViews returns jobs for people.
func (a *Admin) jobViews(all []job) []jobView {
	var views []jobView
	for _, one := range all {
		v := jobView{job: one, What: a.jobText(one.Action)}
		v.Done, v.Total = one.Progress.Bytes()
		if v.Total > 0 {
			v.Done = min(v.Done, v.Total) // a file that is read twice counts twice
		}
		v.Far = a.far(v.Done, v.Total)
		views = append(views, v)
	}
	return views
}

// far says how far a job is.
func (a *Admin) far(done, total int64) string {
	if total == 0 {
		return byteText(done)
	}
	return a.text("%s of %s", byteText(done), byteText(total))
}

func (a *Admin) jobText(action string) string {
	switch action {
	case actionBackup:
		return a.text("Take a backup")
	case actionVerify:
		return a.text("Verify a backup")
	case actionRestore:
		return a.text("Restore a backup")
	case actionArchiveCheck:
		return a.text("Read every byte of the archive")
	case actionAtRestore:
		return a.text("Restore to a point in time")
	}
	return action
}

func (a *Admin) takeIntoFolder(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	return a.answer(c, "begun", a.begin(c, actionBackup, actionBackupDone, a.o.Backups.Dir(), func(ctx context.Context, p *backups.Progress) (string, error) {
		one, err := a.o.Backups.Take(ctx, p)
		if err != nil {
			return "", err
		}
		return a.text("%s: position %s, %s", one.Name, position(one.Summary.Position), byteText(one.Size)), nil
	}))
}

func (a *Admin) verifyFile(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	name := c.Form("file").String()
	return a.answer(c, "begun", a.begin(c, actionVerify, actionVerified, name, func(ctx context.Context, p *backups.Progress) (string, error) {
		one, err := a.o.Backups.Verify(ctx, name, p)
		if err == nil && one.Problem != "" {
			err = engine.Errorf(engine.CodeCorrupt, "%s is corrupt: %s", name, one.Problem)
		}
		if err != nil {
			return "", err
		}
		return a.text("verified: position %s, %s keys", position(one.Summary.Position), numberText(one.Summary.Keys)), nil
	}))
}

// downloadFile sends a backup of the folder.
func (a *Admin) downloadFile(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	name := c.Form("file").String()
	r, _, err := a.o.Backups.OpenFile(name)
	if err != nil {
		return a.answer(c, "", err)
	}
	defer r.Close() // nothing is written through it
	return a.act(c, actionDownload, name, "", func() error {
		c.Attachment(name)
		return c.Stream(http.StatusOK, "application/octet-stream", r)
	})
}

func (a *Admin) deleteFile(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	name := c.Form("file").String()
	return a.answer(c, "deleted", a.act(c, actionDelete, name, "", func() error {
		return a.o.Backups.Remove(name, c.Form("last").String() == "1")
	}))
}

func (a *Admin) restoreFile(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	file, name := c.Form("file").String(), c.Form("name").String()
	if _, err := a.o.Backups.NewFolder(name); err != nil {
		return a.answer(c, "", err)
	}
	return a.answer(c, "begun", a.begin(c, actionRestore, actionRestored, file, func(ctx context.Context, p *backups.Progress) (string, error) {
		dir, sum, err := a.o.Backups.Restore(ctx, file, name, p)
		if err != nil {
			return "", err
		}
		return a.text("position %s, %s keys, in %s", position(sum.Position), numberText(sum.Keys), dir), nil
	}))
}

// stopJob stops a job.
func (a *Admin) stopJob(c *web.Context) error {
	if err := a.here(c); err != nil {
		return a.answer(c, "", err)
	}
	number, _ := strconv.Atoi(c.Form("job").String()) // 0: there is none
	return a.answer(c, "stopped", a.act(c, actionStop, strconv.Itoa(number), "", func() error { return a.jobs.stop(number) }))
}

// jobsNow is what the stream of the page sends.
type jobsNow struct {
	Version string `json:"version"` // changes when the page should be loaded again
	Text    string `json:"text"`    // how far the job is
	Done    int64  `json:"done"`
	Total   int64  `json:"total"`
}

// backupsVersion returns a text that changes whenever the page has other files or jobs. It begins with the number of the node.
func (a *Admin) backupsVersion() string {
	_, self := a.leadsHere()
	_, _, changes := a.jobs.list()
	version := fmt.Sprintf("%d:%d", self, changes)
	if a.o.Backups == nil {
		return version
	}
	s := a.o.Backups.Status()
	return fmt.Sprintf("%s-%d-%d-%d-%t", version, s.Taken, s.Failed, s.Files, s.Taking != nil)
}

// backupsLive streams how far jobs are.
func (a *Admin) backupsLive(c *web.Context) error {
	return c.SSE(web.EventOptions{Retry: 2 * time.Second}, func(s *web.Events) error {
		tick := time.NewTicker(jobEvery)
		defer tick.Stop()
		last := ""
		for {
			now := jobsNow{Version: a.backupsVersion()}
			running, _, _ := a.jobs.list()
			for _, v := range a.jobViews(running) {
				now.Text, now.Done, now.Total = v.Far, v.Done, v.Total
			}
			text, err := json.Marshal(now)
			if err != nil {
				return err
			}
			if string(text) != last {
				last = string(text)
				if err := s.SendJSON(web.Event{Name: "jobs"}, json.RawMessage(text)); err != nil {
					return err
				}
			}
			select {
			case <-tick.C:
			case <-s.Context().Done():
				return nil
			}
			if !a.stillSuperadmin(c) {
				return nil
			}
		}
	})
}

// stillSuperadmin is lookAgain for streams that viewers must not see.
func (a *Admin) stillSuperadmin(c *web.Context) bool {
	c.LookAgain()
	who, err := c.User()
	if err != nil {
		return false
	}
	var u auth.User
	u, err = a.users.Get(c, engine.Read{Level: engine.Local}, who.ID)
	return err == nil && maySee(u) && u.Has(RoleSuperadmin)
}
