// Command server is the blog as a program: `server serve`, `server dev`, and every other verb that skerry has.
package main

import (
	"github.com/skerrydb/skerry/cli"
	"github.com/skerrydb/skerry/examples/blog"
)

func main() {
	cli.Main(cli.App{Name: "blog", Web: blog.Application})
}
