package admin

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

// allows is the value of the box that allows losses.
const allows = "yes"

// allowsLoss reports whether the form allows losses.
func allowsLoss(c *web.Context) bool { return c.Form("allow_loss").String() == allows }

// lossDetail is the detail of a line of the log.
func lossDetail(loss bool, other string) string {
	if loss {
		return other + " allow-loss"
	}
	return other
}

// schemaUpAll migrates all collections to what the program defines.
func (a *Admin) schemaUpAll(c *web.Context) error {
	o := record.MigrateOptions{AllowLoss: allowsLoss(c)}
	err := a.act(c, "schema.up", "*", lossDetail(o.AllowLoss, ""), func() error {
		_, err := a.o.Records.Migrate(c, o)
		return err
	})
	if err != nil {
		if engine.Retryable(err) {
			return err
		}
		return a.showSchema(c, http.StatusConflict, err, lossesIn(err))
	}
	return a.done(c, "/schema", "done")
}

func (a *Admin) schemaUp(c *web.Context) error   { return a.migrate(c, false) }
func (a *Admin) schemaDown(c *web.Context) error { return a.migrate(c, true) }

// migrate migrates the collection that the path names.
func (a *Admin) migrate(c *web.Context, down bool) error {
	s, err := a.one(c)
	if err != nil {
		return err
	}
	o := record.MigrateOptions{Collections: []string{s.Name}, Down: down, AllowLoss: allowsLoss(c)}
	action := "schema.up"
	if down {
		action = "schema.down"
	}
	return a.change(c, s, action, lossDetail(o.AllowLoss, ""), func() error {
		_, err := a.o.Records.Migrate(c, o)
		return err
	})
}

// change does what a form of the page of a collection asks for.
func (a *Admin) change(c *web.Context, s stored, action, detail string, fn func() error) error {
	err := a.act(c, action, s.Name, detail, fn)
	switch {
	case err == nil:
		return a.done(c, "/schema/"+url.PathEscape(s.Name), "done")
	case engine.Retryable(err):
		return err
	}
	return a.showStored(c, http.StatusConflict, s, err, lossesIn(err))
}

// errNotTyped reports that the name of the collection to drop was not repeated.
var errNotTyped = engine.Errorf(engine.CodeInvalid, "nothing was dropped: type the name of the collection to confirm")

// schemaDrop deletes a collection that the program does not define.
func (a *Admin) schemaDrop(c *web.Context) error {
	s, err := a.one(c)
	if err != nil {
		return err
	}
	switch {
	case !s.Undefined:
		return a.showStored(c, http.StatusConflict, s, engine.Errorf(record.CodeMigration, "the program defines collection %s, so it would be created again; remove it from the program first", s.Name), nil)
	case c.Form("name").String() != s.Name:
		return a.showStored(c, http.StatusUnprocessableEntity, s, errNotTyped, nil)
	}
	loss := allowsLoss(c)
	err = a.act(c, "schema.drop", s.Name, lossDetail(loss, ""), func() error { return a.o.Records.DropCollection(c, s.Name, loss) })
	if err != nil && !errors.Is(err, record.ErrUnknownCollection) {
		if engine.Retryable(err) {
			return err
		}
		return a.showStored(c, http.StatusConflict, s, err, nil)
	}
	return a.done(c, "/schema", "deleted")
}

// schemaConvert begins to move the records of a collection to another place.
func (a *Admin) schemaConvert(c *web.Context) error {
	s, err := a.one(c)
	if err != nil {
		return err
	}
	to := record.Place(c.Form("to").String())
	return a.change(c, s, "schema.convert", "to "+string(to), func() error {
		_, err := a.o.Records.Convert(c, []string{s.Name}, to)
		return err
	})
}

// running is the work of one collection, for the module of the page.
type running struct {
	Collection string `json:"collection"`
	Text       string `json:"text"`
	Done       uint64 `json:"done"`
	Of         uint64 `json:"of"`
	Failed     bool   `json:"failed"`
}

// schemaWork returns the work that migrations have left.
func (a *Admin) schemaWork(c *web.Context) error {
	all, err := a.o.Records.Migrations(c)
	if err != nil {
		return err
	}
	list := []running{}
	for _, m := range all {
		if p := m.Progress; p != nil && len(list) < schemaPage {
			list = append(list, running{m.Collection, a.progressWords(p), p.Done, p.Of, p.Failed != ""})
		}
	}
	return c.JSON(http.StatusOK, map[string]any{"running": list})
}
