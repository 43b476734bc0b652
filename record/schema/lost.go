package schema

// Rewrites reports whether existing records must be rewritten after the step, because it permanently removes values or
// because Fill adds some. Other differences are resolved when a record is read.
func (s Step) Rewrites() bool {
	switch s.Kind {
	case DropField:
		return true
	case AddField, AlterField:
		f := &s.After.Fields[s.After.field(s.Name)]
		return f.Required && f.fills()
	case SetOption:
		return s.Loses && s.Name == "extra"
	}
	return false
}

// Lost reports whether a record loses data by the step, or is not valid after it though it was before: the record as
// it is before all steps, under the description old, and as new parses it.
func (s Step) Lost(old *Compiled, was Data, new *Compiled, is Data) bool {
	switch s.Kind {
	case DropCollection:
		return true
	case DropField:
		i, ok := old.Index(s.Name)
		return ok && !was.Get(i).IsNull()
	case AddField, AlterField:
		return s.Loses && s.lostField(old, was, new, is)
	case SetOption:
		return s.Loses && (s.Name != "extra" || len(was.read().extras) > 0)
	}
	return false
}

func (s Step) lostField(old *Compiled, was Data, new *Compiled, is Data) bool {
	i, ok := new.Index(s.Name)
	if !ok {
		return false
	}
	f, v, filled := &new.fields[i], is.Get(i), new.Fill(is).Get(i)
	for j := range old.fields {
		g, w := &old.fields[j], was.Get(j)
		if new.Current(g.Name) != s.Name {
			continue
		}
		if !w.IsNull() && (v.IsNull() || g.Collection != f.Collection) {
			return true
		}
		return f.Type != Password && f.check("", filled) != nil && g.check("", w) == nil
	}
	extras := 0 // members that become the field
	for _, name := range append([]string{s.Name}, f.Was...) {
		if !was.Extra(name).IsNull() {
			extras++
		}
	}
	return extras > 1 || extras == 1 && (v.IsNull() || f.check("", v) != nil) || f.Required && filled.IsNull()
}
