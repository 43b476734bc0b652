package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
)

var adminVerb = verb.Verb{
	Name: "admin", Args: "create|reset …", Short: "make links for administrators of a server's admin page",
	Long: `The links are for a running server. Open one once, within 24 hours, to choose a password
and to set up a second factor. The server logs that a link was made.`,
	Subs: []verb.Verb{adminCreateVerb, adminResetVerb},
}

var adminCreateVerb = verb.Verb{
	Name: "admin create", Args: "EMAIL", Short: "make a link with which a new administrator sets up an account",
	Long: `A superadmin may do everything on the admin page, a viewer may look but change nothing.`,
	Start: func(app verb.App) verb.Action {
		o := &adminOptions{}
		role := ""
		return o.action(app, func() map[string]any { return map[string]any{"role": role} },
			verb.Setting{Name: "role", Arg: "superadmin|viewer", Default: "superadmin", Help: "what the administrator may do", Set: verb.Choice(&role, "superadmin", "viewer")})
	},
}

var adminResetVerb = verb.Verb{
	Name: "admin reset", Args: "EMAIL", Short: "make a link with which an administrator sets a new password and second factor",
	Long: `The account works as before until the link is used; then its old password, its second
factor and its sessions end.`,
	Start: func(app verb.App) verb.Action {
		o := &adminOptions{}
		return o.action(app, func() map[string]any { return map[string]any{"role": "viewer", "reset": true} }) // the account keeps its role
	},
}

// adminOptions are the options of the verbs about administrators.
type adminOptions struct {
	remote
	json bool
}

// action asks the server for a link, with what about returns besides the address.
func (o *adminOptions) action(app verb.App, about func() map[string]any, more ...verb.Setting) verb.Action {
	settings := append(append([]verb.Setting{urlSetting(&o.url, defaultURL(app)), verb.JSON(&o.json)}, more...), o.accessSettings()...)
	check := func(rest []string) error {
		return verb.Mistakes(verb.OneArgument(rest, "the email address of the administrator"), o.check("url"))
	}
	return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
		what := about()
		what["email"] = rest[0]
		var made struct {
			Path string `json:"path"`
		}
		if err := o.sendJSON(ctx, http.MethodPost, "/administrators", what, &made); err != nil {
			return err
		}
		if !strings.HasPrefix(made.Path, "/") {
			return engine.Errorf(engine.CodeInternal, "the server at %s responded without a link", o.url)
		}
		link := strings.TrimSuffix(o.url, "/") + made.Path
		if o.json {
			return verb.PrintJSON(p.Stdout, map[string]any{"email": rest[0], "url": link})
		}
		_, err := fmt.Fprintf(p.Stdout, "%s\nThe link works once, for 24 hours.\n", link)
		return err
	}}
}
