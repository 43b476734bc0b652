package session_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/session"
)

// modelSteps is how many steps the model test makes.
const modelSteps = 3000

// truth is the model of one stored session.
type truth struct {
	user, handle            string
	created, absolute, seen int64 // milliseconds
	values                  map[string]int
}

func (w truth) clone() truth {
	w.values = maps.Clone(w.values)
	return w
}

// cell is what a request has read of one value, or wants to write.
type cell struct {
	n  int
	ok bool
}

// request is a Session in use, with its model.
type request struct {
	s             *session.Session
	token         string
	was           *truth // what was stored when it was loaded; nil: nothing
	at            int64  // when that was
	reads, writes map[string]cell
	rotate, drop  bool
	login         string
}

// world is the model: all sessions by their tokens, and open requests.
type world struct {
	*fixture
	r      *rand.Rand
	live   map[string]*truth
	issued []string
	open   []*request
	met    map[string]int // how often each outcome occurred
}

// model compares random requests of several browsers with a simple model.
func model(f *fixture) {
	o := short
	o.PerUser, o.Namespace = 3, "model"
	f.use(o)
	w := &world{fixture: f, r: seed.Rand(f), live: map[string]*truth{}, met: map[string]int{}}
	for i := 0; i < modelSteps && !f.Failed(); i++ {
		// Always advance it, so that a transaction's time is the clock's.
		f.env.Add(time.Duration(2+w.r.IntN(400)) * time.Millisecond)
		w.step()
		w.checkSome()
	}
	f.Logf("%d tokens were issued, met: %v", len(w.issued), w.met)
}

func (w *world) step() {
	if len(w.open) < 4 && w.r.IntN(3) == 0 {
		w.begin()
		return
	}
	switch n := w.r.IntN(100); {
	case n == 0:
		w.open = nil
		w.again()
	case n < 3:
		w.env.Add(time.Duration(w.r.IntN(12)) * time.Second)
	case n < 8:
		w.revoke()
	case len(w.open) == 0:
		w.begin()
	default:
		i := w.r.IntN(len(w.open))
		if w.act(w.open[i]) {
			w.open = slices.Delete(w.open, i, i+1)
		}
	}
}

func (w *world) now() int64 { return w.env.Now().UnixMilli() }

// get returns what is stored for token now, or nil.
func (w *world) get(token string) *truth {
	s := w.live[token]
	if s == nil || w.now() >= min(s.seen+w.o.Idle.Milliseconds(), s.absolute) {
		delete(w.live, token)
		return nil
	}
	return s
}

// begin begins a request with one of the tokens that were ever issued, or none.
func (w *world) begin() {
	q := &request{s: w.st.New(), reads: map[string]cell{}, writes: map[string]cell{}}
	if n := len(w.issued); n > 0 && w.r.IntN(8) > 0 {
		q.token = w.issued[max(0, n-1-w.r.IntN(4))]
		if s := w.get(q.token); s != nil {
			was := s.clone()
			q.was, q.at, q.s = &was, w.now(), w.load(q.token)
		}
	}
	w.open = append(w.open, q)
}

// act performs one action in a request. It reports whether that was the last one.
func (w *world) act(q *request) (ended bool) {
	name := string(rune('a' + w.r.IntN(2)))
	key := session.NewKey[int](name)
	switch w.r.IntN(20) {
	case 0, 1:
		w.read(q, name)
	case 10, 11, 12, 13: // the way to lose an update
		w.read(q, name)
		fallthrough
	case 2, 3:
		n := w.r.IntN(1000)
		set(w.fixture, q.s, key, n)
		q.writes[name] = cell{n, true}
	case 4:
		key.Delete(q.s)
		if q.writes[name] = (cell{}); !q.base() {
			delete(q.writes, name)
		}
	case 5, 6:
		w.increment(q, name)
	case 7:
		q.s.Rotate()
		q.rotate = true
	case 8:
		user := string(rune('A' + w.r.IntN(2)))
		if q.user() != "" && q.user() != user {
			q.logout()
		}
		q.s.Login(user)
		q.login = user
	case 9:
		q.s.Logout()
		q.logout()
	default:
		return w.finish(q)
	}
	if q.s.Changed() != q.changed() || q.s.User() != q.user() {
		w.Errorf("changed %v, user %q; want %v, %q", q.s.Changed(), q.s.User(), q.changed(), q.user())
	}
	return false
}

