package mail

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// outcome is the result of one attempt to deliver a message.
type outcome struct {
	taken   int                // recipients that the server accepted
	left    []*netmail.Address // those to try again
	refused []*netmail.Address // those permanently refused
	err     error              // why there are left or refused ones
	server  bool               // err is about the server, not the message
}

// later returns the outcome of an attempt that failed before any recipient was accepted. A 5xx reply about the
// message is permanent. One about the server is not, because its settings can be fixed while the message
// waits.
func later(l *queued, err error, server bool) outcome {
	if !server && permanent(err) {
		return outcome{refused: l.to, err: err}
	}
	return outcome{left: l.to, err: err, server: server}
}

// permanent reports whether a server replied 5xx.
func permanent(err error) bool {
	answer, ok := errors.AsType[*textproto.Error](err)
	return ok && answer.Code >= 500
}

// deliver makes one attempt over a new connection. It never takes longer than o.Timeout.
func deliver(ctx context.Context, o *SMTPOptions, l *queued) outcome {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	conn, err := dial(ctx, o)
	if err != nil {
		return later(l, because(ctx, err), true)
	}
	defer conn.Close()
	// Everything below reads and writes conn, so closing it at the end of ctx ends everything.
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	c, err := greet(conn, o)
	if err != nil {
		return later(l, because(ctx, err), true)
	}
	out := transmit(c, l)
	if out.err != nil {
		out.err = because(ctx, out.err)
	}
	if out.taken > 0 || len(out.refused) > 0 {
		_ = c.Quit() // whatever the reply, the outcome of the message is known
	}
	return out
}

// because returns the reason for a broken connection: the end of a context appears there only as a timeout.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil && !permanent(err) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// dial connects to the server, with TLS for ImplicitTLS.
func dial(ctx context.Context, o *SMTPOptions) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(o.Host, strconv.Itoa(o.Port)))
	if err != nil || o.TLS != ImplicitTLS {
		return conn, err
	}
	secure := tls.Client(conn, o.Config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// greet prepares a new connection for sending messages.
func greet(conn net.Conn, o *SMTPOptions) (*smtp.Client, error) {
	c, err := smtp.NewClient(conn, o.Host)
	if err != nil {
		return nil, err
	}
	// Requesting SMTPUTF8 makes relays without it bounce messages that do not need it.
	c.SkipSMTPUTF8(true)
	if err := c.Hello(o.Hello); err != nil {
		return nil, err
	}
	if o.TLS == StartTLS {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return nil, errors.New("the server does not offer STARTTLS; tls=none would send mail unencrypted")
		}
		if err := c.StartTLS(o.Config); err != nil {
			return nil, err
		}
	}
	if o.User == "" {
		return c, nil
	}
	auth, err := mechanism(c, o)
	if err != nil {
		return nil, err
	}
	if err := c.Auth(auth); err != nil {
		return nil, fmt.Errorf("the server rejected the user and password: %w", err)
	}
	return c, nil
}

// mechanism chooses an authentication mechanism. The connection has TLS or stays on this machine, which
// SMTPOptions.check ensures, so any of them is safe.
func mechanism(c *smtp.Client, o *SMTPOptions) (smtp.Auth, error) {
	_, offer := c.Extension("AUTH")
	offered := strings.Fields(strings.ToUpper(offer))
	switch {
	case slices.Contains(offered, "SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(o.User, o.Password), nil
	case slices.Contains(offered, "PLAIN"):
		return smtp.PlainAuth("", o.User, o.Password, o.Host, true), nil
	case slices.Contains(offered, "LOGIN"):
		return smtp.LoginAuth(o.User, o.Password, o.Host, true), nil
	case slices.Contains(offered, "CRAM-MD5"):
		return smtp.CRAMMD5Auth(o.User, o.Password), nil
	}
	return nil, errors.New("the server offers no supported way to authenticate (it offers: " + offer + ")")
}

// transmit sends one message. A recipient that the server refuses does not prevent delivery to the others.
func transmit(c *smtp.Client, l *queued) outcome {
	if err := c.Mail("<" + l.from.Address + ">"); err != nil {
		return later(l, err, false)
	}
	var out outcome
	for _, to := range l.to {
		err := c.Rcpt("<" + to.Address + ">")
		if err == nil {
			out.taken++
			continue
		}
		if _, answered := errors.AsType[*textproto.Error](err); !answered {
			return later(l, err, false) // the connection is broken: no recipient was accepted
		}
		out.err = both(out.err, err)
		if permanent(err) {
			out.refused = append(out.refused, to)
		} else {
			out.left = append(out.left, to)
		}
	}
	if out.taken == 0 {
		return out
	}
	if err := content(c, l); err != nil {
		if permanent(err) {
			return later(l, err, false)
		}
		// The accepted recipients have to wait, but not those refused.
		out.left = slices.DeleteFunc(slices.Clone(l.to), func(a *netmail.Address) bool { return slices.Contains(out.refused, a) })
		out.taken, out.err = 0, both(err, out.err)
	}
	return out
}

// both is errors.Join on one line.
func both(a, b error) error {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return fmt.Errorf("%w; %w", a, b)
}

// content sends headers and body.
func content(c *smtp.Client, l *queued) error {
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := l.compose().WriteTo(w); err != nil {
		return err // without the final dot, so the server discards it
	}
	return w.Close()
}

// compose writes the message as MIME. Date and Message-ID are the same at every attempt, so that a server can
// recognise a duplicate.
func (l *queued) compose() *gomail.Msg {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.FromMailAddress(l.from)
	m.ToMailAddress(l.all...)
	if l.replyTo != nil {
		m.ReplyToMailAddress(l.replyTo)
	}
	m.Subject(l.msg.Subject)
	m.SetMessageIDWithValue(l.id + "@" + domain(l.from.Address))
	m.SetDateWithValue(l.accepted)
	m.SetGenHeader("Auto-Submitted", "auto-generated") // RFC 3834: no holiday replies to it
	if l.msg.Text != "" {
		m.SetBodyString(gomail.TypeTextPlain, l.msg.Text)
	}
	switch {
	case l.msg.HTML != "" && l.msg.Text != "":
		m.AddAlternativeString(gomail.TypeTextHTML, l.msg.HTML)
	case l.msg.HTML != "":
		m.SetBodyString(gomail.TypeTextHTML, l.msg.HTML)
	}
	return m
}
