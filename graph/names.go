package graph

// names has the labels and keys of properties that a transaction has used, with
// their numbers. A number never gets another name.
type names struct {
	numbers map[string]uint64 // 0: it has none
	texts   map[uint64]string
}

// numberOf returns the number of a label or of a property's key; 0: it has none yet,
// so that no element has it.
func (t *Tx) numberOf(name string) (uint64, error) {
	if n, ok := t.names.numbers[name]; ok {
		return n, nil
	}
	if t.apart != nil {
		n, err := t.apart.numberOf(name)
		return t.known(n, name), err
	}
	key := append(t.key(roomNames), name...)
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return 0, err
	}
	var n uint64
	if ok {
		if n, raw, ok = number(raw); !ok || len(raw) != 0 || n == 0 {
			return 0, corrupt("number of a name", key)
		}
		t.names.texts[n] = name
	}
	t.names.numbers[name] = n
	return n, nil
}

// known keeps a name's number, unless it has none, and returns it.
func (t *Tx) known(n uint64, name string) uint64 {
	if n != 0 {
		t.names.numbers[name], t.names.texts[n] = n, name
	}
	return n
}

// give returns the number of a name, which it gets if it has none.
func (t *Tx) give(name string) (uint64, error) {
	n, err := t.numberOf(name)
	if n != 0 || err != nil {
		return n, err
	}
	if t.apart != nil {
		n, err := t.apart.give(name)
		return t.known(n, name), err
	}
	return t.giveNext(name)
}

func (t *Tx) giveNext(name string) (n uint64, err error) {
	if name == "" || len(name) > MaxNameBytes {
		return 0, limit("a label or a property's key has 1 to %d bytes (MaxNameBytes)", MaxNameBytes)
	}
	lo, hi := within(t.key(roomNumbers))
	for p, err := range t.tx.ScanBack(lo, hi) {
		if err != nil {
			return 0, err
		}
		var last [1]uint64
		if !numbers(p.Key, len(lo), last[:]) {
			return 0, corrupt("name", p.Key)
		}
		n = last[0]
		break
	}
	if n++; n > MaxNames {
		return 0, limit("a graph has at most %d labels and keys of properties (MaxNames)", MaxNames)
	}
	if err := t.put(append(t.key(roomNames), name...), appendNumber(nil, n)); err != nil {
		return 0, err
	}
	if err := t.put(t.key(roomNumbers, n), []byte(name)); err != nil {
		return 0, err
	}
	t.names.numbers[name], t.names.texts[n] = n, name
	return n, nil
}

// textOf returns the name that has a number.
func (t *Tx) textOf(n uint64) (string, error) {
	if s, ok := t.names.texts[n]; ok {
		return s, nil
	}
	if t.apart != nil {
		s, err := t.apart.textOf(n)
		if err == nil {
			t.known(n, s)
		}
		return s, err
	}
	key := t.key(roomNumbers, n)
	raw, ok, err := t.tx.Get(key)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", corrupt("name of a number", key)
	}
	s := string(raw)
	t.names.texts[n], t.names.numbers[s] = s, n
	return s, nil
}

// numbersOf appends the numbers of those names that have one.
func (t *Tx) numbersOf(out []uint64, names []string) ([]uint64, error) {
	for _, name := range names {
		n, err := t.numberOf(name)
		if err != nil {
			return nil, err
		}
		if n != 0 {
			out = append(out, n)
		}
	}
	return out, nil
}
