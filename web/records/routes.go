package records

import "github.com/skerrydb/skerry/web"

// route is one line of the table of which the routes are made.
type route struct {
	method string
	path   string // below the prefix
	handle func(f *Face, c *web.Context) error
	text   string // what it does, in one line
}

func routes() []route {
	const all, one = "/{collection}", "/{collection}/{id}"
	return []route{
		{"POST", "/tx", (*Face).transact, "carry out several operations, all or none"},
		{"GET", all, (*Face).list, "a page of the records that meet a filter"},
		{"POST", all, (*Face).create, "create a record"},
		{"GET", one, (*Face).get, "a record"},
		{"PATCH", one, (*Face).patch, "change a record by a merge patch of its data"},
		{"DELETE", one, (*Face).remove, "move a record into the trash, or with ?purge delete one in the trash for good"},
		{"POST", one + "/restore", (*Face).restore, "take a record out of the trash"},
	}
}
