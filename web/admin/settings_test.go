package admin_test

import (
	"strings"
	"testing"

	"github.com/skerrydb/skerry"
)

func someSettings() []skerry.Setting {
	return []skerry.Setting{
		{Name: "resp", Value: "127.0.0.1:6379", From: "default", Help: "address of the Redis protocol"},
		{Name: "http", Value: "0.0.0.0:80", From: "--http", Help: "HTTP address"},
		{Name: "password-file", Value: "/etc/skerry/" + strings.Repeat("long", 50), From: "/etc/skerry.toml: password-file", Help: "file with the password for keys and procedures"},
		{Name: "site", Value: "<b>", From: "SKERRY_SITE", Help: "where the node is"},
		{Name: "tls-cert", From: "default", Help: "certificate chain (PEM)"},
	}
}

// TestSettings: the page says what is set, where, and what has its default.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{Settings: someSettings()})
	anna := w.anna()
	page := anna.get("/admin/settings").expect(200, "--http", "SKERRY_SITE", "&lt;b&gt;", "/etc/skerry.toml: password-file", "Defaults").lacks("<b>")
	if i := strings.Index(page.Body, ">http<"); i < 0 || i > strings.Index(page.Body, ">resp<") {
		t.Error("what is set is not first")
	}
	anna.invite(viewersEmail, "viewer").get("/admin/settings").expect(200, "--http")
}

func TestLooksSettings(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{Settings: someSettings()})
	c := w.open()
	c.visit("/admin/settings")
	c.looks("settings")
}
