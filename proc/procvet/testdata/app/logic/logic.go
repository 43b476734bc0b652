// Package logic has the functions of procedures that another package defines.
package logic

import (
	"time"

	"github.com/skerrydb/skerry/proc"
)

// Vote reads the clock.
func Vote(tx *proc.Tx, _ struct{}) (int, error) { return time.Now().Day(), nil }

// App has methods.
type App struct{}

// Vote reads the clock elsewhere.
func (App) Vote(tx *proc.Tx, _ struct{}) (int, error) { return now(), nil }

// Clean is clean.
func Clean(tx *proc.Tx, _ struct{}) (int, error) { return tx.Now().Day(), nil }

func now() int { return time.Now().Day() }
