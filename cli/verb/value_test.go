package verb

import "testing"

func TestSizes(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "12B": 12, "1KB": 1000, "1KiB": 1024, "3 MiB": 3 << 20, "2GB": 2e9, "4GiB": 4 << 30, "1TiB": 1 << 40,
	} {
		var n int64
		if err := Size(&n, 0)(in); err != nil || n != want {
			t.Errorf("%s: %d, %v", in, n, err)
		}
	}
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 1<<30 - 1: "1023.9MiB", 12884901888: "12GiB"} {
		if got := FormatSize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": false, "127.8.8.8:1": false, "[::1]:1": false, "localhost:1": false, Off: false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "db.example.org:1": true,
		"[::ffff:127.0.0.1]:1": false, "[::ffff:10.0.0.1]:1": true,
	} {
		if got := Public(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}
