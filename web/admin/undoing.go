package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

const (
	maxUndone   = 200         // records that one report of undoing lists
	verifyLimit = time.Minute // for a verification
)

// revert restores the data of an earlier revision.
func (a *Admin) revert(c *web.Context) error {
	return a.changeBack(c, "record.revert", "restored", func(tx *record.Tx, collection, id string, rev, to uint64) error {
		_, err := tx.Revert(collection, id, to, rev)
		return err
	})
}

// restore takes a record out of the trash.
func (a *Admin) restore(c *web.Context) error {
	return a.changeBack(c, "record.restore", "restored", func(tx *record.Tx, collection, id string, rev, _ uint64) error {
		_, err := tx.Restore(collection, id, rev)
		return err
	})
}

// historyConflict says that later changes do not allow to undo one.
type historyConflict struct{ why string }

func (e historyConflict) Error() string { return e.why }

// undoChange undoes one change of a record.
func (a *Admin) undoChange(c *web.Context) error {
	return a.changeBack(c, "record.undo", "undone", func(tx *record.Tx, collection, id string, _, to uint64) error {
		u, err := tx.UndoChange(collection, id, to)
		switch {
		case err != nil:
			return err
		case u.Conflict != "":
			return historyConflict{a.text("Revision %d cannot be undone: %s.", to, u.Conflict)}
		case u.Op == "":
			return historyConflict{a.text("There is nothing to undo: the record already has the values from before revision %d.", to)}
		}
		return nil
	})
}

// changeRecord changes the record of the path if it still has the revision that the page showed, and goes back to its history.
func (a *Admin) changeBack(c *web.Context, action, notice string, fn func(tx *record.Tx, collection, id string, rev, to uint64) error) error {
	collection, id := c.Path("collection").String(), c.Path("id").String()
	rev, err := c.Form("rev").Int64In(1, 1<<62)
	if err != nil {
		return err
	}
	to, err := c.Form("to").Or("1").Int64In(1, 1<<62)
	if err != nil {
		return err
	}
	detail := ""
	if action != "record.restore" {
		detail = fmt.Sprintf("revision %d", to)
	}
	err = a.act(c, action, collection+"/"+id, detail, func() error {
		_, err := a.o.Records.Update(c, recordsActor(c), func(tx *record.Tx) error {
			latest, err := tx.History(collection, id, 0, 1)
			if err != nil {
				return err
			}
			if is := latest[0].Rev; is != uint64(rev) {
				return historyConflict{a.text("The record has been changed: it has revision %d now, and the page that you used showed revision %d. Nothing was written. Look at the changes below, and repeat what you wanted if it is still right.", is, rev)}
			}
			err = fn(tx, collection, id, uint64(rev), uint64(to))
			switch {
			case errors.Is(err, record.ErrNotFound) && action == "record.restore":
				return historyConflict{a.text("The record is not in the trash, so there is nothing to restore.")}
			case errors.Is(err, record.ErrNotFound):
				return historyConflict{a.text("The record is in the trash, or has no revision %d.", to)}
			}
			return err
		})
		return err
	})
	var e historyConflict
	switch {
	case err == nil:
		return a.done(c, historyOf(collection, id)+"/history", notice)
	case errors.As(err, &e):
		return a.showRecord(c, http.StatusConflict, e.why)
	case errors.Is(err, record.ErrRevision), errors.Is(err, record.ErrReferenced), errors.Is(err, record.ErrExists):
		return a.showRecord(c, http.StatusConflict, c.Detail(err))
	case errors.Is(err, record.ErrInvalid), errors.Is(err, record.ErrRefused), errors.Is(err, record.ErrHistoryGone):
		return a.showRecord(c, http.StatusUnprocessableEntity, c.Detail(err))
	}
	return err
}

// collectionHistory shows the newest changes of a collection.
func (a *Admin) collectionHistory(c *web.Context) error {
	return a.showCollectionHistory(c, http.StatusOK, web.Locals{})
}

func (a *Admin) showCollectionHistory(c *web.Context, status int, more web.Locals) error {
	collection := c.Path("collection").String()
	before, err := numberParam(c, "before")
	if err != nil {
		return err
	}
	var events []historyEvent
	var next uint64
	var off bool
	unlisted := ""
	err = a.viewRecords(c, func(tx *record.Tx) error {
		events, next = nil, 0
		k, err := tx.Collection(collection)
		if err != nil {
			return err
		}
		off = k.History.Off
		all, err := tx.Changes(collection, before, historyPage+1)
		if errors.Is(err, engine.ErrUnsupported) {
			unlisted = c.Detail(err)
			return nil
		}
		if err != nil {
			return err
		}
		n := a.namesFor(c)
		for _, ch := range all[:min(len(all), historyPage)] {
			events = append(events, n.historyEvent(ch))
		}
		if len(all) > historyPage {
			next = all[historyPage-1].Seq
		}
		return nil
	})
	if err != nil {
		return err
	}
	locals := web.Locals{
		"title": a.text("History of %s", collection), "name": collection, "events": events, "next": next, "off": off, "unlisted": unlisted, "list": Prefix + "/records/" + url.PathEscape(collection),
		"problem": "", "by": "", "since": "", "dry": nil, "undone": 0, "conflicts": 0, "hidden": 0, "checked": false, "verified": nil, "undid": false, "administrator": false,
	}
	for name, v := range more {
		locals[name] = v
	}
	return a.show(c, status, "history-collection", locals)
}

