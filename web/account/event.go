package account

import (
	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// EventKind is a kind of Event.
type EventKind string

// The kinds of events.
const (
	LoggedIn         EventKind = "login"          // failed: the first factor was wrong, or the account may not log in
	GaveCode         EventKind = "login_code"     // only failed: the second factor of a login was wrong
	GavePassword     EventKind = "password_again" // only failed: a logged-in user did not know the password
	LoggedOut        EventKind = "logout"         //
	EndedSessions    EventKind = "sessions_ended" // of other browsers and devices
	ChangedPassword  EventKind = "password"       // failed: the old one was wrong
	TurnedFactorOn   EventKind = "factor_on"
	TurnedFactorOff  EventKind = "factor_off"
	MadeRecoveryCode EventKind = "recovery_codes" // new ones, which replace the others
)

// Event is what the owner of an account did on this package's pages, or somebody tried, for Options.OnEvent.
type Event struct {
	Kind     EventKind
	User     auth.User // the zero User if a failed login was not for an account
	Email    string    // address given for a login with a password that failed
	Recovery bool      // a recovery code was used up
	Err      error     // why it failed; nil if it was done
}

// happened reports an event. Failures are reported only if they were wrong secrets or a refused account: limits and faults of the
// server are no attempts.
func (a *Account) happened(c *web.Context, e Event) {
	if a.o.OnEvent == nil {
		return
	}
	switch engine.CodeOf(e.Err) {
	case "", auth.CodeWrongCredentials, auth.CodeCodeWrong, auth.CodeAccountDisabled, auth.CodeEmailUnverified:
		a.o.OnEvent(c, e)
	}
}

// loginEnded reports a login that is complete or has failed. email is what was given, ticket that of a second factor.
func (a *Account) loginEnded(c *web.Context, u auth.User, email, ticket, code string, err error) {
	e := Event{Kind: LoggedIn, User: u, Email: email, Recovery: err == nil && ticket != "" && !ofApp(code), Err: err}
	if err != nil && ticket != "" {
		e.Kind = GaveCode
		if a.o.OnEvent == nil || engine.CodeOf(err) != auth.CodeCodeWrong {
			return
		}
		var unknown error
		if e.User, unknown = a.users.TicketUser(c, engine.Read{}, ticket); unknown != nil {
			return // the ticket has expired meanwhile
		}
	}
	a.happened(c, e)
}

// leaving returns a function that reports the logout of the user who is logged in.
func (a *Account) leaving(c *web.Context) func() {
	u, err := a.current(c)
	if err != nil {
		return func() {}
	}
	return func() { a.happened(c, Event{Kind: LoggedOut, User: u}) }
}
