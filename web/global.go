package web

import (
	"net/http"

	"github.com/skerrydb/skerry/session"
)

// globalName is the name of the cookie that all applications with the same global sessions share.
const globalName = "skerry-global"

// Global returns the session that the browser shares with all applications on the same data (Options.Global),
// for what all of them may know: who is logged in, a language. It is read at the first call, and saved like
// Session. Global panics if the application has no global sessions.
func (c *Context) Global() (*session.Session, error) {
	x := c.x
	x.personal = true
	if x.global != nil {
		return x.global, nil
	}
	st := x.app.o.Global
	if st == nil {
		panic("web: Context.Global, but Options.Global is not set")
	}
	if token := cookieValue(c.Request, x.globalCookie(c.Request).Name); token != "" && x.key == nil {
		s, err := x.loadFrom(c.Request, st, token)
		if err != nil {
			return nil, err
		}
		x.global, x.globalLoaded = s, s != nil
	}
	if x.global == nil {
		x.global = st.New()
	}
	return x.global, nil
}

// globalCookie returns the cookie without its token. Of the cookie prefixes, only __Secure- allows sharing
// between the hosts of a domain.
func (x *exchange) globalCookie(r *http.Request) http.Cookie {
	c := http.Cookie{Name: "__Host-" + globalName, Domain: x.app.o.GlobalDomain}
	if c.Domain != "" {
		c.Name = "__Secure-" + globalName
	}
	if x.plain(r) {
		c.Name = globalName
	}
	return c
}

// saveGlobal is saveSession for the global session, if the request has used it.
func (x *exchange) saveGlobal() error {
	if x.global == nil {
		return nil
	}
	return x.keep(x.global, x.globalLoaded, x.app.o.Global, x.globalCookie(x.r))
}
