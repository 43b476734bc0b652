package value

import "github.com/skerrydb/skerry/jsonscan"

// OfTexts returns an array of texts, each of which OfText must accept.
func OfTexts(texts []string) Value {
	list := []byte{'['}
	for i, s := range texts {
		if i > 0 {
			list = append(list, ',')
		}
		list = AppendText(list, s)
	}
	return Value{kind: JSON, text: string(append(list, ']'))}
}

// Texts returns the elements of an array of texts, not nil, and whether v is one.
func (v Value) Texts() ([]string, bool) {
	all, ok := []string{}, true
	isArray := v.each(func(s *jsonscan.Scanner) bool {
		if ok = s.Peek() == '"'; ok {
			text, _ := s.Text()
			all = append(all, string(text))
		}
		return ok
	})
	if !isArray || !ok {
		return nil, false
	}
	return all, true
}

// Has reports whether v is an array that has x as an element. Numbers compare by their value.
func (v Value) Has(x Value) (found bool) {
	v.each(func(s *jsonscan.Scanner) bool {
		element, err := parse(s.Raw())
		found = err == nil && Compare(element, x) == 0
		return !found
	})
	return found
}

// each calls fn with a scanner at each element of an array, which fn must read, until fn returns false. It reports
// whether v is an array.
func (v Value) each(fn func(s *jsonscan.Scanner) bool) bool {
	if v.kind != JSON || v.text[0] != '[' {
		return false
	}
	s := jsonscan.New([]byte(v.text))
	for s.Open(); s.More(']'); {
		if !fn(&s) {
			break
		}
	}
	return true
}

// Member returns the member of an object that a path of names leads to, v itself for no names, and null if there is
// none. Of members with the same name it takes the last.
func (v Value) Member(names []string) Value {
	for _, name := range names {
		if v.kind != JSON || v.text[0] != '{' {
			return Value{}
		}
		var found []byte
		s := jsonscan.New([]byte(v.text))
		for s.Open(); s.More('}'); {
			member, _ := s.Text()
			is := string(member) == name
			if raw := s.Raw(); is {
				found = raw
			}
		}
		if found == nil {
			return Value{}
		}
		v, _ = parse(found)
	}
	return v
}
