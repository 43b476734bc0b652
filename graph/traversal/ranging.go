package traversal

import (
	"container/list"
	"fmt"
	"math"
	"slices"

	"github.com/skerrydb/skerry/graph/value"
)

// ranging has the makers of the steps that choose some of all traversers, or order
// them.
func ranging() map[string]maker {
	return map[string]maker{
		"range": makeRange, "limit": makeRange, "skip": makeRange, "tail": makeTail, "dedup": makeDedup, "sample": makeSample,
		"order": makeOrder, "barrier": makeBarrier, "aggregate": makeAggregate, "store": makeAggregate,
	}
}

// window is range, limit and skip over all traversers.
type window struct{ low, high int64 } // high < 0: no end

func makeRange(_ *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	w := window{0, -1}
	var err error
	switch c.Name {
	case "range":
		if err = c.arity(2, 2); err != nil {
			return nil, traits{}, err
		}
		if w.low, err = c.int(0); err != nil {
			return nil, traits{}, err
		}
		w.high, err = c.int(1)
	case "limit":
		if err = c.arity(1, 1); err == nil {
			w.high, err = c.int(0)
		}
	default:
		if err = c.arity(1, 1); err == nil {
			w.low, err = c.int(0)
		}
	}
	if err == nil && w.high != -1 && w.low > w.high {
		err = known("Not a legal range: [%d, %d]", w.low, w.high)
	}
	if err != nil || local {
		return mapping(func(_ *run, t traverser) (any, bool, error) { return w.local(t.val) }), traits{}, err
	}
	return w, traits{stateful: true}, nil
}

func (w window) open(_ *run, next sink) sink { return &windowing{w: w, next: next} }

type windowing struct {
	w      window
	seen   int64
	rounds map[int]int64 // in a repeat: seen in each of its rounds
	next   sink
}

func (s *windowing) push(t traverser) error {
	if t.loops != nil { // each round has a range of its own
		if s.rounds == nil {
			s.rounds = map[int]int64{}
		}
		s.seen = s.rounds[t.loops.count]
		err := s.pass(t)
		s.rounds[t.loops.count] = s.seen
		if err == errDone && s.w.high >= 0 && s.seen >= s.w.high {
			return nil
		}
		return err
	}
	return s.pass(t)
}

func (s *windowing) pass(t traverser) error {
	if s.w.high >= 0 && s.seen >= s.w.high {
		return errDone
	}
	first, last := s.seen, s.seen+t.bulk
	s.seen = last
	first = max(first, s.w.low)
	if s.w.high >= 0 {
		last = min(last, s.w.high)
	}
	if last > first {
		t.bulk = last - first
		if err := s.next.push(t); err != nil {
			return err
		}
	}
	if s.w.high >= 0 && s.seen >= s.w.high {
		return errDone
	}
	return nil
}

func (s *windowing) flush() error { return s.next.flush() }

// local cuts a collection. One value is left of a list only if the range has just
// one.
func (w window) local(v any) (any, bool, error) {
	cut := func(n int) (int, int) {
		low, high := int(min(max(w.low, 0), int64(n))), n
		if w.high >= 0 {
			high = int(min(w.high, int64(n)))
		}
		return low, max(low, high)
	}
	return cutCollection(v, cut)
}

// cutCollection returns a part of a collection; other values stay as they are.
func cutCollection(v any, cut func(n int) (low, high int)) (any, bool, error) {
	switch x := v.(type) {
	case value.List, *value.BulkSet:
		items := value.Items(x)
		low, high := cut(len(items))
		return value.List(items[low:high]), true, nil
	case *value.Set:
		low, high := cut(x.Len())
		return value.NewSet(x.Items()[low:high]...), true, nil
	case *value.Map:
		low, high := cut(x.Len())
		out := &value.Map{}
		for _, e := range x.Entries()[low:high] {
			out.Set(e.Key, e.Val)
		}
		return out, true, nil
	case *value.Path:
		low, high := cut(len(x.Objects))
		return &value.Path{Objects: x.Objects[low:high], Labels: x.Labels[low:high]}, true, nil
	}
	return v, true, nil
}

func makeTail(_ *builder, c *callInfo) (kernel, traits, error) {
	local, n := c.scope(), int64(1)
	err := c.arity(0, 1)
	if len(c.Args) == 1 && err == nil {
		n, err = c.int(0)
	}
	if n < 0 {
		err = fmt.Errorf("argument 1 must not be negative")
	}
	if local || err != nil {
		return mapping(func(_ *run, t traverser) (any, bool, error) {
			return cutCollection(t.val, func(size int) (int, int) { return max(0, size-int(min(n, math.MaxInt32))), size })
		}), traits{}, err
	}
	return tail(n), traits{barrier: true}, nil
}

type tail int64

func (n tail) open(r *run, next sink) sink { return &tailing{r: r, n: int64(n), next: next} }

type tailing struct {
	r    *run
	n    int64
	last list.List // of traversers
	held int64     // their bulk
	next sink
}

