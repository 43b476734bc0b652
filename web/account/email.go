package account

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"html/template"
	"log/slog"
	"net/url"
	"strings"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
)

// Notices are kinds of emails besides auth's. They inform users of changes to their
// account, in case somebody else made them.
const (
	PasswordChanged auth.EmailKind = "password_changed"
	EmailChanged    auth.EmailKind = "email_changed" // goes to the address before
	FactorOn        auth.EmailKind = "second_factor_on"
	FactorOff       auth.EmailKind = "second_factor_off"
	KeyCreated      auth.EmailKind = "key_created"
	IdentityLinked  auth.EmailKind = "identity_linked"
)

// Email is what Options.Email gets.
type Email struct {
	Kind    auth.EmailKind
	User    auth.User // zero if there is none yet
	Link    string    // with the token, which is secret; "": there is none
	Message mail.Message
}

// wording is what an email says. Nothing in it comes from a client.
type wording struct {
	subject, text, button string
}

func wordings() map[auth.EmailKind]wording {
	const not = "If this wasn't you, change your password now and check where you're logged in."
	return map[auth.EmailKind]wording{
		auth.Verify:     {"Confirm your email address", "Someone, hopefully you, created an account with this email address. To confirm that the address is yours, open the page below and enter the password of the account. If this wasn't you, ignore this email: no one can use the account unless you confirm it.", "Confirm the address"},
		auth.Known:      {"You already have an account", "Someone, hopefully you, tried to use this email address for an account. You already have one, and nothing was changed. If you have forgotten your password, you can reset it.", "Reset your password"},
		auth.Reset:      {"Reset your password", "Someone, hopefully you, asked to reset the password of your account. To choose a new password, open the page below. If this wasn't you, ignore this email: your password stays the same.", "Choose a new password"},
		auth.Change:     {"Confirm your new email address", "Someone, hopefully you, wants to use this email address for an account. To confirm that the address is yours, open the page below and enter the password of that account. If this wasn't you, ignore this email.", "Confirm the address"},
		PasswordChanged: {"Your password was changed", "The password of your account was changed, and all sessions were ended. " + not, "Go to your account"},
		EmailChanged:    {"Your email address was changed", "Your account now uses another email address. This is the last email to this address. If this wasn't you, contact the people who run this service.", ""},
		FactorOn:        {"Two-factor authentication is on", "From now on, every login to your account asks for a code from your authenticator app. " + not, "Go to your account"},
		FactorOff:       {"Two-factor authentication is off", "Logins to your account no longer ask for a code. " + not, "Go to your account"},
		KeyCreated:      {"New API key", "An API key was created for your account. It works until it expires or you revoke it, even if you change your password. " + not, "Go to your account"},
		IdentityLinked:  {"New login linked to your account", "You can now log in to your account through another provider. " + not, "Go to your account"},
	}
}

//go:embed email.html
var emailFile string

func emailPage() *template.Template { return template.Must(template.New("email").Parse(emailFile)) }

// deliver sends an email that auth asked for. It does the same work if there is none
// to send, and the response does not depend on whether sending works: the user can
// always request another one.
func (a *Account) deliver(c *web.Context, l auth.Email) {
	kind, base := l.Kind, a.o.BaseURL+a.o.Prefix
	link, token := base, "?"+url.Values{"token": {l.Token}}.Encode()
	switch kind {
	case auth.Verify, auth.Change:
		link = base + "/verify" + token
	case auth.Reset:
		link = base + "/reset/confirm" + token
	case auth.Known, auth.None:
		kind, link = auth.Known, base+"/reset"
	}
	until := ""
	if l.Token != "" {
		until = when(l.Expires)
	}
	m := a.compose(c, kind, cmp.Or(l.To, "nobody@example.org"), link, until)
	to := a.o.Mail
	if l.Kind == auth.None {
		to = a.nowhere
	}
	a.send(c, to, Email{l.Kind, l.User, link, m})
}

// notify emails a user about a change to the account.
func (a *Account) notify(c *web.Context, kind auth.EmailKind, to string, u auth.User) {
	if a.o.Mail == nil || to == "" {
		return
	}
	link := a.o.BaseURL + a.o.Prefix
	a.send(c, a.o.Mail, Email{kind, u, link, a.compose(c, kind, to, link, "")})
}

// compose writes an email.
func (a *Account) compose(c *web.Context, kind auth.EmailKind, to, link, until string) mail.Message {
	w := wordings()[kind]
	var text strings.Builder
	text.WriteString(w.text + "\n")
	if w.button != "" {
		text.WriteString("\n" + w.button + ":\n" + link + "\n")
	}
	if until != "" {
		text.WriteString("\nThis link works once, until " + until + ".\n")
	}
	text.WriteString("\n" + a.o.Name + "\n")
	var page bytes.Buffer
	err := a.emails.Execute(&page, map[string]string{"subject": w.subject, "text": w.text, "button": w.button, "link": link, "until": until, "name": a.o.Name})
	if err != nil { // the text is enough
		c.Logger().LogAttrs(c, slog.LevelError, "rendering the HTML of an email failed; sending text only", slog.Any("err", err))
		page.Reset()
	}
	return mail.Message{To: []string{to}, Subject: w.subject + " – " + a.o.Name, Text: text.String(), HTML: page.String()}
}

func (a *Account) send(c *web.Context, to mail.Sender, l Email) {
	if a.o.Email != nil && l.Kind != auth.None {
		l.Message = a.o.Email(l)
	}
	if err := to.Send(context.WithoutCancel(c), l.Message); err != nil {
		c.Logger().LogAttrs(c, slog.LevelError, "an email was not sent; the user can request another one",
			slog.String("kind", string(l.Kind)), slog.String("user", l.User.ID), slog.Any("err", err))
	}
}
