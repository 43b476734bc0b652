package verb

import (
	"strings"
	"testing"
)

// TestPasswords parses URLs with passwords, some of which are not escaped. Neither errors nor texts have any part of one.
func TestPasswords(t *testing.T) {
	const escape = "write / as %2F"
	for raw, want := range map[string]string{
		"postgres://u:geheim@h/db":                     "postgres://u:xxxxx@h/db",
		"postgres://h/db?user=u&password=geheim&a=b":   "postgres://h/db?user=u&password=xxxxx&a=b",
		"postgres://h/db?sslpassword=geheim":           "postgres://h/db?sslpassword=xxxxx",
		"postgres://h/db?user=u@server":                "postgres://h/db?user=u@server",
		"postgres://u:geh@eim@h/db":                    "postgres://u:xxxxx@h/db",
		"redis://:geheim@h:1/0":                        "redis://:xxxxx@h:1/0",
		"u:geheim@h/db":                                "u:xxxxx@h/db",
		"geheim@h/db":                                  `"xxxxx@h/db" has no scheme`,
		"postgres://u:geh/eim@h/db":                    escape,
		"postgres://u:12/geheim@h/db":                  escape,
		"postgres://u:geh?eim@h/db":                    escape,
		"postgres://u:12?geheim@h/db":                  escape,
		"postgres://u:geh#eim@h/db":                    escape,
		"postgres://u:12#geheim@h/db":                  escape,
		"postgres://u:geh%eim@h/db":                    escape,
		"postgres://u:geheim@h:port/db":                `invalid port ":port" after host`,
		"postgres://u:geheim@h /db":                    `invalid character " " in host name`,
		"postgres://u:gehe\x7fim@h/db":                 "invalid control character in URL",
		"postgres://u:geheim@[h/db":                    "missing ']' in host",
		"embedded:/home/a@b":                           "embedded:/home/a@b",
		"embedded:a@b":                                 "embedded:a@b",
		"postgres://u:geheim@h1:1,h2:2/db?schema=a%40": "postgres://u:xxxxx@h1:1,h2:2/db?schema=a%40",
	} {
		u, err := ParseEngine(raw)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = Redacted(u)
		}
		if (err == nil && got != want) || !strings.Contains(got, want) || strings.Contains(got, "geh") || strings.Contains(got, "eim") {
			t.Errorf("%q: %s, want %s", raw, got, want)
		}
	}
}
