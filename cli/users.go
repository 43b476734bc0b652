package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/api"
	"github.com/skerrydb/skerry/web/problem"
)

var usersVerb = verb.Verb{
	Name: "users", Args: "list|create|roles|disable|enable …", Short: "list, create and change the users of a running application",
	Long: `These are the users that the application has set in skerry.Services. The verbs use the
server's admin address. The server logs every change.`,
	Subs: []verb.Verb{usersListVerb, usersCreateVerb, usersRolesVerb, usersDisableVerb, usersEnableVerb},
}

// usersOptions are the options of all verbs about users.
type usersOptions struct {
	remote
	json bool
}

func (o *usersOptions) settings(app verb.App, more ...verb.Setting) []verb.Setting {
	return append(append([]verb.Setting{urlSetting(&o.url, defaultURL(app)), verb.JSON(&o.json)}, more...), o.accessSettings()...)
}

var usersListVerb = verb.Verb{
	Name: "users list", Short: "list all users",
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		check := func(rest []string) error { return verb.Mistakes(verb.NoArguments(rest), o.check("url")) }
		return verb.Action{Settings: o.settings(app), Check: check, Do: func(ctx context.Context, p verb.Process, _ []string) error {
			all := []api.User{}
			for path := "/users?limit=1000"; path != ""; {
				var page api.UserPage
				if err := o.askJSON(ctx, path, &page); err != nil {
					return err
				}
				all, path = append(all, page.Users...), page.Next
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, map[string]any{"users": all})
			}
			return printUsers(p.Stdout, all)
		}}
	},
}

// maxUserPassword bounds the bytes of a new user's password that are read.
const maxUserPassword = 4 << 10

