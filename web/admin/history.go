package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// Limits of the pages of histories.
const (
	historyPage    = 50  // changes of one page
	maxWho         = 200 // different users whose addresses one page looks up
	maxChangedText = 300 // bytes of the names of changed fields
)

// addHistory adds the history of records: the routes below /records/{collection}/history.
func (a *Admin) addHistory(g *web.Group) {
	g.Get("/records/{collection}/history", a.collectionHistory)
	g.Post("/records/{collection}/history/undo", a.undoUser)
	g.Post("/records/{collection}/history/verify", a.verifyCollection)
	g.Get("/records/{collection}/{id}/history", a.recordHistory)
	g.Get("/records/{collection}/{id}/history/state", a.recordState)
	g.Post("/records/{collection}/{id}/history/revert", a.revert)
	g.Post("/records/{collection}/{id}/history/undo", a.undoChange)
	g.Post("/records/{collection}/{id}/history/restore", a.restore)
}

// historyEvent is a change as a page shows it.
type historyEvent struct {
	Rev, Seq    uint64
	ID, Op      string
	At          time.Time
	Who         string
	Request     string
	Fields      string // names of those that changed
	Redacted    string // who redacted it
	RedactedAt  time.Time
	Shown       bool
	Recoverable bool // it can be undone
}

// nameBook finds the addresses of users for one page.
type nameBook struct {
	a     *Admin
	c     *web.Context
	known map[string]string
}

func (a *Admin) namesFor(c *web.Context) *nameBook {
	return &nameBook{a, c, map[string]string{"": a.text("the program")}}
}

// of returns the address of a user, or the id if there is none.
func (n *nameBook) of(id string) string {
	if name, ok := n.known[id]; ok || len(n.known) > maxWho {
		if !ok {
			return id
		}
		return name
	}
	name := id
	if n.a.o.Users != nil && !strings.Contains(id, "@") { // administrators are named by their address
		if u, err := n.a.o.Users.Get(n.c, engine.Read{Level: engine.Local}, id); err == nil && u.Email != "" {
			name = u.Email
		}
	}
	n.known[id] = name
	return name
}

// historyEvent returns a change for people.
func (n *nameBook) historyEvent(ch *record.Change) historyEvent {
	e := historyEvent{Rev: ch.Rev, Seq: ch.Seq, ID: ch.ID, Op: ch.Op, At: ch.At, Who: n.of(ch.By), Request: ch.Request, Recoverable: ch.Op != "purge"}
	if ch.Redacted() {
		e.Redacted, e.RedactedAt, e.Recoverable = n.of(ch.RedactedBy), ch.RedactedAt, false
		return e
	}
	e.Fields = changedFields(ch.Patch)
	return e
}

