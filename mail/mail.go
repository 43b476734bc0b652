// Package mail sends messages to an SMTP server in the background, keeps them in an outbox during development,
// and reports a program's faults to its operators.
//
// It knows messages, the SMTP protocol, retries, and what must not appear in a report; it must not know
// requests, users, engines or where templates come from. The queue is in memory: messages that wait there are
// lost when the process dies, see SMTP.
package mail

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	netmail "net/mail"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Limits of one message. Going over one is CodeLimit.
const (
	// MaxRecipients is the most addresses in Message.To.
	MaxRecipients = 100
	// MaxAddressBytes is the longest address with its name, in bytes.
	MaxAddressBytes = 512
	// MaxSubjectBytes is the longest subject, in bytes.
	MaxSubjectBytes = 998
	// MaxBodyBytes is the most bytes of Text and HTML together.
	MaxBodyBytes = 8 << 20
	// MaxRefBytes is the longest Message.Ref, in bytes.
	MaxRefBytes = 128
)

// Codes of this package; Catalog has their meanings.
const (
	// CodeRefused: the mail server refused permanently.
	CodeRefused engine.Code = "mail_refused"
	// CodeUnavailable: the mail server cannot be used now.
	CodeUnavailable engine.Code = "mail_unavailable"
)

// Catalog returns this package's own codes, sorted.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeRefused, Kind: engine.KindUpstream, Text: "the mail server refused the message or a recipient for good"},
		{Code: CodeUnavailable, Kind: engine.KindUnavailable, Retryable: true, Text: "the mail server cannot be reached or does not take mail at the moment"},
	}
}

// Message is one email. An address is "ann@example.org" or "Ann <ann@example.org>"; names may be in any
// language, the address itself must be ASCII.
type Message struct {
	To      []string // every recipient sees the others; at least one
	From    string   // "" is the sender's default
	ReplyTo string   // "" is none
	Subject string   // one line
	Text    string   // for programs that do not show HTML; Text or HTML is required
	HTML    string   // "" is none
	Ref     string   // identifies the message in the log, printable ASCII; "": one is made
}

// Sender sends messages. Send returns CodeInvalid and CodeLimit for messages that could never be sent; what
// nil means depends on the implementation: see SMTP.Send and Outbox.Send. A Sender is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// queued is a message that has been checked.
type queued struct {
	ref     string
	from    *netmail.Address
	to      []*netmail.Address // recipients still to be served
	all     []*netmail.Address // recipients shown in the message
	replyTo *netmail.Address   // may be nil
	msg     Message

	// For messages that are being sent.
	id       string    // the Message-ID's first part
	accepted time.Time // by Send
	weight   int64     // size when it was accepted
	tries    int       // attempts that failed because of the message
	next     time.Time // earliest next attempt
	last     error     // error of the last attempt
	final    bool      // tried since the stop
	broken   bool      // some recipient was refused or given up on
}

// size is roughly how much of the queue's memory the message takes, in bytes.
func (l *queued) size() int64 {
	n := 1024 + len(l.msg.Subject) + len(l.msg.Text) + len(l.msg.HTML)
	for _, a := range l.all {
		n += len(a.Name) + len(a.Address) + 64
	}
	return int64(n)
}

