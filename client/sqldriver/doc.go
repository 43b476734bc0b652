// Package sqldriver is the database/sql driver of Skerry, under the name skerry:
//
//	import _ "github.com/skerrydb/skerry/client/sqldriver"
//
//	db, err := sql.Open("skerry", "skerry://user:password@host1,host2/?tls=true")
//	err = db.QueryRowContext(ctx, "CALL vote(?, ?)", phone, contestant).Scan(&status, &total)
//
// It knows statements, arguments, rows and columns: a statement calls one procedure, a
// struct is a row, a slice of structs is many rows. It must not know connections, nodes or
// retries, which belong to package client. All connections of an sql.DB share one client.
// docs/sql.md describes the full syntax.
package sqldriver