// changedFields returns the names of the fields that a JSON Patch changes.
func changedFields(patch []byte) string {
	var ops []struct {
		Path string `json:"path"`
	}
	if json.Unmarshal(patch, &ops) != nil {
		return ""
	}
	var all []string
	size := 0
	for _, op := range ops {
		name, _, _ := strings.Cut(strings.TrimPrefix(op.Path, "/"), "/")
		name = unpoint(name)
		if name == "" || slices.Contains(all, name) {
			continue
		}
		if size += len(name); size > maxChangedText {
			all = append(all, "…")
			break
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// pastState is a record as it was.
type pastState struct {
	Rev     uint64       `json:"rev"`
	Against uint64       `json:"against"` // revision that it is compared with; 0: none
	Latest  uint64       `json:"latest"`
	Op      string       `json:"op"`
	At      time.Time    `json:"-"`
	When    string       `json:"when"`
	Who     string       `json:"who"`
	Deleted bool         `json:"deleted"` // it was in the trash
	Members []pastMember `json:"members"`
	More    int          `json:"more"`
	Problem string       `json:"problem,omitempty"` // why it cannot be shown
}

// recordPage is what the history of one record shows.
type recordPage struct {
	Collection, ID string
	Events         []historyEvent
	Next           uint64 // before which there are older changes
	Latest         uint64 // revision
	Deleted        bool   // it is in the trash
	Purged         bool
	State          pastState
	Choices        []uint64 // revisions to choose from
}

// recordHistory shows the changes of a record, and how it was after one of them.
func (a *Admin) recordHistory(c *web.Context) error {
	return a.showRecord(c, http.StatusOK, "")
}

func (a *Admin) showRecord(c *web.Context, status int, trouble string) error {
	collection, id := c.Path("collection").String(), c.Path("id").String()
	p := &recordPage{Collection: collection, ID: id}
	before, err := numberParam(c, "before")
	if err != nil {
		return err
	}
	var off bool
	err = a.viewRecords(c, func(tx *record.Tx) error {
		k, err := tx.Collection(collection)
		if err != nil {
			return err
		}
		off = k.History.Off
		return a.readRecord(c, tx, p, before)
	})
	if err != nil && !(off && errors.Is(err, record.ErrNotFound)) {
		return err
	}
	return a.show(c, status, "history", web.Locals{
		"title": a.text("History of %s", id), "p": p, "problem": trouble, "off": off, "at": c.Query("at").String(),
		"path": Prefix + historyOf(collection, id), "list": Prefix + "/records/" + url.PathEscape(collection),
	})
}

// historyOf returns the path of a record below Prefix.
func historyOf(collection, id string) string {
	return "/records/" + url.PathEscape(collection) + "/" + url.PathEscape(id)
}

// readRecord reads what the history of a record shows.
func (a *Admin) readRecord(c *web.Context, tx *record.Tx, p *recordPage, before uint64) error {
	n := a.namesFor(c)
	latest, err := tx.History(p.Collection, p.ID, 0, 1)
	if err != nil {
		return err
	}
	all, err := tx.History(p.Collection, p.ID, before, historyPage)
	if err != nil {
		return err
	}
	p.Latest, p.Purged, p.Deleted = latest[0].Rev, latest[0].Op == "purge", latest[0].Op == "delete"
	rev, against, m, err := a.chosen(c, p)
	if err != nil {
		return err
	}
	if p.State, err = a.stateOf(tx, n, p, m, rev, against); err != nil {
		return err
	}
	p.Events, p.Choices, p.Next = nil, nil, 0
	for _, ch := range all {
		e := n.historyEvent(ch)
		e.Shown = e.Rev == p.State.Rev
		p.Events = append(p.Events, e)
		p.Choices = append(p.Choices, e.Rev)
	}
	if len(all) > 0 && all[len(all)-1].Rev > 1 {
		older, err := tx.History(p.Collection, p.ID, all[len(all)-1].Rev, 1)
		if err != nil {
			return err
		}
		if len(older) > 0 {
			p.Next = all[len(all)-1].Rev
		}
	}
	for _, rev := range []uint64{p.State.Rev, p.State.Against} {
		if rev > 0 && !slices.Contains(p.Choices, rev) {
			p.Choices = append(p.Choices, rev)
		}
	}
	return nil
}

// chosen returns which state a request asks for, as a revision or as a moment, and with which it is compared.
func (a *Admin) chosen(c *web.Context, p *recordPage) (rev, against uint64, m record.Moment, err error) {
	if rev, err = numberParam(c, "rev"); err != nil {
		return
	}
	if against, err = numberParam(c, "against"); err != nil {
		return
	}
	at := c.Query("at")
	switch {
	case rev > 0:
	case at.String() != "":
		m.At, err = timeOf(at)
		return
	default:
		rev = p.Latest
	}
	m.Rev = rev
	return
}

// timeLayouts are the forms of times that pages take; browsers send the second or third. Without a zone they are UTC.
var timeLayouts = []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04:05 UTC", "2006-01-02 15:04", "2006-01-02"}

func timeOf(v web.Value) (time.Time, error) { return v.Time(timeLayouts...) }

// numberParam returns a parameter that is a number of a change or revision, 0 if it is missing.
func numberParam(c *web.Context, name string) (uint64, error) {
	text := c.Query(name).String()
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, web.WrongParameter(name, "must be a number above 0")
	}
	return n, nil
}

// stateOf returns a past state of a record, compared with a revision: against, or if it is 0 the one before. That the history is
// not there any more is a problem of the state, not of the page.
func (a *Admin) stateOf(tx *record.Tx, n *nameBook, p *recordPage, m record.Moment, rev, against uint64) (pastState, error) {
	s := pastState{Rev: rev, Latest: p.Latest, Against: against}
	missing := func(err error) bool {
		return errors.Is(err, record.ErrNotFound) || errors.Is(err, record.ErrHistoryGone)
	}
	now, err := tx.GetAsOf(p.Collection, p.ID, m)
	switch {
	case errors.Is(err, record.ErrNotFound) && p.Purged:
		s.Problem = a.text("The record was purged; its history no longer has any data.")
		return s, nil
	case errors.Is(err, record.ErrNotFound) && rev > 0:
		s.Problem = a.text("There is no revision %d of this record.", rev)
		return s, nil
	case errors.Is(err, record.ErrNotFound):
		s.Problem = a.text("There was no such record at that time.")
		return s, nil
	case missing(err):
		s.Problem = a.text("This state cannot be shown: the history that it needs is no longer kept, or was redacted.")
		return s, nil
	case err != nil:
		return s, err
	}
	s.Rev, s.Deleted = now.Rev, now.Deleted
	if chs, err := tx.History(p.Collection, p.ID, s.Rev+1, 1); err != nil {
		return s, err
	} else if len(chs) > 0 && chs[0].Rev == s.Rev {
		s.Op, s.At, s.When, s.Who = chs[0].Op, chs[0].At, when(chs[0].At), n.of(chs[0].By)
	}
	to, err := dataOf(now)
	if err != nil {
		return s, err
	}
	if s.Against == 0 {
		s.Against = s.Rev - 1
	}
	var from []pastField
	if s.Against > 0 {
		then, err := tx.GetAsOf(p.Collection, p.ID, record.Moment{Rev: s.Against})
		switch {
		case missing(err):
			s.Against = 0
		case err != nil:
			return s, err
		default:
			if from, err = dataOf(then); err != nil {
				return s, err
			}
		}
	}
	s.Members, s.More = compareMembers(from, to, s.Against == 0)
	return s, nil
}

// dataOf returns the fields of a record without passwords.
func dataOf(r *record.Record) ([]pastField, error) {
	var x struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(r.AppendJSON(nil), &x); err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "read a record: %w", err)
	}
	all, err := membersOf(x.Data)
	if err != nil {
		return nil, engine.Errorf(engine.CodeCorrupt, "read a record: %w", err)
	}
	return all, nil
}

// recordState returns one state for the slider.
func (a *Admin) recordState(c *web.Context) error {
	p := &recordPage{Collection: c.Path("collection").String(), ID: c.Path("id").String()}
	_, err := a.o.Records.View(c, engine.Read{Level: engine.Local}, recordsActor(c), func(tx *record.Tx) error {
		latest, err := tx.History(p.Collection, p.ID, 0, 1)
		if err != nil {
			return err
		}
		p.Latest, p.Purged = latest[0].Rev, latest[0].Op == "purge"
		rev, against, m, err := a.chosen(c, p)
		if err != nil {
			return err
		}
		p.State, err = a.stateOf(tx, a.namesFor(c), p, m, rev, against)
		return err
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, p.State)
}
