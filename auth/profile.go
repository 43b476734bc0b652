package auth

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/skerrydb/skerry/engine"
)

// Limits of a profile. Going over one is CodeLimit.
const (
	MaxProfile      = 32      // values of a profile
	MaxProfileBytes = 8 << 10 // bytes of its names and values together
)

// Registration is the data of a new user, for RegisterUser.
type Registration struct {
	Email, Password string

	// From is the client's address, for the rate limit; "" is not counted.
	From string

	// Name and Profile become User.Name and User.Profile.
	Name    string
	Profile map[string]string
}

func (r Registration) check() error {
	if err := checkLine("the name", r.Name, MaxNameBytes); err != nil {
		return err
	}
	return checkProfile(r.Profile)
}

// checkProfile refuses profiles that are not text or are too large.
func checkProfile(p map[string]string) error {
	size := 0
	for name, value := range p {
		if size += len(name) + len(value); !utf8.ValidString(name+value) || strings.ContainsRune(name+value, 0) {
			return engine.Errorf(engine.CodeInvalid, "the value %q of the profile is not text", name)
		}
	}
	if len(p) > MaxProfile || size > MaxProfileBytes {
		return engine.Errorf(engine.CodeLimit, "the profile has %d values of %d bytes, at most %d of %d", len(p), size, MaxProfile, MaxProfileBytes)
	}
	return nil
}

// SetProfile replaces the profile of a user.
func (a *Auth) SetProfile(ctx context.Context, user string, profile map[string]string) (User, error) {
	if err := checkProfile(profile); err != nil {
		return User{}, err
	}
	profile = maps.Clone(profile)
	return a.change(ctx, "change the profile of a user", user, func(t tx, u *stored) error {
		u.Profile = profile
		return nil
	})
}

// profile writes names and values alternately, sorted by name.
func (e *encoder) profile(p map[string]string) {
	var flat []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		flat = append(flat, name, p[name])
	}
	e.strs(flat)
}

func (d *decoder) profile() map[string]string {
	flat := d.strs()
	p := map[string]string{}
	for i := 0; i+1 < len(flat); i += 2 {
		if i > 0 && flat[i] <= flat[i-2] {
			d.fail("a profile is out of order")
		}
		p[flat[i]] = flat[i+1]
	}
	if len(flat)%2 != 0 || len(flat) == 0 {
		d.fail("a profile is cut off")
	}
	return p
}
