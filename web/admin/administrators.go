package admin

import (
	"encoding/json"
	"net/http"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

func (a *Admin) addAdministrators(g *web.Group) {}

// Operate serves POST /administrators on the operator's port: an Invitation as JSON, answered with the path of a set-up link.
func (a *Admin) Operate(c *web.Context) error {
	var in Invitation
	d := json.NewDecoder(c.Request.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return engine.Errorf(engine.CodeInvalid, "the body must be a JSON object with email, role and reset: %w", err)
	}
	path, err := a.Invite(c, in)
	if err != nil {
		return err
	}
	a.o.Logger.Info("a set-up link for the admin page was made on the operator's port", "email", in.Email, "role", in.Role, "reset", in.Reset, "from", c.ClientIP())
	return c.JSON(http.StatusOK, map[string]string{"path": path})
}