func (s *tailing) push(t traverser) error {
	s.last.PushBack(t)
	if s.held += t.bulk; s.held <= s.n {
		return s.r.hold(1)
	}
	for over := s.held - s.n; over > 0; over = s.held - s.n {
		front := s.last.Front()
		first := front.Value.(traverser)
		if first.bulk > over {
			first.bulk, s.held = first.bulk-over, s.n
			front.Value = first
			break
		}
		s.held -= first.bulk
		s.last.Remove(front)
	}
	return nil
}

func (s *tailing) flush() error {
	for e := s.last.Front(); e != nil; e = e.Next() {
		if err := s.next.push(e.Value.(traverser)); err != nil {
			if err != errDone {
				return err
			}
			break
		}
	}
	s.last.Init()
	s.held = 0
	return s.next.flush()
}

// makeDedup makes dedup: of what the traversers are, of labels, or of collections.
func makeDedup(b *builder, c *callInfo) (kernel, traits, error) {
	if c.scope() {
		return mapping(func(_ *run, t traverser) (any, bool, error) {
			if items, ok := itemsOf(t.val); ok {
				return value.NewSet(items...), true, nil
			}
			return t.val, true, nil
		}), traits{}, nil
	}
	labels, err := c.strings(0)
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.oneBy(c, "Dedup")
	b.used.any = b.used.any || len(labels) > 0
	return &dedup{labels, bys}, traits{stateful: true}, err
}

type dedup struct {
	labels []string
	bys    []*by
}

func (d *dedup) open(r *run, next sink) sink {
	return &dedupping{r: r, d: d, seen: map[string]struct{}{}, next: next}
}

type dedupping struct {
	r    *run
	d    *dedup
	seen map[string]struct{}
	next sink
}

func (s *dedupping) push(t traverser) error {
	h, ok, err := s.key(t)
	if err != nil || !ok {
		return err
	}
	if _, ok := s.seen[h]; ok {
		return nil
	}
	if err := s.r.hold(1); err != nil {
		return err
	}
	s.seen[h] = struct{}{}
	t.bulk = 1
	return s.next.push(t)
}

func (s *dedupping) key(t traverser) (string, bool, error) {
	project := func(v any) (any, bool, error) {
		if len(s.d.bys) == 0 {
			return v, true, nil
		}
		t.val = v
		return s.d.bys[0].value(s.r, t)
	}
	if len(s.d.labels) == 0 {
		v, ok, err := project(t.val)
		return value.Hash(v), ok, err
	}
	key := value.List{}
	for _, label := range s.d.labels {
		v, ok, err := s.r.selected(t, label, value.PopLast)
		if err == nil && ok {
			v, ok, err = project(v)
		}
		if err != nil || !ok {
			return "", false, err
		}
		key = append(key, v)
	}
	return value.Hash(key), true, nil
}

func (s *dedupping) flush() error { return s.next.flush() }

func makeOrder(b *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope()
	bys, err := b.bys(c)
	if err != nil {
		return nil, traits{}, err
	}
	if len(bys) == 0 {
		bys = []*by{{order: value.Asc}}
	}
	if local {
		return mapping(func(r *run, t traverser) (any, bool, error) { return r.orderLocal(bys, t) }), traits{}, c.arity(0, 0)
	}
	return collecting(func(r *run, all []traverser) ([]traverser, error) {
		return r.ordered(bys, all)
	}), traits{barrier: true}, c.arity(0, 0)
}

// ordered sorts traversers. Those without a value to sort by are left out.
func (r *run) ordered(bys []*by, all []traverser) ([]traverser, error) {
	type keyed struct {
		t    traverser
		keys []any
	}
	sorted := make([]keyed, 0, len(all))
	for _, t := range all {
		k := keyed{t, make([]any, len(bys))}
		ok := true
		for i, m := range bys {
			if m.order == value.Shuffle {
				k.keys[i] = r.random(m).float()
				continue
			}
			var err error
			if k.keys[i], ok, err = m.value(r, t); err != nil {
				return nil, err
			}
			if !ok {
				break
			}
		}
		if ok {
			sorted = append(sorted, k)
		}
	}
	slices.SortStableFunc(sorted, func(a, b keyed) int {
		for i, m := range bys {
			if c := value.Order(a.keys[i], b.keys[i]); c != 0 {
				if m.order == value.Desc {
					return -c
				}
				return c
			}
		}
		return 0
	})
	out := all[:0]
	for _, k := range sorted {
		out = append(out, k.t)
	}
	return out, nil
}

