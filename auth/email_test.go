package auth_test

import (
	"net/mail"
	"slices"
	"strings"
	"testing"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

func TestParseEmail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 64) + "@" + strings.Repeat(strings.Repeat("b", 61)+".", 3) + "cc"
	if len(long) != 253 {
		t.Fatal(len(long))
	}
	for in, kept := range map[string]string{
		" Ann.Smith+tag@Example.COM\t":          "Ann.Smith+tag@example.com",
		"root@localhost":                        "root@localhost",
		"o'brien@xn--bcher-kva.example":         "o'brien@xn--bcher-kva.example",
		long + "c":                              long + "c",
		long + "cc":                             "",
		"a" + long[:64] + "@example.com":        "",
		"":                                      "",
		"ann":                                   "",
		"@example.com":                          "",
		"ann@":                                  "",
		"ann@example..com":                      "",
		"ann@-example.com":                      "",
		"ann@example.com.":                      "",
		"ann@exam_ple.com":                      "",
		"ann@[192.0.2.1]":                       "",
		"ann@example.com\r\nBcc: x@y.z":         "",
		"ann@example.com\x00":                   "",
		"Ann <ann@example.com>":                 "",
		"<ann@example.com>":                     "",
		"ann@example.com, bob@example.com":      "",
		`"ann smith"@example.com`:               "",
		`"ann"@example.com`:                     "",
		"ann(comment)@example.com":              "",
		"m\u0131ke@example.com":                 "",
		"ann@b\u00fccher.example":               "",
		"ann@exa\u212Aple.com":                  "",
		"ann @example.com":                      "",
		"ann@@example.com":                      "",
		".ann@example.com":                      "",
		"ann@" + strings.Repeat("a", 64) + ".b": "",
	} {
		got, fold, err := auth.ParseEmail(in)
		if kept == "" {
			want(t, in, err, engine.CodeInvalid)
			continue
		}
		if err != nil || got != kept || fold != strings.ToLower(kept) {
			t.Errorf("%q: %q %q %v, want %q", in, got, fold, err, kept)
		}
	}
}

func FuzzParseEmail(f *testing.F) {
	for _, s := range []string{"ann@example.com", "A.b+c@D.e", "\"a\"@b.c", "a@b\r\n", "a@[::1]", "=?utf-8?q?a?=@b.c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		kept, fold, err := auth.ParseEmail(s)
		if err != nil {
			if engine.CodeOf(err) != engine.CodeInvalid {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		again, foldAgain, err := auth.ParseEmail(kept)
		if err != nil || again != kept || foldAgain != fold {
			t.Errorf("%q: not stable: %q %q %v", s, again, foldAgain, err)
		}
		if _, foldTwice, err := auth.ParseEmail(fold); err != nil || foldTwice != fold {
			t.Errorf("%q: the folded form is not stable: %q %v", s, foldTwice, err)
		}
		if strings.ContainsAny(kept, " \r\n\t\x00<>,;:\"()[]\\") || len(kept) > auth.MaxEmailBytes {
			t.Errorf("%q: kept as %q", s, kept)
		}
		if list, err := mail.ParseAddressList(kept); err != nil || len(list) != 1 || list[0].Address != kept {
			t.Errorf("%q: in a header it is %v %v", kept, list, err)
		}
	})
}

// TestCatalog: sorted, all sentinels but that of the rate limit are in it, and codes are
// named once.
func TestCatalog(t *testing.T) {
	t.Parallel()
	var codes []engine.Code
	for _, m := range auth.Catalog() {
		if m.Text == "" {
			t.Errorf("%s says nothing", m.Code)
		}
		codes = append(codes, m.Code)
	}
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("codes: %q", codes)
	}
	for _, e := range []*engine.Error{
		auth.ErrAccountDisabled, auth.ErrCodeWrong, auth.ErrEmailTaken, auth.ErrEmailUnverified, auth.ErrIdentityConflict,
		auth.ErrIdentityUnverified, auth.ErrPasswordRefused, auth.ErrSecondFactor, auth.ErrTokenExpired, auth.ErrTokenInvalid, auth.ErrTokenReused,
		auth.ErrWrongCredentials,
	} {
		if !slices.Contains(codes, e.Code) {
			t.Errorf("%s is not in the catalog", e.Code)
		}
		codes = slices.DeleteFunc(codes, func(c engine.Code) bool { return c == e.Code })
	}
	if len(codes) != 0 {
		t.Errorf("codes without an error: %q", codes)
	}
	for _, m := range engine.Catalog() {
		for _, own := range auth.Catalog() {
			if m.Code == own.Code {
				t.Errorf("%s is engine's", m.Code)
			}
		}
	}
}
