package schema_test

import (
	"testing"

	"github.com/skerrydb/skerry/record/schema"
)

// items returns a collection, data for it, and the data as a client sends them.
func items(b *testing.B) (k *schema.Compiled, d schema.Data, text []byte) {
	k, err := schema.Collection{
		Name: "items",
		Fields: []schema.Field{
			{Name: "title", Type: schema.Text, Required: true, Max: "200"},
			{Name: "status", Type: schema.Text, Required: true, Max: "20"},
			{Name: "number", Type: schema.Int},
			{Name: "price", Type: schema.Float},
			{Name: "done", Type: schema.Bool},
			{Name: "body", Type: schema.Text, Max: "5000"},
		},
	}.Compile()
	if err != nil {
		b.Fatal(err)
	}
	text = []byte(`{"title":"item 17","status":"s17","number":17,"price":17.25,"done":false,"body":"` +
		`The lighthouse keeper writes down every ship that passes, the hour, the flag and the weather, and at the end of the month the book goes to the harbour office."}`)
	if d, err = k.Patch(schema.Data{}, text); err != nil {
		b.Fatal(err)
	}
	return k, d, text
}

// BenchmarkData measures what every request does with the data of a record.
func BenchmarkData(b *testing.B) {
	k, d, text := items(b)
	stored := k.Append(nil, d)
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Patch(schema.Data{}, text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Patch(d, []byte(`{"title":"change 18","price":3.75}`)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := k.Check(d, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Parse(stored); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("keep", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			d, err := k.Keep(stored)
			if status, _ := d.Get(1).Text(); err != nil || status != "s17" {
				b.Fatal(err, status)
			}
			out = k.AppendPublic(out[:0], d)
		}
	})
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			out = k.AppendPublic(out[:0], d)
		}
	})
}
