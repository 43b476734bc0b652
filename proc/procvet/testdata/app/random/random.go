// Package random has procedures that draw numbers.
package random

import (
	crand "crypto/rand"
	"io"
	old "math/rand"
	"math/rand/v2"

	"github.com/skerrydb/skerry/proc"
)

type none = struct{}

var source = rand.New(rand.NewPCG(1, 2))

// Draw draws in every way.
var Draw = proc.Define("draw", func(tx *proc.Tx, _ none) (int, error) {
	n := old.Intn(3)                     // want `calls math/rand.Intn: use tx.Rand\(\)`
	n += rand.IntN(3)                    // want `calls math/rand/v2.IntN`
	n += source.IntN(3)                  // want `calls math/rand/v2.Rand.IntN, which writes the package variable source: use tx.Rand`
	crand.Read(nil)                      // want `calls crypto/rand.Read`
	io.ReadFull(crand.Reader, []byte{1}) // want `uses crypto/rand.Reader`
	own := rand.New(rand.NewPCG(1, uint64(tx.Now().Unix())))
	return n + own.IntN(3) + tx.Rand().IntN(3), nil
})

var reader io.Reader = crand.Reader

// SetReader makes reader a variable of two values.
func SetReader(r io.Reader) { reader = r }

var number = rand.Int

// SetNumber makes number a variable of two values.
func SetNumber(f func() int) { number = f }

// Stand draws from what stands for a source.
var Stand = proc.Define("stand", func(tx *proc.Tx, _ none) (int, error) {
	io.ReadFull(reader, nil) // want `uses crypto/rand.Reader: use tx.Rand`
	return number(), nil     // want `calls math/rand/v2.Int: use tx.Rand`
})
