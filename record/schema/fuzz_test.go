package schema

import (
	"encoding/json"
	"testing"
)

// FuzzCompile: a description that compiles compiles again once it was stored, and reads what is stored of data.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(`{"name":"c","fields":[{"name":"a","type":"decimal","min":"1","scale":2,"was":["b"]}],"indexes":[{"name":"x","fields":[{"name":"a","desc":true}],"unique":true}],"extra":true}`), []byte(`{"b":"1.50","z":[]}`))
	f.Add([]byte(`{"name":"c","fields":[{"name":"s","type":"select","options":["x"],"many":true,"default":"[\"x\"]"},{"name":"r","type":"reference","collection":"c","on_delete":"cascade"}],"history":{"keep":3600000000000}}`), []byte(`{"s":["x"]}`))
	f.Fuzz(func(t *testing.T, text, data []byte) {
		var c Collection
		if json.Unmarshal(text, &c) != nil {
			return
		}
		k, err := c.Compile()
		if err != nil {
			return
		}
		stored, err := json.Marshal(k.Collection)
		if err != nil {
			t.Fatal(err)
		}
		var back Collection
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		if _, err := back.Compile(); err != nil {
			t.Fatalf("%s is stored as %s: %v", text, stored, err)
		}
		d, err := k.Parse(data)
		if err != nil {
			return
		}
		once := string(k.Append(nil, d))
		if d, err = k.Parse([]byte(once)); err != nil || string(k.Append(nil, d)) != once {
			t.Fatalf("%s is stored as %s, which is %s, %v", data, once, k.Append(nil, d), err)
		}
	})
}

// FuzzDiff: between two descriptions that compile there are steps, whose last result compiles and needs no more steps,
// or the reason why not.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"name":"c","fields":[{"name":"a","type":"text"},{"name":"b","type":"int"}],"indexes":[{"name":"x","fields":[{"name":"a"}]}]}`),
		[]byte(`{"name":"c","fields":[{"name":"d","type":"int","was":["a"]},{"name":"e","type":"text","required":true}],"indexes":[{"name":"x","fields":[{"name":"d"}],"unique":true}],"extra":true}`))
	f.Add([]byte(`{"name":"c","fields":[{"name":"a","type":"password"}]}`), []byte(`{"name":"c","fields":[{"name":"a","type":"text"}]}`))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		var a, b Collection
		if json.Unmarshal(from, &a) != nil || json.Unmarshal(to, &b) != nil || a.Name != b.Name {
			return
		}
		if _, err := a.Compile(); err != nil {
			return
		}
		if _, err := b.Compile(); err != nil {
			return
		}
		steps, err := Diff(a, b)
		if err != nil || len(steps) == 0 {
			return
		}
		last := steps[len(steps)-1].After
		if _, err := last.Compile(); err != nil {
			t.Fatalf("from %s to %s: %v", from, to, err)
		}
		if more, err := Diff(last, b); err != nil || len(more) > 0 {
			t.Fatalf("from %s to %s: afterwards %v, %v", from, to, more, err)
		}
	})
}