// undoUser undoes everything that a user did since a time, in all collections, or says what that would be.
func (a *Admin) undoUser(c *web.Context) error {
	by, since := c.Form("by").String(), c.Form("since").String()
	dry := c.Form("do").String() != "undo"
	input := web.Locals{"by": by, "since": since}
	wrong := func(err error) error {
		input["problem"] = c.Detail(err)
		return a.showCollectionHistory(c, http.StatusUnprocessableEntity, input)
	}
	at, err := timeOf(c.Form("since"))
	if err != nil {
		return wrong(err)
	}
	administrator := c.Form("kind").String() == "administrator"
	input["administrator"] = administrator
	id, err := a.userID(c, by, administrator)
	if err != nil {
		return wrong(err)
	}
	var all []*record.Undone
	if dry {
		all, err = a.o.Records.Undo(c, recordsActor(c), id, at, true)
	} else {
		err = a.act(c, "user.undo", by, "since "+at.UTC().Format(time.RFC3339), func() (err error) {
			all, err = a.o.Records.Undo(c, recordsActor(c), id, at, false)
			return err
		})
	}
	switch engine.CodeOf(err) {
	case "":
	case engine.CodeLimit, record.CodeHistoryGone, record.CodeRefused, engine.CodeUnsupported:
		return wrong(err)
	default:
		return err
	}
	slices.SortStableFunc(all, func(x, y *record.Undone) int { return rank(x) - rank(y) })
	undone, conflicts := 0, 0
	for _, u := range all {
		switch {
		case u.Conflict != "":
			conflicts++
		case u.Op != "":
			undone++
		}
	}
	input["checked"], input["undid"], input["undone"], input["conflicts"] = true, !dry, undone, conflicts
	input["dry"], input["hidden"] = all[:min(len(all), maxUndone)], max(0, len(all)-maxUndone)
	return a.showCollectionHistory(c, http.StatusOK, input)
}

// rank puts conflicts first, and what needs nothing last.
func rank(u *record.Undone) int {
	switch {
	case u.Conflict != "":
		return 0
	case u.Op != "":
		return 1
	}
	return 2
}

// userID returns how histories name a user of the application, given by an address or id, or an administrator.
func (a *Admin) userID(c *web.Context, text string, administrator bool) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", web.Wrong("/by", "is missing; give the email address or the id of a user")
	}
	users := a.o.Users
	switch {
	case administrator:
		users = a.users
	case !strings.Contains(text, "@"):
		return text, nil
	case users == nil:
		return "", web.Wrong("/by", "this server knows no users; give an id, or choose administrators")
	}
	u, err := users.Find(c, engine.Read{}, text)
	switch {
	case administrator && err == nil:
		return u.Email, nil
	case err == nil:
		return u.ID, nil
	case engine.CodeOf(err) != engine.CodeNotFound:
		return "", err
	case administrator:
		return text, nil // the account may have been deleted
	}
	return "", web.Wrong("/by", "no user has the address %.200s; if the account was deleted, give its id; or choose administrators", text)
}

// verifyCollection looks for inconsistencies in a collection.
func (a *Admin) verifyCollection(c *web.Context) error {
	name := c.Path("collection").String()
	var all []record.Verification
	err := a.act(c, "collection.verify", name, "", func() error {
		ctx, stop := context.WithTimeout(c, verifyLimit)
		defer stop()
		var err error
		all, err = a.o.Records.Verify(ctx, []string{name}, nil)
		return err
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && c.Err() == nil:
		return a.showCollectionHistory(c, http.StatusUnprocessableEntity, web.Locals{"problem": a.text("Verification stopped after %s. Nothing was changed. Use “skerry verify”, which has no time limit.", verifyLimit)})
	case errors.Is(err, engine.ErrUnsupported):
		return a.showCollectionHistory(c, http.StatusUnprocessableEntity, web.Locals{"problem": c.Detail(err)})
	case err != nil:
		return err
	}
	return a.showCollectionHistory(c, http.StatusOK, web.Locals{"verified": &all[0]})
}
