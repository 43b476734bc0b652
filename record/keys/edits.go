package keys

import (
	"bytes"
	"slices"
)

// EditsToday returns the operations of a change as the description of the collection now has them: with today's names
// and values in today's form, without those that only a migration has made necessary, and without passwords and members
// that the collection does not have any more. A value that has no form now is as it was written. A change that was
// redacted has none.
func EditsToday(c *Collection, ch *Change) (all []Edit, err error) {
	if ch.Redacted() {
		return nil, nil
	}
	edits, err := Edits(ch.Body)
	if err != nil {
		return nil, err
	}
	for _, e := range edits {
		if _, field := c.Index(c.Current(e.Name)); !field && (!c.Extra || c.Hides(e.Name)) || slices.Contains(c.Secrets(), e.Name) {
			continue
		}
		e.Name = c.Current(e.Name)
		if i := slices.IndexFunc(all, func(x Edit) bool { return x.Name == e.Name }); i >= 0 { // it was renamed: removed and added
			if all[i].Now == nil {
				all[i].Now = e.Now
			}
			if all[i].Old == nil {
				all[i].Old = e.Old
			}
			continue
		}
		all = append(all, e)
	}
	for i := range all {
		if all[i].Now, err = today(c, all[i].Name, all[i].Now); err != nil {
			return nil, err
		}
		if all[i].Old, err = today(c, all[i].Name, all[i].Old); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(e Edit) bool { return bytes.Equal(e.Now, e.Old) }), nil
}

// today returns a value of a member as it is stored now, or as it is if it has no form now.
func today(c *Collection, name string, raw []byte) ([]byte, error) {
	if raw == nil {
		return nil, nil
	}
	o := members(nil)
	o.set(name, raw)
	d, err := c.Parse(o.text())
	if err != nil {
		return nil, err
	}
	if now := members(c.Append(nil, d)).byName[name]; now != nil {
		return now, nil
	}
	return raw, nil
}
