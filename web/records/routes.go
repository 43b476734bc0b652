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
		{"GET", all, (*Face).list, "a page of the records that meet a filter, or with ?format=csv or jsonl all of them"},
		{"POST", all, (*Face).create, "create a record, or import a file of CSV or JSON lines"},
		{"PATCH", all, (*Face).patchAll, "change all records that meet a filter; the first request gets their number and a token for the second"},
		{"DELETE", all, (*Face).removeAll, "move all records that meet a filter into the trash, in the same way"},
		{"GET", one, (*Face).get, "a record; with ?rev= or ?asof= as it was"},
		{"PATCH", one, (*Face).patch, "change a record by a merge patch of its data"},
		{"DELETE", one, (*Face).remove, "move a record into the trash, or with ?purge delete one in the trash for good"},
		{"POST", one + "/restore", (*Face).restore, "take a record out of the trash"},
		{"POST", one + "/revert", (*Face).revert, "give a record the data that it had after another revision"},
		{"GET", one + "/history", (*Face).history, "the changes of a record, the newest first"},
	}
}
