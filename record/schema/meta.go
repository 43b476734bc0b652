package schema

import "time"

// Meta has the columns of a record. Structs that describe records embed it as record.Meta. A zero time means that
// something has not happened; an empty actor is the program itself.
type Meta struct {
	ID         string    `json:"id"`
	Rev        uint64    `json:"rev"`
	IsDeleted  bool      `json:"is_deleted,omitempty"`
	Created    time.Time `json:"created,omitzero"`
	Updated    time.Time `json:"updated,omitzero"`
	Deleted    time.Time `json:"deleted,omitzero"`
	Restored   time.Time `json:"restored,omitzero"`
	CreatedBy  string    `json:"created_by,omitempty"`
	UpdatedBy  string    `json:"updated_by,omitempty"`
	DeletedBy  string    `json:"deleted_by,omitempty"`
	RestoredBy string    `json:"restored_by,omitempty"`
}
