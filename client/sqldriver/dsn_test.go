package sqldriver

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/client"
)

func TestDSN(t *testing.T) {
	t.Parallel()
	co, o, err := ParseDSN("skerry://user:p%40ss%2Fword@host1,host2:7000/3?timeout=5s&once=auto&conns=2")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(co.Addrs, []string{"host1:6380", "host2:7000"}) || co.User != "user" || co.Password != "p@ss/word" || co.Database != 3 || co.Conns != 2 || !o.Once {
		t.Errorf("%+v %+v", co, o)
	}
	for dsn, once := range map[string]bool{
		"skerry://h": false, "skerry://h/?once=off": false, "skerry://h?once=auto": true, "skerry://h/?&once=%61uto&": true, "skerrys://:pw@h/?name=x": false,
	} {
		if _, o, err := ParseDSN(dsn); err != nil || o.Once != once {
			t.Errorf("%s: %t, %v", dsn, o.Once, err)
		}
	}
}

// TestDSNMistakes checks that every mistake is reported before connecting.
func TestDSNMistakes(t *testing.T) {
	t.Parallel()
	for dsn, want := range map[string]string{
		"":                                  "skerry://",
		"host1,host2":                       "skerry://",
		"postgres://h":                      "postgres",
		"skerry://":                         "empty host",
		"skerry://h,/":                      "empty host",
		"skerry://h:port/":                  "port",
		"skerry://h:70000/":                 "port",
		"skerry://h:0/":                     "port",
		"skerry://:6380/":                   "no host",
		"skerry://a:b:c/":                   "HOST:PORT",
		"skerry://user@h/":                  "password",
		"skerry://user:@h/":                 "password",
		"skerry://user:%zz@h/":              "password",
		"skerry://h/votes":                  "votes",
		"skerry://h/?timout=5s":             "timeout",
		"skerry://h/?Timeout=5s":            "timeout",
		"skerry://h/?onec=auto":             "once",
		"skerry://h/?one=auto":              "once",
		"skerry://h/?sslmode=disable":       "there are once, ca",
		"skerry://h/?once=on":               "auto or off",
		"skerry://h/?once":                  "auto or off",
		"skerry://h/?once=%zz":              "once",
		"skerry://h/?once=auto&once=auto":   "twice",
		"skerry://h/?tls=maybe":             "maybe",
		"skerrys://h/?tls=false":            "tls=false",
		"skerry://h/?timeout=5":             "timeout=5",
		"skerry://h/?timeout=5s&timeout=6s": "timeout",
		"skerry://h/?conns=0":               "conns",
		"skerry://h/?conns=65":              "Conns",
		"skerry://h/?full=wait":             "block, fail",
		"skerry://h/?read_from=me":          "followers",
		"skerry://h/?ca=/nowhere.pem":       "/nowhere.pem",
		"skerry://h/?cert=a.pem":            "key",
		"skerry://h/#x":                     "#",
	} {
		_, _, err := ParseDSN(dsn)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, does not name %q", dsn, err, want)
		}
		if db, err := sql.Open(Name, dsn); err == nil {
			t.Errorf("sql.Open accepts %s", dsn)
			db.Close()
		}
	}
}

// TestDSNSecret checks that no error contains any part of the password.
func TestDSNSecret(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"skerry://user:SECRET@h:port/", "skerry://user:SECRET@/", "skerry://user:SECRET@h/votes", "skerry://user:SECRET@h/?tmeout=5s", "skerry://user:SECRET%zz@h/",
		"skerry://user:SEC/RET@h/", "skerry://user:SEC?RET@h/", "skerry://user:SEC#RET@h/", "skerry://user:SEC RET@h:x/", "skerry://user:SEC@RET@h:x/", "skerry://user:SEC:RET@h:x/",
		"user:SECRET@h", "http://user:SECRET@h/", "skerry:/user:SECRET@h/", "skerry:user:SECRET@h/?x=1", "://user:SECRET@h", "skerry://SECRET@h/", "skerry://user:SEC/RET@h/?once=x",
		"skerry://user:SEC&RET=1?x@h/", "skerry://user:SECRET@h:1:2/", "skerry://user:SEC?once=RET@h/",
	} {
		_, _, err := ParseDSN(dsn)
		if err == nil {
			t.Errorf("%s is accepted", dsn)
		} else if text := err.Error(); strings.Contains(text, "SEC") || strings.Contains(text, "RET") {
			t.Errorf("%s: the error has the password: %v", dsn, err)
		}
	}
}

// TestParameters checks that the client knows all parameters that are suggested.
func TestParameters(t *testing.T) {
	t.Parallel()
	for _, p := range parameters {
		_, err := client.ParseURL("skerry://h/?" + p + "=x")
		if unknown := err != nil && strings.Contains(err.Error(), "there is no parameter"); unknown != (p == onceParameter) {
			t.Errorf("%s: %v", p, err)
		}
	}
}
