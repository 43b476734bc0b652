// Package schema describes collections of records: their fields, indexes and access rules. It validates data against a
// description, and derives the steps that migrate one description to another.
//
// A Collection is a plain value; Collection.Compile validates it and returns a Compiled, which is immutable and safe
// for concurrent use, as are Data values. Errors about descriptions and data are Problems. Of makes a Collection from a
// Go struct, and a Codec converts its values.
//
// It knows descriptions and JSON data. It must not know where records are stored, who asks for them, or what happens to
// them.
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

// Collection describes a collection. Its zero Rules allow access only to the program itself and superadmins.
type Collection struct {
	Name    string  `json:"name"`            // begins with a letter; letters, digits and _ in lower case
	Label   string  `json:"label,omitempty"` // for people; "" is made of the name
	Hint    string  `json:"hint,omitempty"`
	Fields  []Field `json:"fields"`
	Indexes []Index `json:"indexes,omitempty"`
	Rules   Rules   `json:"rules,omitzero"`

	// Extra allows members that are not declared as fields. They are stored unchanged, and queries reach them like
	// members of a JSON field.
	Extra bool `json:"extra,omitempty"`

	History History `json:"history,omitzero"`

	// Dropped are former fields of the collection. Older data and the history still have their values, which are not
	// read. Migrations maintain this list; programs leave it empty.
	Dropped []Field `json:"dropped,omitempty"`
}

// History says how long the changes of records are kept. The zero value keeps them forever.
type History struct {
	Off  bool          `json:"off,omitempty"`  // keep nothing
	Keep time.Duration `json:"keep,omitempty"` // how long; 0: for ever. At least an hour.
}

// Rules say who may do what. Each rule is an expression of package expr; "" allows nobody and "true" everybody. The
// program itself and superadmins are not subject to rules.
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

// Field describes a field of a collection. Each option documents the types that it applies to; setting it for other
// types is an error.
type Field struct {
	Name  string `json:"name"`
	Type  Type   `json:"type"`
	Label string `json:"label,omitempty"` // for people; "" is made of the name
	Hint  string `json:"hint,omitempty"`

	// Required rejects records without a value (null). A text may be empty unless Min is 1.
	Required bool `json:"required,omitempty"`

	// Default is the JSON value for records that are created without one. For times, "@now" is the time of the
	// creation; for texts and references, "@auth.id" is the id of the user. Passwords cannot have a default.
	Default string `json:"default,omitempty"`

	// Min and Max bound the value of an int, float, decimal or time, the length in characters of a text, email, url or
	// password, the number of options of a select with Many, and the length in bytes of a json. "" means no bound.
	Min string `json:"min,omitempty"`
	Max string `json:"max,omitempty"`

	// Pattern is a regular expression (RE2) that must match a whole text.
	Pattern string `json:"pattern,omitempty"`

	// Scale is the number of digits that a decimal may have after its decimal point, and is printed with. 0 means any
	// number.
	Scale int `json:"scale,omitempty"`

	// Options are the values of a select. Many allows several of them, without duplicates.
	Options []string `json:"options,omitempty"`
	Many    bool     `json:"many,omitempty"`

	// Collection is the collection that a reference refers to. OnDelete says what happens to the record when the record
	// that it refers to is deleted.
	Collection string   `json:"collection,omitempty"`
	OnDelete   OnDelete `json:"on_delete,omitempty"`

	// Was are former names of the field. Data stored under one of them is read as this field.
	Was []string `json:"was,omitempty"`
}

// OnDelete says what happens to a record when a record that it refers to is deleted.
type OnDelete string

// What may happen.
const (
	Restrict OnDelete = ""         // the deletion is refused
	Cascade  OnDelete = "cascade"  // they are deleted as well
	SetNull  OnDelete = "set_null" // they lose the reference, which must not be Required
)

// Index describes an index: it has the records sorted by the values of its fields, null first.
type Index struct {
	Name   string       `json:"name"`
	Fields []IndexField `json:"fields"`

	// Unique rejects a second record with the same values. Deleted records, and records with null in one of the fields,
	// do not count.
	Unique bool `json:"unique,omitempty"`
}

// IndexField is a field of an index: one of Columns, or a field of the collection that is not a json, a password or a
// select with Many.
type IndexField struct {
	Name string `json:"name"`
	Desc bool   `json:"desc,omitempty"`
}

// Column is a property that every record has besides its data.
type Column struct {
	Name string
	Type Type
}

// Columns returns the properties that every record has. Expressions use them like fields, so no field can have such a
// name.
func Columns() [11]Column {
	return [...]Column{
		{"id", Text}, {"rev", Int}, {"is_deleted", Bool},
		{"created", Time}, {"updated", Time}, {"deleted", Time}, {"restored", Time},
		{"created_by", Text}, {"updated_by", Text}, {"deleted_by", Text}, {"restored_by", Text},
	}
}
