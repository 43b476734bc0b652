package schema

import (
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// sameData reports as errors in what two Data of the same collection differ.
func sameData(t *testing.T, k *Compiled, got, want Data) {
	t.Helper()
	for i := range k.fields {
		if got.Get(i) != want.Get(i) {
			t.Errorf("%s is %v, want %v", k.fields[i].Name, got.Get(i), want.Get(i))
		}
	}
	for _, name := range []string{"more", "new0", "new1", "a", "none"} {
		if got.Extra(name) != want.Extra(name) {
			t.Errorf("member %s is %v, want %v", name, got.Extra(name), want.Extra(name))
		}
	}
	some := func(name string) bool { return name == "a" || name == "more" }
	for _, form := range []func(dst []byte, d Data) []byte{k.Append, k.AppendPublic, func(dst []byte, d Data) []byte { return k.AppendOnly(dst, d, some) }} {
		if got, want := string(form([]byte("x"), got)), string(form([]byte("x"), want)); got != want {
			t.Errorf("printed as %s, want %s", got, want)
		}
	}
}

// TestKeep: data that are kept as text are the same as those that were parsed, also under a later description that has
// the same form, and after changes.
func TestKeep(t *testing.T) {
	r := seed.Rand(t)
	kept, same := 0, 0
	for range 3_000 {
		old := randomCollection(r)
		if r.IntN(4) == 0 {
			old.Fields = append(old.Fields, Field{Name: "secret", Type: Password})
		}
		a, b := compile(t, old), compile(t, randomChange(r, old))
		d, err := a.Patch(Data{}, []byte(randomData(r, old)))
		if err != nil || a.Check(d, nil) != nil {
			continue
		}
		stored := a.Append(nil, d)
		if a.locate(stored) == nil {
			t.Fatalf("%s is not kept under %s", stored, plain(old))
		}
		for _, k := range []*Compiled{a, b} {
			want, err := k.Parse(stored)
			if err != nil {
				t.Fatal(err)
			}
			if !k.SameForm(a) {
				continue
			}
			if same++; k == a {
				kept++
			}
			got, err := k.Keep(stored)
			if err != nil {
				t.Fatal(err)
			}
			sameData(t, k, got, want)
			v := mustText("another value")
			sameData(t, k, got.With(0, v), want.With(0, v))
			sameData(t, k, got.withExtra("more", v), want.withExtra("more", v))
			sameData(t, k, got, want) // is as it was
			x, errX := k.Patch(got, []byte(`{"a":null,"more":null}`))
			y, errY := k.Patch(want, []byte(`{"a":null,"more":null}`))
			if list(errX) != list(errY) {
				t.Errorf("%v, want %v", errX, errY)
			}
			sameData(t, k, x, y)
			if t.Failed() {
				t.Fatalf("%s under %s", stored, plain(k.Collection))
			}
		}
	}
	if t.Logf("%d kept, %d under another description", kept, same-kept); kept == 0 || same == kept {
		t.Error("a part of the test checks nothing")
	}
}

// FuzzKeep: stored bytes that are damaged do no harm, and what Append writes is always kept.
func FuzzKeep(f *testing.F) {
	a := articles()
	a.Extra = true
	k, err := a.Compile()
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{`{}`, `{"title":"x","meta":{"a":1}}`, `{"title":"x","z":[1,{"y":"\u0000"}],"zz":2}`, `{"title":nul`, `{"title":"x"`, `{"title":"x",}`, `{"count":1,"title":"x"}`, `{"z":1,"title":"x"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if d, err := k.Keep(text); err == nil {
			_ = k.AppendOnly(nil, d, func(string) bool { return true })
			_, _ = d.Get(0), d.Extra("z")
		}
		d, err := k.Parse(text)
		if err != nil {
			return
		}
		stored := k.Append(nil, d)
		kept, err := k.Keep(stored)
		if err != nil || kept.text == nil {
			t.Fatalf("%s is not kept: %v", stored, err)
		}
		sameData(t, k, kept, d)
	})
}
