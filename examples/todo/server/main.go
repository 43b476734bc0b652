// Command server is the todo application as a program: `server serve`, `server dev`,
// and every other verb that skerry has.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/todo"
)

func main() {
	cli.Main(cli.App{Name: "todo", Procedures: todo.Procedures(), Web: todo.Application})
}
