package records

import "github.com/skerrydb/skerry/web"

// route is a row of the table from which the routes, their list and the OpenAPI document are made.
type route struct {
	method string
	path   string // below the prefix
	handle func(f *Face, c *web.Context) error
	text   string // what it does, in one line

	params []string // parameters of the query; see parameterTexts
	takes  string   // name of the schema of the request's body, "" if there is none; see schemasOf
	files  bool     // the body, or the response, may be a file
	status int      // if it succeeds
	gives  string   // name of the schema of the response, "" if it has no body
}

// Paths of transactions, events, collections and records.
const (
	txPath     = "/tx"
	eventsPath = "/events"

	allPath = "/{collection}"
	onePath = "/{collection}/{id}"
)

func routes() []route {
	return []route{
		{"POST", txPath, (*Face).transact, "carry out several operations in one transaction", nil, "Transaction", false, 200, "Results"},
		{"GET", txPath, (*Face).exportSeveral, "all records of several collections, from one snapshot, as JSON lines", []string{"collection"}, "", false, 200, ""},
		{"GET", eventsPath, (*Face).events, "a stream of events: the records that meet a filter, then their changes", []string{"topic", "filter", "sort", "limit"}, "", false, 200, ""},
		{"GET", allPath, (*Face).list, "a page of the records that meet a filter, or with ?format=csv or jsonl all of them",
			[]string{"filter", "sort", "fields", "expand", "limit", "offset", "after", "count", "deleted", "asof", "group", "aggregate", "format"}, "", true, 200, "Page"},
		{"POST", allPath, (*Face).create, "create a record, or import a file of CSV or JSON lines", []string{"existing", "partial", "dry_run", "pending"}, "Create", true, 201, "Record"},
		{"PATCH", allPath, (*Face).patchAll, "change all records that meet a filter; the first request returns a count and a token, the second one changes the records", []string{"filter", "token"}, "PatchAll", false, 200, "Bulk"},
		{"DELETE", allPath, (*Face).removeAll, "move all records that meet a filter into the trash, in the same way", []string{"filter", "token"}, "", false, 200, "Bulk"},
		{"GET", onePath, (*Face).get, "a record; with ?rev= or ?asof= as it was", []string{"rev", "asof", "fields", "expand"}, "", false, 200, "Record"},
		{"PATCH", onePath, (*Face).patch, "change a record by a merge patch of its data", nil, "Patch", false, 200, "Record"},
		{"DELETE", onePath, (*Face).remove, "move a record into the trash, or with ?purge delete one in the trash for good", []string{"purge"}, "", false, 204, ""},
		{"POST", onePath + "/restore", (*Face).restore, "take a record out of the trash", nil, "", false, 200, "Record"},
		{"POST", onePath + "/revert", (*Face).revert, "give a record the data that it had after another revision", nil, "Revert", false, 200, "Record"},
		{"GET", onePath + "/history", (*Face).history, "the changes of a record, the newest first", []string{"before", "limit"}, "", false, 200, "History"},
	}
}

// parameterTexts describes the parameters of the query string.
var parameterTexts = map[string]string{
	"filter":     "a condition: status = \"open\" && total > 100",
	"sort":       "names with commas between them, - before one for descending order; of groups: -sum(total), status",
	"fields":     "names to return, with commas between them",
	"expand":     "references to follow: owner, comments(post)",
	"limit":      "how many to return",
	"offset":     "how many to skip",
	"after":      "next of the previous page",
	"count":      "true to count the records of all pages",
	"deleted":    "live (the default), trash or all",
	"asof":       "a time or the number of a change: the state at that point",
	"group":      "names to group by: status, month(created)",
	"aggregate":  "what to compute: count, sum(total), avg, min, max",
	"format":     "csv or jsonl for an export of all records",
	"existing":   "of an import: refuse (the default), skip or update records that exist",
	"partial":    "of an import: true to import the rows without mistakes",
	"dry_run":    "of an import: true to write nothing",
	"pending":    "of a dry run: true to list references to records of the same collection that are not there, instead of refusing them",
	"token":      "the token of the first response, to carry out the change",
	"rev":        "a revision of the record",
	"purge":      "true to delete a record in the trash for good",
	"collection": "the name of a collection to export; may be repeated",
	"topic":      "orders/* or orders/ID; may be repeated",
	"before":     "changes with revisions below this one",
}
