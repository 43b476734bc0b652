package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/bench/records/item"
	"github.com/skerrydb/skerry/bench/rig"
)

// dialect is how a server is asked.
type dialect struct {
	records string // path of the collection
	list    string // path of a list, to which a status and listEnd are appended
	listEnd string
	created int  // status of a response to a creation
	inData  bool // the data is a member of the body
}

func (d *dialect) wrap(data []byte) []byte {
	if !d.inData {
		return data
	}
	return append(append([]byte(`{"data":`), data...), '}')
}

// listed is how many records a list has.
const listed = 20

var dialects = map[string]dialect{
	"pocketbase": {
		"/api/collections/items/records",
		"/api/collections/items/records?perPage=20&skipTotal=1&sort=-number&filter=status%3D%22", "%22", 200, false,
	},
	"postgres": {"/items", "/items?limit=20&status=", "", 201, false},
	"skerry":   {"/api/items", "/api/items?limit=20&sort=-number&filter=status%3D%22", "%22", 201, true},
}

// load is one kind of request.
type load struct {
	name   string
	writes bool
	// ask starts a request of client c. seq differs from request to request; key is a loaded record.
	ask func(c *client, d *dialect, key, seq int64)
	// check reports why a response is not the expected one.
	check func(d *dialect, key, seq int64, status int, body []byte) error
}

var loads = []load{
	{
		name: "create", writes: true,
		ask: func(c *client, d *dialect, _, seq int64) {
			c.requestJSON("POST", d.records, d.wrap(item.AppendJSON(nil, seq)))
		},
		check: func(d *dialect, _, seq int64, status int, body []byte) error {
			return one(status, d.created, body, "", seq)
		},
	},
	{
		name: "get",
		ask: func(c *client, d *dialect, key, _ int64) {
			c.request("GET", string(item.AppendID(append([]byte(d.records), '/'), key)))
		},
		check: func(_ *dialect, key, _ int64, status int, body []byte) error {
			return one(status, 200, body, string(item.AppendID(nil, key)), key)
		},
	},
	{
		name: "list of 20",
		ask: func(c *client, d *dialect, key, _ int64) {
			c.request("GET", string(append(item.AppendStatus([]byte(d.list), key), d.listEnd...)))
		},
		check: func(_ *dialect, key, _ int64, status int, body []byte) error { return many(status, body, key) },
	},
	{name: "update", writes: true, ask: askUpdate, check: checkUpdate},
	{
		name: "burst", writes: true,
		ask: func(c *client, d *dialect, _, seq int64) { askUpdate(c, d, 0, seq) },
		check: func(d *dialect, _, seq int64, status int, body []byte) error {
			return checkUpdate(d, 0, seq, status, body)
		},
	},
}

func loadNamed(name string) load {
	return loads[slices.IndexFunc(loads, func(l load) bool { return l.name == name })]
}

func askUpdate(c *client, d *dialect, key, seq int64) {
	c.requestJSON("PATCH", string(item.AppendID(append([]byte(d.records), '/'), key)), d.wrap(item.AppendChange(nil, seq)))
}

func checkUpdate(_ *dialect, key, seq int64, status int, body []byte) error {
	if err := one(status, 200, body, string(item.AppendID(nil, key)), key); err != nil {
		return err
	}
	if title := strconv.AppendQuote(nil, "change "+strconv.FormatInt(seq, 10)); !bytes.Contains(body, title) {
		return fmt.Errorf("the response to an update lacks the title %s: %q", title, body)
	}
	return nil
}

// number and status are members of every record; PostgreSQL's JSONB prints a space before their values.
var (
	number = []byte(`"number":`)
	status = []byte(`"status":`)
	id     = []byte(`"id":`)
)

// one checks the response with one record. id may be unknown: "".
func one(got, want int, body []byte, wantID string, n int64) error {
	if got != want {
		return fmt.Errorf("status %d instead of %d: %q", got, want, body)
	}
	at := bytes.Index(body, id)
	if at < 0 || wantID != "" && !bytes.Contains(body[at:], strconv.AppendQuote(nil, wantID)) {
		return fmt.Errorf("the response is not record %s: %q", wantID, body)
	}
	if v, _ := member(body, number); v != strconv.FormatInt(n, 10) {
		return fmt.Errorf("the response is not record %d: %q", n, body)
	}
	return nil
}

// many checks the response with a list: exactly listed records of the status of key, in order.
func many(got int, body []byte, key int64) error {
	if got != 200 {
		return fmt.Errorf("status %d instead of 200: %q", got, body)
	}
	want := string(strconv.AppendQuote(nil, string(item.AppendStatus(nil, key))))
	last, n := int64(0), 0
	for numbers, statuses := body, body; ; n++ { // either may be the first member of a record
		var num, is string
		if num, numbers = member(numbers, number); num == "" {
			break
		}
		if is, statuses = member(statuses, status); is != want {
			return fmt.Errorf("a record with status %s in a list of %s", is, want)
		}
		v, err := strconv.ParseInt(num, 10, 64)
		if err != nil {
			return err
		}
		if n > 0 && v >= last {
			return fmt.Errorf("record %d after record %d", v, last)
		}
		last = v
	}
	if n != listed {
		return fmt.Errorf("a list of %d records instead of %d: %q", n, listed, body)
	}
	return nil
}

// member returns the text of the first member with a name, up to the next comma or brace, and what follows it.
func member(body, name []byte) (string, []byte) {
	at := bytes.Index(body, name)
	if at < 0 {
		return "", nil
	}
	rest := bytes.TrimLeft(body[at+len(name):], " ")
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return "", nil
	}
	return string(rest[:end]), rest[end:]
}

// job is one measurement.
type job struct {
	addr         string
	dialect      dialect
	load         load
	clients      int
	loaded       int64 // records that are there
	seq          *atomic.Int64
	warm, window time.Duration
	begin, end   func()
	seed         uint64
}

// outcome is its result. All is every request that was answered, also outside of the window.
type outcome struct {
	lat rig.Hist
	all int64
}

// run keeps the clients busy. A response that is not the expected one ends the measurement.
func (j *job) run() (outcome, error) {
	var out outcome
	got, err := rig.Run(rig.Job{
		Addrs: []string{j.addr}, Set: j.load.writes, Shape: rig.Shape{Conns: j.clients, Flight: 1}, Keys: uint64(j.loaded), Seed: j.seed,
		Warm: j.warm, Window: j.window, Begin: j.begin, End: j.end,
		Lane: func() rig.Codec { return &lane{job: j, all: &out.all} },
	})
	out.lat = got.Lat
	return out, err
}

// lane is one connection, with one request in flight.
type lane struct {
	client
	job      *job
	key, seq int64
	all      *int64
}

// AppendGet implements rig.Codec.
func (l *lane) AppendGet(b []byte, key uint64) []byte {
	l.key, l.seq = int64(key), l.job.seq.Add(1)
	l.job.load.ask(&l.client, &l.job.dialect, l.key, l.seq)
	return append(b, l.out...)
}

// AppendSet implements rig.Codec.
func (l *lane) AppendSet(b []byte, key, _ uint64) []byte { return l.AppendGet(b, key) }

// Reply implements rig.Codec.
func (l *lane) Reply(b []byte, _ bool) (int, error) {
	status, body, size, err := l.response(b)
	if size == 0 || err != nil {
		return 0, err
	}
	*l.all++
	return size, l.job.load.check(&l.job.dialect, l.key, l.seq, status, body)
}
