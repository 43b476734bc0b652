package admin_test

import (
	"testing"

	"github.com/skerrydb/skerry"
)

// TestFirstLinkEnds: the link for the first administrator, which a log has, makes nobody a superadmin once there is another one.
func TestFirstLinkEnds(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	w.ben()
	w.client().get(w.link).expect(400, "already used")
	w.client().post(w.link, "email", email, "password", password).expect(400, "already used")
}

// TestLinksOfTheRemoved: a superadmin who has lost that role cannot come back by a link that they have made before.
func TestLinksOfTheRemoved(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	ben := anna.invite(viewersEmail, "superadmin")
	link := linkIn(ben.post("/admin/administrators", "email", "later@example.org", "role", "superadmin").expect(200))
	ben.get(link).expect(200, "Set up your account")
	anna.post(anna.administratorPath(viewersEmail)+"/role", "role", "viewer").expect(200, "Saved.")
	w.client().get(link).expect(400, "already used")
	w.client().post(link, "email", "later@example.org", "password", password).expect(400, "already used")
	anna.get("/admin/log").expect(200, "admin.invite", "later@example.org")
}

// TestOperatorsLog: links that are made on the operator's port are in the log of actions.
func TestOperatorsLog(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	w.invite("carl@example.org", "viewer")
	anna.get("/admin/log").expect(200, "(operator)", "admin.invite", "carl@example.org")
}