// check turns m into a queued message, or returns what is wrong with it. Errors never contain a part of a
// body.
func check(m Message, defaultFrom string) (*queued, error) {
	l := &queued{ref: m.Ref, msg: m}
	l.msg.To = nil // l.to has them
	switch {
	case len(m.To) == 0:
		return nil, engine.Errorf(engine.CodeInvalid, "the message has no recipient")
	case len(m.To) > MaxRecipients:
		return nil, engine.Errorf(engine.CodeLimit, "the message has %d recipients, over the limit of %d", len(m.To), MaxRecipients)
	case m.Text == "" && m.HTML == "":
		return nil, engine.Errorf(engine.CodeInvalid, "the message has neither text nor HTML")
	case len(m.Text)+len(m.HTML) > MaxBodyBytes:
		return nil, engine.Errorf(engine.CodeLimit, "the message's body has %d bytes, over the limit of %d", len(m.Text)+len(m.HTML), MaxBodyBytes)
	case !utf8.ValidString(m.Text) || !utf8.ValidString(m.HTML):
		return nil, engine.Errorf(engine.CodeInvalid, "the message's body is not valid UTF-8")
	}
	if err := checkLine("subject", m.Subject, MaxSubjectBytes); err != nil {
		return nil, err
	}
	if err := checkRef(m.Ref); err != nil {
		return nil, err
	}
	if l.ref == "" {
		l.ref = randomHex(8)
	}
	if m.From == "" {
		m.From = defaultFrom
	}
	var err error
	if l.from, err = parseAddress("sender", m.From); err != nil {
		return nil, err
	}
	if m.ReplyTo != "" {
		if l.replyTo, err = parseAddress("reply address", m.ReplyTo); err != nil {
			return nil, err
		}
	}
	for _, to := range m.To {
		a, err := parseAddress("recipient", to)
		if err != nil {
			return nil, err
		}
		l.to = append(l.to, a)
	}
	l.all = l.to
	return l, nil
}

// checkLine refuses texts that could begin another header line.
func checkLine(what, s string, most int) error {
	if len(s) > most {
		return engine.Errorf(engine.CodeLimit, "the message's %s has %d bytes, over the limit of %d", what, len(s), most)
	}
	if !utf8.ValidString(s) {
		return engine.Errorf(engine.CodeInvalid, "the message's %s is not valid UTF-8", what)
	}
	for i, r := range s {
		if breaks(r) {
			return engine.Errorf(engine.CodeInvalid, "the message's %s has a line break or control character (%U) at byte %d: it must be one line", what, r, i)
		}
	}
	return nil
}

// breaks reports whether r can end a line or is a control character.
func breaks(r rune) bool {
	return r < ' ' || r == 0x7f || r == '\u2028' || r == '\u2029' || r == '\u0085'
}

func checkRef(ref string) error {
	if len(ref) > MaxRefBytes {
		return engine.Errorf(engine.CodeLimit, "the message's reference has %d bytes, over the limit of %d", len(ref), MaxRefBytes)
	}
	for i := range len(ref) {
		if ref[i] <= ' ' || ref[i] > '~' {
			return engine.Errorf(engine.CodeInvalid, "the message's reference must be printable ASCII without spaces (byte %d is not)", i)
		}
	}
	return nil
}

// parseAddress reads one address with or without a name.
func parseAddress(what, s string) (*netmail.Address, error) {
	if s == "" {
		return nil, engine.Errorf(engine.CodeInvalid, "the message has no %s address", what)
	}
	if err := checkLine(what, s, MaxAddressBytes); err != nil {
		return nil, err
	}
	a, err := netmail.ParseAddress(s)
	if err != nil {
		return nil, engine.Errorf(engine.CodeInvalid, "the %s %q is not an address such as ann@example.org or Ann <ann@example.org>: %v", what, s, err)
	}
	// An encoded word in the name may have hidden characters from checkLine.
	if err := checkLine(what+"'s name", a.Name, MaxAddressBytes); err != nil {
		return nil, err
	}
	at := strings.LastIndexByte(a.Address, '@')
	for i := range len(a.Address) {
		// RFC 5321 allows no spaces, brackets or controls in the addresses of MAIL and RCPT.
		if c := a.Address[i]; c <= ' ' || c > '~' || c == '<' || c == '>' {
			return nil, engine.Errorf(engine.CodeInvalid, "the %s address %q has a character that mail servers do not accept: write domains in other scripts in their xn-- form", what, a.Address)
		}
	}
	if at < 1 || at > 64 || len(a.Address)-at-1 > 255 {
		return nil, engine.Errorf(engine.CodeInvalid, "the %s address %q is longer than mail allows: 64 bytes before the @ and 255 after it", what, a.Address)
	}
	return a, nil
}

// domain returns the part of an address after the @.
func domain(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}

// randomHex returns n random bytes in hexadecimal digits.
func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b)
}
