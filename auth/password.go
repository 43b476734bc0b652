package auth

import (
	_ "embed" // the list of common passwords
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Bounds of a password. NIST SP 800-63B asks for at least 8 characters (for 15
// where nothing but the password is asked for, revision 4, 3.1.1.2), for at least
// 64 to be accepted, for a list of common ones, and against rules of composition.
const (
	// DefaultMinPassword is the shortest password in characters unless Options
	// say otherwise.
	DefaultMinPassword = 8
	// LeastPassword is the least that Options can say.
	LeastPassword = 8
	// MaxPasswordBytes is the longest password in bytes. It bounds the
	// work of hashing.
	MaxPasswordBytes = 1024
)

//go:embed common.txt
var commonList string

func commonPasswords() map[string]bool {
	m := map[string]bool{}
	for line := range strings.Lines(commonList) {
		m[strings.TrimSpace(line)] = true
	}
	return m
}

// CheckPassword returns nil if password is acceptable as the new one of a user with this email address (which
// may be ""), otherwise CodePasswordRefused with the reason.
func (a *Auth) CheckPassword(password, email string) error {
	refuse := func(format string, args ...any) error {
		return engine.Errorf(CodePasswordRefused, format, args...)
	}
	lower := strings.ToLower(password)
	local, _, _ := strings.Cut(email, "@")
	switch {
	case len(password) > MaxPasswordBytes:
		return refuse("the password has %d bytes, at most %d are accepted", len(password), MaxPasswordBytes)
	case !utf8.ValidString(password):
		return refuse("the password is not valid UTF-8")
	case utf8.RuneCountInString(password) < a.o.MinPassword:
		return refuse("the password must have at least %d characters", a.o.MinPassword)
	case email != "" && (lower == strings.ToLower(email) || lower == strings.ToLower(local)):
		return refuse("the password must not be the email address or a part of it")
	case a.common[lower] || strings.Count(password, password[:1]) == len(password):
		return refuse("this password is too common; choose another one")
	}
	return nil
}