// orderLocal sorts a collection, or a map by its entries.
func (r *run) orderLocal(bys []*by, t traverser) (any, bool, error) {
	var items []any
	m, isMap := t.val.(*value.Map)
	if isMap {
		for _, e := range m.Entries() {
			items = append(items, e)
		}
	} else {
		var ok bool
		if items, ok = itemsOf(t.val); !ok {
			return t.val, true, nil
		}
	}
	all := make([]traverser, len(items))
	for i, v := range items {
		all[i] = t
		all[i].val = v
	}
	all, err := r.ordered(bys, all)
	if err != nil {
		return nil, false, err
	}
	if isMap {
		out := &value.Map{}
		for _, t := range all {
			e := t.val.(value.Entry)
			out.Set(e.Key, e.Val)
		}
		return out, true, nil
	}
	out := make(value.List, 0, len(all))
	for _, t := range all {
		out = append(out, t.val)
	}
	return out, true, nil
}

// makeBarrier makes barrier, which waits for all traversers, or for some of them,
// and joins those that are the same.
func makeBarrier(_ *builder, c *callInfo) (kernel, traits, error) {
	if err := c.arity(0, 1); err != nil {
		return nil, traits{}, err
	}
	if len(c.Args) == 1 && c.Args[0] == value.NormSack {
		return collecting(normSack), traits{barrier: true}, nil
	}
	size := int64(math.MaxInt64)
	if len(c.Args) == 1 {
		var err error
		if size, err = c.int(0); err != nil || size < 1 {
			return nil, traits{}, wrong(0, "a whole number from 1", c.Args[0])
		}
	}
	return lazy(size), traits{barrier: true}, nil
}

// normSack divides the sacks so that their sum is 1.
func normSack(_ *run, all []traverser) ([]traverser, error) {
	var total any
	for i, t := range all {
		if !value.IsNumber(t.sack) {
			return nil, fmt.Errorf("normSack needs sacks that are numbers, not %s", value.Describe(t.sack))
		}
		switch value.TypeName(t.sack) {
		case "BIGINT", "BIGDECIMAL":
			all[i].sack = value.AsDecimal(t.sack)
		default:
			all[i].sack, _ = value.Float(t.sack)
		}
		part, err := timesBulk(all[i].sack, t.bulk)
		if err == nil {
			total, err = value.Calc(value.Add, total, part)
		}
		if err != nil {
			return nil, err
		}
	}
	for i := range all {
		var err error
		if all[i].sack, err = value.Calc(value.Div, all[i].sack, total); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// lazy is a barrier of at most so many traversers, which joins those that are the
// same.
type lazy int64

func (n lazy) open(r *run, next sink) sink { return &lazing{r: r, size: int64(n), next: next} }

type lazing struct {
	r    *run
	size int64
	all  []traverser
	at   index
	next sink
}

func (s *lazing) push(t traverser) error {
	joined, err := s.at.join(s.r, &s.all, t)
	if err != nil || joined {
		return err
	}
	if err := s.r.hold(1); err != nil {
		return err
	}
	if int64(len(s.all)) >= s.size {
		return s.release()
	}
	return nil
}

func (s *lazing) release() error {
	all := s.all
	s.r.release(len(all))
	s.all, s.at = nil, index{}
	for _, t := range all {
		if err := s.next.push(t); err != nil {
			return err
		}
	}
	return nil
}

func (s *lazing) flush() error {
	if err := s.release(); err != nil && err != errDone {
		return err
	}
	return s.next.flush()
}

// makeAggregate makes aggregate(key), which waits for all traversers and collects
// them, and aggregate(local, key), which collects each as it comes.
func makeAggregate(b *builder, c *callInfo) (kernel, traits, error) {
	local := c.scope() || c.Name == "store"
	if err := c.arity(1, 1); err != nil {
		return nil, traits{}, err
	}
	key, err := c.string(0)
	if err != nil {
		return nil, traits{}, err
	}
	bys, err := b.oneBy(c, "Aggregate")
	b.collects(key, func() any { return &value.BulkSet{} })
	collect := func(r *run, t traverser) error {
		v := t.val
		if len(bys) > 0 {
			var ok bool
			var err error
			if v, ok, err = bys[0].value(r, t); err != nil || !ok {
				return err
			}
		}
		return r.collect(key, v, t.bulk)
	}
	if local {
		return effect(collect), traits{}, err
	}
	return collecting(func(r *run, all []traverser) ([]traverser, error) {
		if op := r.effects.reduce[key]; op != nil && (op.Name == "assign" || op.Name == "addAll") {
			return all, r.collectAll(key, op.Name, bys, all)
		}
		for _, t := range all {
			if err := collect(r, t); err != nil {
				return nil, err
			}
		}
		return all, nil
	}), traits{barrier: true}, err
}

// collectAll gives the values of all traversers to a side effect at once.
func (r *run) collectAll(key, op string, bys []*by, all []traverser) error {
	vals := value.List{}
	for _, t := range all {
		v, ok := t.val, true
		if len(bys) > 0 {
			var err error
			if v, ok, err = bys[0].value(r, t); err != nil {
				return err
			}
		}
		for range t.bulk {
			if ok {
				vals = append(vals, v)
			}
		}
	}
	v, err := operate(op, r.effects.vals[key], vals)
	r.effects.vals[key] = v
	return err
}
