package keyspace_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/skerrydb/skerry/keyspace"
)

// TestEveryNumberHasAnOwner: each constant is in the tables, where a number cannot stand twice,
// and Skerry's own spaces are not those of applications.
func TestEveryNumberHasAnOwner(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "keyspace.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := -1 // LastApplication bounds the others
	for _, decl := range file.Decls {
		if g, ok := decl.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				constants += len(spec.(*ast.ValueSpec).Names)
			}
		}
	}
	if listed := len(keyspace.Prefixes()) + len(keyspace.Spaces()); listed != constants {
		t.Errorf("%d constants, but %d of them have owners", constants, listed)
	}
	for space, owner := range keyspace.Spaces() {
		if space <= keyspace.LastApplication {
			t.Errorf("space %d of %s belongs to applications", space, owner)
		}
	}
}

// TestNumbersOnDisk: the numbers of stored data never change.
func TestNumbersOnDisk(t *testing.T) {
	for got, want := range map[int]int{
		keyspace.KV: 'k', keyspace.KVExpiry: 'x', keyspace.KVGraves: 'y',
		int(keyspace.AdminPage): 250, int(keyspace.Administrators): 251, int(keyspace.Certificates): 252, int(keyspace.Users): 253, int(keyspace.Sessions): 254, int(keyspace.Once): 255,
	} {
		if got != want {
			t.Errorf("%d is %d now", want, got)
		}
	}
}
