package resp_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/redisserver"
	"github.com/skerrydb/skerry/ci/seed"
	"github.com/skerrydb/skerry/resp"
)

// TestDumpIsRedis dumps the same random values on both servers. The bytes must be equal,
// including those of compressed values.
func TestDumpIsRedis(t *testing.T) {
	redis, skerry := newAsker(t, redisserver.InMemory(t)), newAsker(t, startSkerry(t, resp.Options{}))
	rng := rand.New(rand.NewPCG(seed.Of(t), 1))
	for i := range 1000 {
		b := make([]byte, rng.IntN(200))
		if i%10 == 0 {
			b = make([]byte, rng.IntN(20_000))
		}
		letters := 1 + rng.IntN(30)
		for j := range b {
			switch {
			case rng.IntN(3) == 0:
				b[j] = byte(rng.IntN(256))
			case j > 8 && rng.IntN(3) == 0:
				b[j] = b[j-rng.IntN(8)-1]
			default:
				b[j] = byte(rng.IntN(letters))
			}
		}
		redis.ask("SET", "k", string(b))
		skerry.ask("SET", "k", string(b))
		want, got := redis.ask("DUMP", "k"), skerry.ask("DUMP", "k")
		if !bytes.Equal(got.Str, want.Str) {
			t.Fatalf("DUMP of %q:\n got %q\nwant %q", b, got.Str, want.Str)
		}
		if v := skerry.ask("RESTORE", "r", "0", string(want.Str), "REPLACE"); string(v.Str) != "OK" {
			t.Fatalf("RESTORE of Redis's dump: %q", v.Str)
		}
		if v := skerry.ask("GET", "r"); !bytes.Equal(v.Str, b) {
			t.Fatalf("%q was restored as %q", b, v.Str)
		}
	}
}
