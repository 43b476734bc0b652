package enginetest

import "github.com/skerrydb/skerry/engine"

// emptierCase checks that an engine is empty until it has a key besides engine.FenceKey, and after that was deleted.
func emptierCase(e *env) {
	em := optional[engine.Emptier](e, "Emptier")
	is := func(when string, want bool) {
		e.Helper()
		if got, err := em.Empty(e.ctx); err != nil || got != want {
			e.Fatalf("%s: Empty is %v, %v, want %v", when, got, err, want)
		}
	}
	is("at the start", true)
	e.put(engine.FenceKey, "x")
	is("with FenceKey", true)
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte(engine.FenceKey)) })
	e.put("a", "")
	is("with an empty value", false)
	e.update(func(tx engine.Tx) error { return tx.Delete([]byte("a")) })
	is("after it was deleted", true)
	e.put("\x00", "x")
	is("with another key", false)
}
