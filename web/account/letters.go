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

// Notices are kinds of letters besides auth's: they tell somebody what was done to
// their account, in case it was not them.
const (
	PasswordChanged auth.LetterKind = "password_changed"
	EmailChanged    auth.LetterKind = "email_changed" // goes to the address before
	FactorOn        auth.LetterKind = "second_factor_on"
	FactorOff       auth.LetterKind = "second_factor_off"
	KeyCreated      auth.LetterKind = "key_created"
	IdentityLinked  auth.LetterKind = "identity_linked"
)

// Letter is what Options.Letter gets.
type Letter struct {
	Kind    auth.LetterKind
	User    auth.User // zero if there is none yet
	Link    string    // with the token, which is secret; "": there is none
	Message mail.Message
}

// wording is what a letter says. Nothing in it comes from a client.
type wording struct {
	subject, text, button string
}

func wordings() map[auth.LetterKind]wording {
	const not = "If that was not you, choose another password at once, and look at where you are logged in."
	return map[auth.LetterKind]wording{
		auth.Verify:     {"Confirm your e-mail address", "Somebody, hopefully you, has created an account with this e-mail address. To confirm that the address is yours, open the page below. It asks for the password of the account. If it was not you, do nothing: without you the account is of no use to anybody.", "Confirm the address"},
		auth.Known:      {"You have an account already", "Somebody, hopefully you, has asked to use this e-mail address for an account. There is one already, and nothing was changed. If you have forgotten its password, you can choose another one.", "Reset the password"},
		auth.Reset:      {"Reset your password", "Somebody, hopefully you, has asked for another password for your account. To choose one, open the page below. If it was not you, do nothing: your password is as before.", "Choose a new password"},
		auth.Change:     {"Confirm your new e-mail address", "Somebody, hopefully you, wants to use this e-mail address for an account. To confirm that the address is yours, open the page below. It asks for the password of that account. If it was not you, do nothing.", "Confirm the address"},
		PasswordChanged: {"Your password was changed", "The password of your account was changed, and all sessions have ended. " + not, "Go to your account"},
		EmailChanged:    {"Your e-mail address was changed", "Your account has another e-mail address now. This is the last letter to this one. If that was not you, write to those who run this service.", ""},
		FactorOn:        {"The second factor is on", "From now on every login to your account asks for a code of your app. " + not, "Go to your account"},
		FactorOff:       {"The second factor is off", "Logins to your account do not ask for a code any more. " + not, "Go to your account"},
		KeyCreated:      {"A new API key", "An API key was made for your account. It works until it expires or you revoke it, also after you have changed your password. " + not, "Go to your account"},
		IdentityLinked:  {"Another way to log in", "A login by a provider was linked to your account. " + not, "Go to your account"},
	}
}

//go:embed letter.html
var letterFile string

func letterPage() *template.Template { return template.Must(template.New("letter").Parse(letterFile)) }

// deliver sends a letter of auth's. The work is the same when there is none to be
// sent, and so is the answer when it cannot be sent: nothing is lost by that, as
// another one can be asked for.
func (a *Account) deliver(c *web.Context, l auth.Letter) {
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
	a.send(c, to, Letter{l.Kind, l.User, link, m})
}

// notify tells a user what was done to the account.
func (a *Account) notify(c *web.Context, kind auth.LetterKind, to string, u auth.User) {
	if a.o.Mail == nil || to == "" {
		return
	}
	link := a.o.BaseURL + a.o.Prefix
	a.send(c, a.o.Mail, Letter{kind, u, link, a.compose(c, kind, to, link, "")})
}

// compose writes a letter.
func (a *Account) compose(c *web.Context, kind auth.LetterKind, to, link, until string) mail.Message {
	w := wordings()[kind]
	var text strings.Builder
	text.WriteString(w.text + "\n")
	if w.button != "" {
		text.WriteString("\n" + w.button + ":\n" + link + "\n")
	}
	if until != "" {
		text.WriteString("\nThis works once, until " + until + ".\n")
	}
	text.WriteString("\n" + a.o.Name + "\n")
	var page bytes.Buffer
	err := a.letters.Execute(&page, map[string]string{"subject": w.subject, "text": w.text, "button": w.button, "link": link, "until": until, "name": a.o.Name})
	if err != nil { // the text is enough
		c.Logger().LogAttrs(c, slog.LevelError, "the HTML of a letter", slog.Any("err", err))
		page.Reset()
	}
	return mail.Message{To: []string{to}, Subject: w.subject + " – " + a.o.Name, Text: text.String(), HTML: page.String()}
}

func (a *Account) send(c *web.Context, to mail.Sender, l Letter) {
	if a.o.Letter != nil && l.Kind != auth.None {
		l.Message = a.o.Letter(l)
	}
	if err := to.Send(context.WithoutCancel(c), l.Message); err != nil {
		c.Logger().LogAttrs(c, slog.LevelError, "a letter was not sent; its user can ask for another one",
			slog.String("kind", string(l.Kind)), slog.String("user", l.User.ID), slog.Any("err", err))
	}
}
