// Package across uses helpers of other packages.
package across

import (
	"example.com/app/helper"
	"example.com/other"
	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

type getter interface{ Get() string }

var client helper.Client

// Across calls them.
var Across = proc.Define("across", func(tx *proc.Tx, _ none) (string, error) {
	s := helper.Fetch()    // want `^calls helper.Fetch → helper.fetch → deep.Load, which calls os.ReadFile at deep/deep.go:\d+: .*\(procedure across\)$`
	s += client.Get()      // want `calls helper.Client.Get → deep.Load, which calls os.ReadFile`
	get := client.Get      // want `calls helper.Client.Get → deep.Load, which calls os.ReadFile`
	s += get()             // seen where it stands
	client.Count()         // want `calls helper.Client.Count, which writes the package variable client`
	helper.Hits++          // want `writes the package variable Hits`
	s += helper.Generic(s) // want `calls helper.Generic → deep.Load`
	s += string(rune(helper.Pure(1) + helper.Calm()))
	var own helper.Client
	own.Count()
	var g getter = &client
	var rows other.Rows
	rows.Next(nil)          // want `^calls other.Rows.Next \(it takes a context\): it is not undone`
	other.Send(nil, "x")    // want `calls other.Send, which calls net.Dial at other/other.go:\d+`
	s += other.Format("x")  // computes
	return s + g.Get(), nil // an interface's method is not followed
})