var usersCreateVerb = verb.Verb{
	Name: "users create", Args: "EMAIL", Short: "create a user with a verified address, such as the first administrator",
	Long: `Without --new-password-file, a password is generated and printed once. The application
defines which roles there are.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var name, file string
		var roles []string
		settings := o.settings(app,
			verb.Setting{Name: "name", Arg: "NAME", Help: "the user's name", Set: verb.Text(&name)},
			verb.Setting{Name: "roles", Arg: "ROLES", Help: "comma-separated roles", Set: verb.List(&roles)},
			verb.Setting{Name: "new-password-file", Arg: "FILE", Help: "file whose first line is the user's password; - reads standard input", Set: verb.Text(&file)})
		check := func(rest []string) error {
			return verb.Mistakes(verb.OneArgument(rest, "the email address of the user"), o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			password, err := newPassword(p, file)
			if err != nil {
				return err
			}
			u, err := o.write(ctx, http.MethodPost, "/users", map[string]any{"email": rest[0], "password": password, "name": name, "roles": roles})
			if err != nil {
				return err
			}
			made := ""
			if file == "" {
				made = password
			}
			if o.json {
				return verb.PrintJSON(p.Stdout, struct {
					api.User
					Password string `json:"new_password,omitempty"`
				}{u, made})
			}
			_, err = fmt.Fprintf(p.Stdout, "created %s with id %s%s\n", u.Email, u.ID, rolesWords(u))
			if err == nil && made != "" {
				_, err = fmt.Fprintf(p.Stdout, "password: %s\n", made)
			}
			return err
		}}
	},
}

// newPassword reads the password for a new user from a file, or generates one.
func newPassword(p verb.Process, file string) (string, error) {
	var from io.Reader
	switch file {
	case "":
		return rand.Text(), nil // 26 letters and digits, 130 bits
	case "-":
		from = p.Stdin
	default:
		f, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("new-password-file: %w", err)
		}
		defer f.Close()
		from = f
	}
	content, err := io.ReadAll(io.LimitReader(from, maxUserPassword))
	if err != nil {
		return "", fmt.Errorf("new-password-file: %w", err)
	}
	line, _, _ := strings.Cut(string(content), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", verb.Usagef("new-password-file: the first line of %s is empty", file)
	}
	return line, nil
}

var usersRolesVerb = verb.Verb{
	Name: "users roles", Args: "USER [ROLE…]", Short: "set the roles of a user",
	Long: `USER is an email address or an id. The given roles replace the current ones; --none
removes all roles.`,
	Start: func(app verb.App) verb.Action {
		o := &usersOptions{}
		var none bool
		settings := o.settings(app, verb.Setting{Name: "none", Help: "remove all roles", Set: verb.Toggle(&none)})
		check := func(rest []string) error {
			var what error
			switch {
			case len(rest) == 0 || rest[0] == "":
				what = errors.New("needs the email address or the id of a user")
			case len(rest) == 1 && !none:
				what = errors.New("needs roles or --none")
			case len(rest) > 1 && none:
				what = errors.New("takes roles or --none, not both")
			}
			return verb.Mistakes(what, o.check("url"))
		}
		return verb.Action{Settings: settings, Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
			return o.change(ctx, p, rest[0], map[string]any{"roles": append([]string{}, rest[1:]...)})
		}}
	},
}

var usersDisableVerb = disabling("users disable", true, "end a user's sessions and refuse further logins and API keys")
var usersEnableVerb = disabling("users enable", false, "let a disabled user log in again")

func disabling(name string, disabled bool, short string) verb.Verb {
	return verb.Verb{
		Name: name, Args: "USER", Short: short, Long: `USER is an email address or an id.`,
		Start: func(app verb.App) verb.Action {
			o := &usersOptions{}
			check := func(rest []string) error {
				return verb.Mistakes(verb.OneArgument(rest, "the email address or the id of a user"), o.check("url"))
			}
			return verb.Action{Settings: o.settings(app), Check: check, Do: func(ctx context.Context, p verb.Process, rest []string) error {
				return o.change(ctx, p, rest[0], map[string]any{"disabled": disabled})
			}}
		},
	}
}

// change changes a user, named by email address or id, and prints it.
func (o *usersOptions) change(ctx context.Context, p verb.Process, name string, what map[string]any) error {
	id := name
	if strings.Contains(name, "@") {
		var page api.UserPage
		if err := o.askJSON(ctx, "/users?email="+url.QueryEscape(name), &page); err != nil {
			return err
		}
		if len(page.Users) != 1 {
			return engine.Errorf(engine.CodeNotFound, "no user has the address %q", name)
		}
		id = page.Users[0].ID
	}
	u, err := o.write(ctx, http.MethodPatch, "/users/"+url.PathEscape(id), what)
	if err != nil {
		return err
	}
	if o.json {
		return verb.PrintJSON(p.Stdout, u)
	}
	return printUsers(p.Stdout, []api.User{u})
}

// write sends a change and returns the user in the response.
func (o *usersOptions) write(ctx context.Context, method, path string, what map[string]any) (u api.User, err error) {
	err = o.sendJSON(ctx, method, path, what, &u)
	return u, err
}

func rolesWords(u api.User) string {
	if len(u.Roles) == 0 {
		return ""
	}
	return " and roles " + strings.Join(u.Roles, ", ")
}

// printUsers prints a table. Names come from users, and must not be able to control the operator's terminal.
func printUsers(w io.Writer, all []api.User) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "there are no users")
		return err
	}
	slices.SortFunc(all, func(a, b api.User) int { return strings.Compare(a.Email, b.Email) })
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "EMAIL\tNAME\tROLES\tSTATE\tCREATED\tID")
	for _, u := range all {
		state := []string{}
		if u.Disabled {
			state = append(state, "disabled")
		}
		if u.Verified.IsZero() {
			state = append(state, "unverified")
		}
		if !u.Password {
			state = append(state, "no password")
		}
		if u.TOTP {
			state = append(state, "second factor")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", verb.Dash(u.Email), verb.Dash(problem.Clean(u.Name)), verb.Dash(strings.Join(u.Roles, ", ")), verb.Dash(strings.Join(state, ", ")), u.Created.Format(time.DateOnly), u.ID)
	}
	return t.Flush()
}
