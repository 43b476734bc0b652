package records

import (
	"net/http"
	"net/url"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
)

func (f *Face) list(c *web.Context) error {
	params, err := url.ParseQuery(c.Request.URL.RawQuery)
	if err != nil {
		return web.WrongParameter("", "the query string is malformed: %v", err)
	}
	media, err := formatOf(c, params)
	if err != nil {
		return err
	}
	if media != "" {
		return f.export(c, params, media)
	}
	var body []byte
	err = f.view(c, func(tx *record.Tx) error {
		q, err := tx.ParseQuery(name(c), params)
		if err != nil {
			return err
		}
		page, err := tx.Find(name(c), q)
		if err != nil {
			return err
		}
		body = page.AppendJSON(body[:0])
		return nil
	})
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, body)
}