func (q *request) base() bool { return q.was != nil && !q.drop }

func (q *request) logout() {
	q.drop, q.login = q.was != nil, ""
	clear(q.reads)
	clear(q.writes)
}

func (q *request) user() string {
	if q.login != "" || !q.base() {
		return q.login
	}
	return q.was.user
}

func (q *request) changed() bool {
	return q.was != nil && (q.rotate || q.drop) || q.login != "" || len(q.writes) > 0
}

// sees returns a value as the request sees it.
func (q *request) sees(name string) cell {
	if c, ok := q.writes[name]; ok {
		return c
	}
	if c, ok := q.reads[name]; ok {
		return c
	}
	if !q.base() {
		return cell{}
	}
	n, ok := q.was.values[name]
	return cell{n, ok}
}

func (w *world) read(q *request, name string) {
	want := q.sees(name)
	if n, ok, err := session.NewKey[int](name).Get(q.s); n != want.n || ok != want.ok || err != nil {
		w.Errorf("get %s: %d %v %v, want %+v", name, n, ok, err, want)
	}
	if _, ok := q.writes[name]; !ok && q.base() {
		q.reads[name] = want
	}
}

// increment models Key.Update.
func (w *world) increment(q *request, name string) {
	plus := func(old int, _ bool) (int, error) { return old + 1, nil }
	err := session.NewKey[int](name).Update(w.Context(), q.s, plus)
	if !q.base() {
		q.writes[name] = cell{q.sees(name).n + 1, true}
		w.code("update", err, "")
		return
	}
	s := w.get(q.token)
	if s == nil {
		w.code("update", err, session.CodeNoSession)
		return
	}
	old := s.values[name]
	if c, ok := q.writes[name]; ok {
		if w.conflicts(q, s, name) {
			w.code("update", err, engine.CodeConflict)
			return
		}
		old = c.n
	}
	w.code("update", err, "")
	s.values[name], s.seen = old+1, w.now()
	delete(q.writes, name)
	w.renewed(q, s)
	if _, ok := q.reads[name]; ok {
		q.reads[name] = cell{old + 1, true}
	}
}

func (w *world) renewed(q *request, s *truth) {
	was := s.clone()
	q.was, q.at = &was, w.now()
}

func (w *world) conflicts(q *request, s *truth, name string) bool {
	read, ok := q.reads[name]
	n, is := s.values[name]
	return ok && read != cell{n, is}
}

func (w *world) code(what string, err error, want engine.Code) {
	w.Helper()
	w.met[what+": "+string(want)]++
	if engine.CodeOf(err) != want {
		w.Errorf("%s: %v, want %q", what, err, want)
	}
}

// finish saves a request and reports whether that ends it.
func (w *world) finish(q *request) bool {
	renew := int64(float64(w.o.Idle.Milliseconds()) * w.o.RenewShare)
	due := q.was != nil && q.at-q.was.seen >= renew
	if q.s.NeedsSave() != (due || q.changed()) {
		w.Errorf("needs to be saved: %v, due %v, changed %v", q.s.NeedsSave(), due, q.changed())
	}
	token, _, err := q.s.Save(w.Context())
	if !q.changed() && !due {
		w.code("save of nothing", err, "")
		return true
	}
	var s *truth
	if q.base() {
		s = w.get(q.token)
	}
	switch {
	case q.base() && s == nil && q.login == "":
		w.code("save of an ended session", err, session.CodeNoSession)
		return true
	case s != nil:
		for name := range q.writes {
			if w.conflicts(q, s, name) {
				w.code("save", err, engine.CodeConflict)
				return true
			}
		}
	}
	w.code("save", err, "")
	if s != nil && !q.changed() && w.now()-s.seen < renew {
		w.renewed(q, s) // another request has renewed it
		return w.r.IntN(2) == 0
	}
	return w.commit(q, s, token)
}

