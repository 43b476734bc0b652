package auth

import (
	"net/mail"
	"strings"
	"unicode"

	"github.com/skerrydb/skerry/engine"
)

// MaxEmailBytes is the longest email address: what fits into the path of an
// SMTP command (RFC 5321, 4.5.3.1.3; RFC 3696, erratum 1690).
const MaxEmailBytes = 254

const maxLocalBytes = 64 // before the @; RFC 5321, 4.5.3.1.1

// ParseEmail returns an address in the form that is stored (trimmed, with the domain in lower case) and its
// folded form, which identifies accounts (all in lower case). Anything but one plain address is CodeInvalid:
// names, comments, quoted local parts, address literals, letters outside of ASCII (a domain must be in its
// xn-- form) and control characters, so that no address can inject a header.
func ParseEmail(s string) (kept, fold string, err error) {
	s = strings.Trim(s, " \t")
	if len(s) > MaxEmailBytes {
		return "", "", engine.Errorf(engine.CodeInvalid, "an email address has at most %d bytes, this has %d", MaxEmailBytes, len(s))
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f {
			return "", "", engine.Errorf(engine.CodeInvalid, "an email address must be ASCII without spaces and control characters; write a non-ASCII domain in its xn-- form")
		}
	}
	parsed, perr := mail.ParseAddress(s)
	if perr != nil || parsed.Name != "" || parsed.Address != s {
		return "", "", engine.Errorf(engine.CodeInvalid, "%q is not an email address such as name@example.com", s)
	}
	local, domain, _ := strings.Cut(s, "@")
	if len(local) > maxLocalBytes || !validDomain(domain) {
		return "", "", engine.Errorf(engine.CodeInvalid, "%q is not an email address such as name@example.com", s)
	}
	kept = local + "@" + strings.ToLower(domain)
	return kept, strings.ToLower(kept), nil
}

// validDomain reports whether s is a host name: labels of letters, digits and inner hyphens.
func validDomain(s string) bool {
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
				return false
			}
		}
	}
	return true
}

// checkLine refuses texts that are too long or could break out of a line.
func checkLine(what, s string, most int) error {
	if len(s) > most {
		return engine.Errorf(engine.CodeLimit, "%s has %d bytes, at most %d", what, len(s), most)
	}
	for _, c := range s {
		if unicode.IsControl(c) || c == '\uFFFD' {
			return engine.Errorf(engine.CodeInvalid, "%s %q has a control character or is not UTF-8", what, s)
		}
	}
	return nil
}
