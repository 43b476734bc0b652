package item

import "github.com/skerrydb/skerry/record/schema"

// Describe returns the collection as Skerry has it. Anyone may read and change it.
func Describe() schema.Collection {
	return schema.Collection{
		Name: Collection,
		Fields: []schema.Field{
			{Name: "title", Type: schema.Text, Required: true, Max: "200"},
			{Name: "status", Type: schema.Text, Required: true, Max: "20"},
			{Name: "number", Type: schema.Int},
			{Name: "price", Type: schema.Float},
			{Name: "done", Type: schema.Bool},
			{Name: "body", Type: schema.Text, Max: "5000"},
		},
		Indexes: []schema.Index{{Name: "by_status", Fields: []schema.IndexField{{Name: "status"}, {Name: "number", Desc: true}}}},
		Rules:   schema.Rules{List: "true", View: "true", Create: "true", Update: "true", History: "true"},
	}
}