// commit updates the model with what the save has made of s, or nil for a new session.
func (w *world) commit(q *request, s *truth, token string) bool {
	isNew := !q.base() || q.rotate || q.login != ""
	if q.was != nil && isNew { // the old session ends, including under its rotated token
		delete(w.live, q.token)
		for t, other := range w.live {
			if q.was.user != "" && other.user == q.was.user && other.handle == q.was.handle {
				delete(w.live, t)
			}
		}
	}
	if q.drop && q.login == "" && len(q.writes) == 0 {
		if token != "" || !q.logoutLeft() {
			w.Errorf("a logout left token %q", token)
		}
		return true
	}
	if (token != "") != isNew {
		w.Errorf("saved with token %q, new %v", token, isNew)
	}
	next := truth{created: w.now(), absolute: w.now() + w.o.Absolute.Milliseconds(), values: map[string]int{}}
	if s != nil {
		next = s.clone()
	}
	if q.login != "" {
		next.user, next.created, next.absolute = q.login, w.now(), w.now()+w.o.Absolute.Milliseconds()
		w.makeRoom(q.login)
	}
	next.seen = w.now()
	for name, c := range q.writes {
		if next.values[name] = c.n; !c.ok {
			delete(next.values, name)
		}
	}
	handle := q.s.Handle()
	if same := s != nil && q.login == ""; same != (handle == next.handle) {
		w.Errorf("handle %q after %q", handle, next.handle)
	}
	next.handle = handle
	if isNew {
		q.token = token
		w.issued = append(w.issued, token)
	}
	w.live[q.token] = &next
	for name, c := range q.writes {
		if _, ok := q.reads[name]; ok {
			q.reads[name] = c
		}
	}
	clear(q.writes)
	q.rotate, q.drop, q.login = false, false, ""
	w.renewed(q, &next)
	return w.r.IntN(3) > 0
}

func (q *request) logoutLeft() bool { return !q.s.Stored() && !q.s.NeedsSave() && q.s.User() == "" }

// of returns the tokens of a user's sessions, most recently used first.
func (w *world) of(user string) (tokens []string) {
	for t := range maps.Clone(w.live) {
		if s := w.get(t); s != nil && s.user == user {
			tokens = append(tokens, t)
		}
	}
	slices.SortFunc(tokens, func(a, b string) int { return cmp.Compare(w.live[b].seen, w.live[a].seen) })
	return tokens
}

func (w *world) makeRoom(user string) {
	if all := w.of(user); len(all) >= w.o.PerUser {
		for _, t := range all[w.o.PerUser-1:] {
			delete(w.live, t)
		}
	}
}

// revoke ends one session of a user, all, or all but one.
func (w *world) revoke() {
	user := string(rune('A' + w.r.IntN(2)))
	all := w.of(user)
	switch {
	case len(all) == 0:
		n, _, err := w.st.RevokeAll(w.Context(), user)
		if n != 0 || err != nil {
			w.Errorf("revoked %d: %v", n, err)
		}
	case w.r.IntN(2) == 0:
		t := all[w.r.IntN(len(all))]
		_, err := w.st.Revoke(w.Context(), user, w.live[t].handle)
		w.code("revoke", err, "")
		delete(w.live, t)
	default:
		keep := all[w.r.IntN(len(all))]
		n, _, err := w.st.RevokeAll(w.Context(), user, w.live[keep].handle)
		if n != len(all)-1 || err != nil {
			w.Errorf("revoked %d of %d: %v", n, len(all), err)
		}
		for _, t := range all {
			if t != keep {
				delete(w.live, t)
			}
		}
	}
}

// checkSome compares part of the stored data with the model.
func (w *world) checkSome() {
	for range min(3, len(w.issued)) {
		token := w.issued[len(w.issued)-1-w.r.IntN(min(20, len(w.issued)))]
		want := w.get(token)
		if want == nil {
			w.gone(token, "the model")
			continue
		}
		s := w.load(token)
		have := truth{s.User(), s.Handle(), s.Created().UnixMilli(), want.absolute, s.LastSeen().UnixMilli(), map[string]int{}}
		for _, name := range []string{"a", "b", "c"} {
			if n, ok, err := session.NewKey[int](name).Get(s); err != nil {
				w.Error(err)
			} else if ok {
				have.values[name] = n
			}
		}
		if fmt.Sprintf("%+v", have) != fmt.Sprintf("%+v", *want) {
			w.Errorf("stored %+v, want %+v", have, *want)
		}
	}
	for _, user := range []string{"A", "B"} {
		var want []string
		for _, t := range w.of(user) {
			want = append(want, w.live[t].handle)
		}
		if have := w.handles(user); !slices.Equal(have, want) {
			w.Errorf("sessions of %s: %v, want %v", user, have, want)
		}
	}
}
