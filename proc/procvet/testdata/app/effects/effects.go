// Package effects has procedures that talk to the world.
package effects

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var (
	db     *sql.DB
	conn   net.Conn
	logger *slog.Logger
)

// IO does every sort.
var IO = proc.Define("io", func(tx *proc.Tx, _ none) (int, error) {
	f, err := os.Open("x") // want `^calls os.Open: it is not undone`
	if err != nil {
		return 0, err
	}
	f.Close()                            // want `calls os.File.Close`
	http.Get("http://x")                 // want `calls net/http.Get`
	new(http.Client).Do(nil)             // want `calls net/http.Client.Do`
	net.Dial("tcp", "x:1")               // want `calls net.Dial`
	conn.Write(nil)                      // want `calls net.Conn.Write`
	db.Exec("x")                         // want `calls database/sql.DB.Exec`
	exec.Command("x").Run()              // want `calls os/exec.Command` `calls os/exec.Cmd.Run`
	syscall.Getpid()                     // want `calls syscall.Getpid`
	bufio.NewReader(os.Stdin).ReadByte() // want `uses os.Stdin`
	fmt.Scanln()                         // want `calls fmt.Scanln`
	return 0, nil
})

// Log prints lines.
var Log = proc.Define("log", func(tx *proc.Tx, _ none) (int, error) {
	fmt.Println("x")              // want `^note: calls fmt.Println: the line stays`
	fmt.Fprintln(os.Stderr, "x")  // want `note: uses os.Stderr`
	fmt.Fprintln(io.Discard, "x") // goes nowhere
	log.Printf("x")               // want `calls log.Printf`
	slog.Info("x")                // want `calls log/slog.Info`
	logger.Warn("x")              // want `calls log/slog.Logger.Warn`
	l := logger.With("a", 1)
	l.ErrorContext(nil, "x") // want `calls log/slog.Logger.ErrorContext`
	println("x")             // want `calls println`
	return 0, nil
})

var config = sync.OnceValue(func() string { return os.Getenv("x") })

// Lazy reads the environment when it is first used.
var Lazy = proc.Define("lazy", func(tx *proc.Tx, _ none) (string, error) {
	return config(), nil // want `calls config, which calls os.Getenv at effects/effects.go:\d+`
})
