package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/mail"
	"github.com/skerrydb/skerry/web"
)

const (
	mailPage     = 50       // messages of one page of the outbox
	maxMailShown = 64 << 10 // bytes of a message
)

// outbox is a mail.Outbox.
type outbox interface {
	List() []*mail.Kept
	Get(id int) (*mail.Kept, error)
}

func (a *Admin) addMail(g *web.Group) {
	g.Get("/mail", a.mailPage)
	g.Get("/mail/{id}", a.message, superadmin) // it may have a link that resets a password
	g.Post("/mail", a.sendTest, superadmin)
}

func (a *Admin) mailPage(c *web.Context) error { return a.showMail(c, http.StatusOK, "", "") }

// showMail shows the outbox, or how sending goes, with the form for a test.
func (a *Admin) showMail(c *web.Context, status int, to, problem string) error {
	all := web.Locals{"title": a.text("Mail"), "to": to, "problem": problem, "numbers": []Row(nil), "outbox": false, "messages": []*mail.Kept(nil), "next": 0, "server": ""}
	if m, ok := a.o.Mail.(engine.Meter); ok {
		all["numbers"] = a.numbers(m)
	}
	if s, ok := a.o.Mail.(fmt.Stringer); ok {
		all["server"] = s.String()
	}
	if box, ok := a.o.Mail.(outbox); ok {
		before, _ := strconv.Atoi(c.Query("before").String()) // malformed: the newest
		kept := slices.DeleteFunc(box.List(), func(k *mail.Kept) bool { return before > 0 && k.ID >= before })
		if len(kept) > mailPage {
			kept = kept[:mailPage]
			all["next"] = kept[mailPage-1].ID
		}
		all["outbox"], all["messages"] = true, kept
	}
	return a.show(c, status, "mail", all)
}

// numbers returns metrics with what they mean.
func (a *Admin) numbers(m engine.Meter) []Row {
	var all []Row
	for x := range m.Metrics() {
		if x.Histogram != nil {
			continue
		}
		name := x.Help
		for _, l := range x.Labels {
			name += " " + l.Name + ": " + l.Value
		}
		all = append(all, Row{name, numberText(x.Value)})
	}
	return all
}

// message shows a message of the outbox. Its HTML is shown as text.
func (a *Admin) message(c *web.Context) error {
	box, ok := a.o.Mail.(outbox)
	id, err := strconv.Atoi(c.Path("id").String())
	if !ok || err != nil {
		return engine.Errorf(engine.CodeNotFound, "there is no such message")
	}
	kept, err := box.Get(id)
	if err != nil {
		return err
	}
	m := kept.Message
	return a.show(c, http.StatusOK, "message", web.Locals{
		"title": m.Subject, "kept": kept, "text": shorten(m.Text, maxMailShown), "html": shorten(m.HTML, maxMailShown),
	})
}

// sendTest sends a message and waits for the mail server's response, if the sender can.
func (a *Admin) sendTest(c *web.Context) error {
	to := c.Form("to").String()
	m := mail.Message{To: []string{to}, Subject: a.text("A test of Skerry"), Text: a.text("%s has sent this message on the admin page, to see whether mail arrives.", person(c).Email)}
	send := a.o.Mail.Send
	if now, ok := a.o.Mail.(interface {
		SendNow(ctx context.Context, m mail.Message) error
	}); ok {
		send = now.SendNow
	}
	err := a.act(c, "mail.test", to, "", func() error { return send(c, m) })
	switch engine.CodeOf(err) {
	case engine.CodeInvalid, engine.CodeLimit, mail.CodeRefused:
		return a.showMail(c, http.StatusUnprocessableEntity, to, c.Detail(err))
	case mail.CodeUnavailable, engine.CodeQueueFull:
		return a.showMail(c, http.StatusServiceUnavailable, to, c.Detail(err))
	}
	if err != nil {
		return err
	}
	return a.done(c, "/mail", "done")
}
