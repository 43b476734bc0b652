package records

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/record"
	"github.com/skerrydb/skerry/web"
	"github.com/skerrydb/skerry/web/conditions"
)

// isWith reports whether a request for a record may have the parameters that getWith reads.
func isWith(c *web.Context) bool {
	text := c.Request.URL.RawQuery
	return text != "" && (strings.Contains(text, "expand") || strings.Contains(text, "fields"))
}

// getWith responds with a record, with the fields that the request asks for and what it expands.
//
// The entity tag is the revision, as that of the whole record, if the response has nothing but the record. What is expanded
// changes without the record, and with the rights of the sender: then the tag is a hash of the response. It is weak, so it
// never meets If-Match, whose tags are revisions.
func (f *Face) getWith(c *web.Context) error {
	cond, err := conditions.Of(c.Request.Header)
	if err != nil {
		return err
	}
	params, err := parameters(c, "rev", "asof", "expand", "fields")
	if err != nil {
		return err
	}
	query := url.Values{}
	for _, name := range []string{"expand", "fields"} {
		if text, ok := params[name]; ok {
			query.Set(name, text)
			delete(params, name)
		}
	}
	at, err := momentOf(params)
	if err != nil {
		return err
	}
	if at == nil {
		at = &record.Moment{}
	}
	var body []byte
	var tag string
	var unchanged bool
	err = f.view(c, func(tx *record.Tx) error {
		q, err := tx.ParseQuery(name(c), query)
		if err != nil {
			return err
		}
		page, err := tx.GetWith(name(c), id(c), *at, q)
		if err != nil {
			return err
		}
		rev := page.Items[0].Rev
		if unchanged, err = cond.AllowRead("record", rev); err != nil {
			return err
		}
		body, tag = page.AppendItem(body[:0], 0), etag(rev)
		if len(q.Expand) > 0 {
			tag = weakTag(body)
			unchanged = hasTag(c.Request.Header, tag)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.Header()["Etag"] = []string{tag}
	if unchanged {
		c.Writer.WriteHeader(http.StatusNotModified)
		return nil
	}
	return respond(c, http.StatusOK, body)
}

// weakTag returns the entity tag of a response that is not of one record alone. No revision has such a tag.
func weakTag(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"x` + hex.EncodeToString(sum[:16]) + `"`
}

// hasTag reports whether If-None-Match, which conditions.Of has checked, names a tag of weakTag, or any.
func hasTag(h http.Header, tag string) bool {
	for _, line := range h["If-None-Match"] {
		for text := range strings.SplitSeq(line, ",") {
			if text = strings.Trim(text, " \t"); text == "*" || "W/"+strings.TrimPrefix(text, "W/") == tag {
				return true
			}
		}
	}
	return false
}
