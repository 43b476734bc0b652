// Package item has the records that the benchmark of records stores, and what its programs agree on.
//
// It knows the data of a record and the report of a server; it must not know servers or measurements.
package item

import (
	"fmt"
	"strconv"
)

// Collection is the name of the only collection.
const Collection = "items"

// Statuses is how many values the indexed field status has. Record n has status n % Statuses.
const Statuses = 100

// IDBytes is the length of the ids of loaded records, which is what PocketBase asks for.
const IDBytes = 15

// AppendID appends the id of loaded record n: "r" and 14 digits.
func AppendID(b []byte, n int64) []byte {
	var id [IDBytes]byte
	id[0] = 'r'
	for p := IDBytes - 1; p > 0; p-- {
		id[p] = byte('0' + n%10)
		n /= 10
	}
	return append(b, id[:]...)
}

// AppendStatus appends a status.
func AppendStatus(b []byte, n int64) []byte {
	return append(b, 's', byte('0'+n%Statuses/10), byte('0'+n%10))
}

// Item is the data of a record.
type Item struct {
	Title  string  `json:"title"`
	Status string  `json:"status"`
	Number int64   `json:"number"`
	Price  float64 `json:"price"`
	Done   bool    `json:"done"`
	Body   string  `json:"body"`
}

// body is the text of every record: such text compresses well, and none of the servers compresses it.
const body = "The lighthouse keeper writes down every ship that passes, the hour, the flag and the weather, " +
	"and at the end of the month the book goes to the harbour office, where nobody reads it."

// New returns record n.
func New(n int64) Item {
	return Item{
		Title: "item " + strconv.FormatInt(n, 10), Status: string(AppendStatus(nil, n)), Number: n,
		Price: float64(n%10_000) + 0.25, Done: n%3 == 0, Body: body,
	}
}

// AppendJSON appends the data of record n.
func AppendJSON(b []byte, n int64) []byte {
	i := New(n)
	return fmt.Appendf(b, `{"title":%q,"status":%q,"number":%d,"price":%v,"done":%t,"body":%q}`, i.Title, i.Status, i.Number, i.Price, i.Done, i.Body)
}

// AppendChange appends the seq-th change of a record, as a merge patch. It changes neither status nor number.
func AppendChange(b []byte, seq int64) []byte {
	b = strconv.AppendInt(append(b, `{"title":"change `...), seq, 10)
	b = strconv.AppendInt(append(b, `","price":`...), seq%10_000, 10)
	return append(b, ".75}"...)
}

// Report is what a server says about its data.
type Report struct {
	Records int64 // records
	Changes int64 // changes in the history, creations included; -1: the server keeps no history

	RecordBytes  int64 // of records and their indexes
	HistoryBytes int64 // of the history and its indexes; 0 if Changes is -1
	LiveBytes    int64 // of a Go server's heap after a collection
}

// IndexReport is how long a server took to build an index.
type IndexReport struct{ Seconds float64 }
