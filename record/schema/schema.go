// Package schema describes collections of records: their fields, indexes and access rules, how data is checked
// against them, and which steps lead from one description to another.
//
// It knows descriptions and JSON data. It must not know where records are stored, who asks for them, or what happens
// to them.
package schema

import (
	"time"
)

// Limits of a collection.
const (
	MaxNameBytes    = 63       // name of a collection, field or index
	MaxFields       = 200      // fields of a collection
	MaxIndexes      = 32       // indexes of a collection
	MaxIndexFields  = 8        // fields of an index
	MaxOptions      = 500      // options of a select field
	MaxPatternBytes = 1 << 10  // pattern of a field
	MaxLabelBytes   = 200      // label of a collection or field
	MaxHintBytes    = 2_000    // hint of a collection or field
	MaxDataBytes    = 1 << 20  // data of one record, as JSON
	MaxProblems     = 100      // problems that one error lists
	MaxDefaultBytes = 16 << 10 // default of a field
	MaxWas          = 20       // former names of a field
)

// Collection describes a collection. Its zero Rules allow nothing to anyone but the program itself and superadmins.
type Collection struct {
	Name    string  `json:"name"`            // begins with a letter; letters, digits and _ in lower case
	Label   string  `json:"label,omitempty"` // for people; "" is made of the name
	Hint    string  `json:"hint,omitempty"`
	Fields  []Field `json:"fields"`
	Indexes []Index `json:"indexes,omitempty"`
	Rules   Rules   `json:"rules,omitzero"`

	// Extra allows members of the data that are not declared as fields. They are stored as they are, and queries
	// reach them like members of a JSON field.
	Extra bool `json:"extra,omitempty"`

	History History `json:"history,omitzero"`

	// Dropped are the fields that the collection had before. Older data and the history still have their values, which
	// are not read. Migrations keep this list; programs leave it empty.
	Dropped []Field `json:"dropped,omitempty"`
}

// History says what is kept of the changes of a collection's records. The zero value keeps all of them for ever.
type History struct {
	Off  bool          `json:"off,omitempty"`  // keep nothing
	Keep time.Duration `json:"keep,omitempty"` // how long; 0: for ever. At least an hour.
}

// Rules say who may do what, each as an expression of package expr; "" is nobody and "true" is anyone. The program
// itself and superadmins are not subject to rules.
type Rules struct {
	List      string `json:"list,omitempty"`      // also decides which records a listing contains
	View      string `json:"view,omitempty"`      // also of records that another one refers to
	Create    string `json:"create,omitempty"`    // of the new record
	Update    string `json:"update,omitempty"`    // of the record before; @new.NAME is a field after
	Delete    string `json:"delete,omitempty"`    // also decides who may see, restore and purge deleted records
	History   string `json:"history,omitempty"`   // of the record as it is now
	Subscribe string `json:"subscribe,omitempty"` // decides which events a subscriber receives
}

// Type is the type of a field.
type Type string

// The types of fields.
const (
	Text      Type = "text"
	Int       Type = "int"     // 64 bits
	Float     Type = "float"   // 64 bits, finite
	Decimal   Type = "decimal" // exact, with at most value.MaxDecimalDigits digits
	Bool      Type = "bool"
	Time      Type = "time"      // UTC, microseconds
	Email     Type = "email"     // one address without a name
	URL       Type = "url"       // absolute, http or https
	Phone     Type = "phone"     // + and 7 to 15 digits (E.164); spaces, points, hyphens and parentheses are removed
	Select    Type = "select"    // one of Options, or several
	JSON      Type = "json"      // anything
	Reference Type = "reference" // the id of a record of another collection or of the same
	Password  Type = "password"  // only its hash is stored, and never returned
)

// Field describes a field of a collection. Which options a type has is said with each of them; setting another one is
// an error.
type Field struct {
	Name  string `json:"name"`
	Type  Type   `json:"type"`
	Label string `json:"label,omitempty"` // for people; "" is made of the name
	Hint  string `json:"hint,omitempty"`

	// Required refuses records without a value. A value is never null; a text may be empty unless Min is 1.
	Required bool `json:"required,omitempty"`

	// Default is the value, as JSON, of records that are created without one. "@now" is the time of the creation for a
	// time, and "@auth.id" the id of the user for a text or reference. Not for passwords.
	Default string `json:"default,omitempty"`

	// Min and Max bound an int, float, decimal or time by its value, a text, email, url or password by its length in
	// characters, a select of several by their number, and json by its length in bytes. "" is no bound.
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`

	// Pattern is a regular expression (RE2) that the whole of a text must match.
	Pattern string `json:"pattern,omitempty"`

	// Scale is how many digits a decimal may have after its point, and is printed with; 0 is any number of them.
	Scale int `json:"scale,omitempty"`

	// Options are the values of a select, and Many allows several of them, without repetition.
	Options []string `json:"options,omitempty"`
	Many    bool     `json:"many,omitempty"`

	// Collection is what a reference refers to, and OnDelete what happens to the record when that is deleted.
	Collection string   `json:"collection,omitempty"`
	OnDelete   OnDelete `json:"on_delete,omitempty"`

	// Was are the names that the field had before. Data that was written with one of them is read as the field's.
	Was []string `json:"was,omitempty"`
}

// OnDelete says what happens to records that refer to a deleted one.
type OnDelete string

// What may happen.
const (
	Restrict OnDelete = ""         // the deletion is refused
	Cascade  OnDelete = "cascade"  // they are deleted as well
	SetNull  OnDelete = "set_null" // they lose the reference, which must not be Required
)

// Index describes an index. Records are in it by the values of its fields, null before all others.
type Index struct {
	Name   string       `json:"name"`
	Fields []IndexField `json:"fields"`

	// Unique refuses a second record, unless it is deleted, with the same values. Records with null in one of the
	// fields are not compared.
	Unique bool `json:"unique,omitempty"`
}

// IndexField is a field of an index: a field of the collection, except for json, password and a select of several, or
// one of Columns.
type IndexField struct {
	Name string `json:"name"`
	Desc bool   `json:"desc,omitempty"`
}

// Column is a property that every record has beside its data.
type Column struct {
	Name string
	Type Type
}

// Columns returns the properties of every record. Expressions name them like fields, so no field has such a name.
func Columns() [11]Column {
	return [...]Column{
		{"id", Text}, {"rev", Int}, {"is_deleted", Bool},
		{"created", Time}, {"updated", Time}, {"deleted", Time}, {"restored", Time},
		{"created_by", Text}, {"updated_by", Text}, {"deleted_by", Text}, {"restored_by", Text},
	}
}
