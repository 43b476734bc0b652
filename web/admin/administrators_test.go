package admin_test

import (
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/engine"
)

const viewersEmail = "ben@example.org"

var (
	linkInPage = regexp.MustCompile(`value="(http[^"]*/admin/setup/[^"]*)"`)
	idInPage   = regexp.MustCompile(`/admin/administrators/([a-z2-7]{26})"`)
)

// linkIn returns the set-up link that a page shows.
func linkIn(a *answer) string {
	a.t.Helper()
	found := linkInPage.FindStringSubmatch(a.Body)
	if found == nil {
		a.t.Fatalf("no link in %s", a.Body)
	}
	return html.UnescapeString(found[1])
}

// invite makes an administrator with a role, who is logged in.
func (c *client) invite(email, role string) *client {
	c.w.t.Helper()
	link := linkIn(c.post("/admin/administrators", "email", email, "role", role).expect(200, email))
	other := c.w.client()
	other.setUp(link, email)
	return other
}

// administratorPath returns the path of the page of an administrator.
func (c *client) administratorPath(email string) string {
	c.w.t.Helper()
	_, after, found := strings.Cut(c.get("/admin/administrators").expect(200).Body, "<tbody>")
	if !found {
		c.w.t.Fatal("no table")
	}
	for row := range strings.SplitSeq(after, "</tr>") {
		if id := idInPage.FindStringSubmatch(row); id != nil && strings.Contains(row, ">"+email+"<") {
			return "/admin/administrators/" + id[1]
		}
	}
	c.w.t.Fatalf("%s is not in the list", email)
	return ""
}

// TestAdministrators: superadmins invite, change and remove one another, but the last one stays.
func TestAdministrators(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	anna.post("/admin/administrators", "email", `"><b>@example`, "role", "viewer").expect(422, "&#34;&gt;&lt;b&gt;@example")
	anna.post("/admin/administrators", "email", viewersEmail, "role", "god").expect(422, viewersEmail, "god")
	anna.post("/admin/administrators", "email", email, "role", "viewer").expect(409, "is an administrator already")

	ben := anna.invite(viewersEmail, "viewer")
	ben.get("/admin/administrators").expect(200, email).lacks("Make a link")
	own, bens := anna.administratorPath(email), anna.administratorPath(viewersEmail)
	ben.get(own).expect(200).lacks("Change the role")
	for _, path := range []string{"/admin/administrators", own + "/role", bens + "/role", own + "/disable", own + "/reset", own + "/delete", own + "/logout"} {
		ben.post(path, "role", "superadmin", "email", "eve@example.org").expect(403)
	}

	// The last superadmin.
	for _, verb := range []string{"disable", "delete", "role"} {
		anna.post(own+"/"+verb, "role", "viewer").expect(409, "only superadmin")
	}
	anna.post(bens+"/role", "role", "superadmin").expect(200, "Saved.")
	ben.get("/admin/administrators").expect(200, "Make a link")
	ben.post(own+"/role", "role", "viewer").expect(200, "Saved.")
	ben.post(own+"/role", "role", "superadmin").expect(200)
	ben.post(own+"/disable").expect(200, "Disabled.")
	if at := anna.get("/admin/overview").expect(200).Path; !strings.HasPrefix(at, "/admin/account/login") {
		t.Errorf("a disabled administrator is at %s", at)
	}
	ben.post(bens+"/delete").expect(409, "only superadmin")
	ben.post(own+"/enable").expect(200, "Enabled.")
	ben.post(own+"/delete").expect(200, "Deleted.").lacks(email)
	ben.get(own).expect(404)
	ben.get("/admin/log").expect(200, "admin.invite", "admin.delete", "admin.disable", "only superadmin")
}

// TestResetAdministrator: the link of a reset ends the sessions and the second factor, when it is used.
func TestResetAdministrator(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	ben := anna.invite(viewersEmail, "superadmin")
	link := linkIn(anna.post(anna.administratorPath(viewersEmail)+"/reset").expect(200, "not shown again"))
	ben.get("/admin/overview").expect(200, "Overview")
	again := w.client()
	again.setUp(link, viewersEmail)
	if at := ben.get("/admin/overview").expect(200).Path; !strings.HasPrefix(at, "/admin/account/login") {
		t.Errorf("the old session is at %s", at)
	}
	again.get("/admin/administrators").expect(200, "Make a link")
	anna.post(anna.administratorPath(viewersEmail)+"/logout").expect(200, "Logged out everywhere.", "Nobody is logged in")
	if at := again.get("/admin/overview").expect(200).Path; !strings.HasPrefix(at, "/admin/account/login") {
		t.Errorf("the session is at %s", at)
	}
}

// TestStreamEnds: the open stream of an administrator who is disabled ends.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	for _, verb := range []string{"disable", "delete", "logout"} {
		ben := anna.invite(verb+viewersEmail, "superadmin")
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+"/admin/overview/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := ben.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d, %v", verb, resp.StatusCode, err)
		}
		anna.post(anna.administratorPath(verb+viewersEmail) + "/" + verb).expect(200)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil { // the client's time limit, if the stream does not end
			t.Errorf("%s: %v", verb, err)
		}
	}
}

// TestLooksAdministrators looks at the list, at a link and at one administrator.
func TestLooksAdministrators(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	c := w.open()
	c.visit("/admin/administrators")
	c.looks("administrators-one")
	c.Do(chromedp.SendKeys(chromedp.CSS(`[name=email]`), viewersEmail+"\r"), chromedp.WaitVisible(chromedp.CSS(`[data-copy]`)))
	c.looks("administrators")
	c.Do(chromedp.Click(chromedp.CSS(`tbody a`)))
	c.Until(`document.querySelector("h1")?.textContent === "` + email + `"`)
	c.looks("administrator")
}

// local is the level of reads of a test.
var local = engine.Read{Level: engine.Local}

var handleInPage = regexp.MustCompile(`name="link" value="([0-9a-f]{64})"`)

// TestOpenLinks: the page lists set-up links until they are used or withdrawn, and their answer says so.
func TestOpenLinks(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	anna.get("/admin/administrators").expect(200).lacks("Open links")
	made := anna.post("/admin/administrators", "email", viewersEmail, "role", "viewer").expect(200, "Open links", viewersEmail)
	link := linkIn(made)
	w.invite("carl@example.org", "superadmin")
	page := anna.get("/admin/administrators").expect(200, "carl@example.org", "(operator)", "Valid until")
	_, token, _ := strings.Cut(link, "/setup/")
	page.lacks(token)
	handles := handleInPage.FindAllStringSubmatch(page.Body, -1)
	if len(handles) != 2 {
		t.Fatalf("%q", handles)
	}
	ben := w.client()
	ben.setUp(link, viewersEmail)
	ben.get("/admin/administrators").expect(200, "carl@example.org").lacks("Withdraw")
	ben.post("/admin/administrators/withdraw", "link", handles[1][1]).expect(403)
	page = anna.get("/admin/administrators").expect(200)
	open := handleInPage.FindAllStringSubmatch(page.Body, -1)
	if len(open) != 1 {
		t.Fatalf("%q", open)
	}
	anna.post("/admin/administrators/withdraw", "link", open[0][1]).expect(200, "no longer works").lacks("Open links")
	anna.post("/admin/administrators/withdraw", "link", open[0][1]).expect(409, "used or withdrawn already")
	anna.post("/admin/administrators/withdraw", "link", "../../x").expect(400)
	anna.post("/admin/administrators/withdraw", "link", "").expect(409)
	w.client().get(link).expect(400, "was already used")

	withdrawn := linkIn(anna.post("/admin/administrators", "email", "carl@example.org", "role", "viewer").expect(200))
	open = handleInPage.FindAllStringSubmatch(anna.get("/admin/administrators").expect(200).Body, -1)
	anna.post("/admin/administrators/withdraw", "link", open[0][1]).expect(200, "no longer works")
	w.client().get(withdrawn).expect(400, "was withdrawn")
	w.client().post(withdrawn, "password", password).expect(400, "was withdrawn")
	anna.get("/admin/log").expect(200, "admin.withdraw", "carl@example.org")
}

// TestLinksOfTheFallen: a link of somebody who is no superadmin any more is shown as such, because it does not work.
func TestLinksOfTheFallen(t *testing.T) {
	t.Parallel()
	w := start(t, skerry.Options{})
	anna := w.anna()
	ben := anna.invite(viewersEmail, "superadmin")
	link := linkIn(ben.post("/admin/administrators", "email", "carl@example.org", "role", "superadmin").expect(200))
	anna.get("/admin/administrators").expect(200, "carl@example.org").lacks("does not work")
	anna.post(anna.administratorPath(viewersEmail)+"/role", "role", "viewer").expect(200)
	anna.get("/admin/administrators").expect(200, "carl@example.org", "does not work")
	w.client().get(link).expect(400)
}
