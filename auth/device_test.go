package auth_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
)

// phone logs a device of u in.
func (w *world) phone(u auth.User, name string) auth.Tokens {
	w.t.Helper()
	tokens, err := w.OpenDevice(w.t.Context(), u, name)
	must(w.t, "log a device in", err)
	return tokens
}

// refresh fails unless refreshing with a token returns an error with the code; "" means no error.
func (w *world) refresh(what, text string, code engine.Code) auth.Tokens {
	w.t.Helper()
	u, tokens, err := w.Refresh(w.t.Context(), text)
	want(w.t, what, err, code)
	if (u.ID == "") != (err != nil) || (tokens == auth.Tokens{}) != (err != nil) {
		w.t.Errorf("%s: %v with %+v and %+v", what, err, u, tokens)
	}
	return tokens
}

// access fails unless checking an access token returns an error with the code; "" means no error.
func (w *world) access(what, text string, code engine.Code) {
	w.t.Helper()
	u, d, err := w.CheckAccess(w.t.Context(), engine.Read{}, text)
	want(w.t, what, err, code)
	if (u.ID == "") != (err != nil) || (d.ID == "") != (err != nil) {
		w.t.Errorf("%s: %v with %+v and %+v", what, err, u, d)
	}
}

// TestRotation: each refresh issues new tokens and ends those before it.
func TestRotation(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	first := w.phone(ann, "Ann's phone")
	at := w.clock.Now()
	if d := first.Device; d.User != ann.ID || d.Name != "Ann's phone" || !d.Created.Equal(d.Used) ||
		!first.AccessExpires.Equal(d.Created.Add(auth.DefaultAccessTTL)) || d.Expires.Sub(at.Add(auth.DefaultRefreshTTL)).Abs() > time.Second {
		t.Errorf("%+v", first)
	}
	if !w.IsAccessToken(first.Access) || w.IsAccessToken(first.Refresh) || !strings.HasPrefix(first.Access, "ska_"+first.Device.ID+"_") {
		t.Errorf("%q %q", first.Access, first.Refresh)
	}
	w.access("the first token", first.Access, "")
	w.access("a refresh token", first.Refresh, engine.CodeUnauthenticated)
	w.refresh("an access token", first.Access, engine.CodeUnauthenticated)
	w.clock.Add(time.Minute)
	second := w.refresh("refresh", first.Refresh, "")
	if second.Device.ID != first.Device.ID || !second.Device.Created.Equal(first.Device.Created) || !second.Device.Used.After(first.Device.Used) || second.Device.Name != "Ann's phone" {
		t.Errorf("%+v after %+v", second, first)
	}
	w.access("the replaced token", first.Access, engine.CodeUnauthenticated)
	w.access("the second token", second.Access, "")
	w.clock.Add(time.Minute)
	third := w.refresh("refresh", second.Refresh, "")
	list, err := w.ListDevices(ctx, engine.Read{}, ann.ID)
	if err != nil || len(list) != 1 || list[0].ID != third.Device.ID || !list[0].Used.Equal(third.Device.Used) || !list[0].Expires.Equal(third.Device.Expires) {
		t.Errorf("%+v %v", list, err)
	}
	must(t, "the device", w.CheckDevice(ctx, engine.Read{}, third.Device.ID))
}

// TestTheft: whichever of a thief and the owner uses a copied refresh token second ends the device for both, at
// any time; other devices go on.
func TestTheft(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	ann := w.verified("ann@example.com")
	other := w.phone(ann, "tablet")
	for age := range 3 { // of the token that is used again
		tokens := []auth.Tokens{w.phone(ann, "phone")}
		for range age + 1 {
			tokens = append(tokens, w.refresh("refresh", tokens[len(tokens)-1].Refresh, ""))
		}
		last := tokens[len(tokens)-1]
		w.refresh("a token again", tokens[0].Refresh, auth.CodeTokenReused)
		w.access("the last access token", last.Access, engine.CodeUnauthenticated)
		w.refresh("the last refresh token", last.Refresh, engine.CodeUnauthenticated)
		w.refresh("a token a third time", tokens[0].Refresh, engine.CodeUnauthenticated)
		want(t, "the device", w.CheckDevice(t.Context(), engine.Read{}, last.Device.ID), engine.CodeUnauthenticated)
	}
	w.access("another device", other.Access, "")
	w.refresh("another device", other.Refresh, "")
}

// TestRefreshOnce: of many refreshes with one token at once, one succeeds and another ends the device.
func TestRefreshOnce(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	tokens := w.phone(w.verified("ann@example.com"), "phone")
	results := make(chan error, 8)
	if n := together(t, 8, func(int) error {
		_, _, err := w.Refresh(t.Context(), tokens.Refresh)
		results <- err
		return err
	}); n != 1 {
		t.Errorf("%d refreshes with one token", n)
	}
	close(results)
	reused := 0
	for err := range results {
		if errors.Is(err, auth.ErrTokenReused) {
			reused++
		} else if err != nil && !errors.Is(err, engine.ErrUnauthenticated) {
			t.Error(err)
		}
	}
	if reused != 1 {
		t.Errorf("%d of them found the token used", reused)
	}
}

// TestDeviceEnds: by time, however often it is refreshed.
func TestDeviceEnds(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{AccessTTL: time.Minute, RefreshTTL: time.Hour, DeviceTTL: 100 * time.Minute})
	ann := w.verified("ann@example.com")
	tokens, idle := w.phone(ann, "phone"), w.phone(ann, "idle")
	w.clock.Add(50 * time.Second)
	w.access("before its time", tokens.Access, "")
	w.clock.Add(11 * time.Second) // the engine's times are all different, so a few microseconds later
	w.access("after its time", tokens.Access, auth.CodeTokenExpired)
	must(t, "the device", w.CheckDevice(t.Context(), engine.Read{}, tokens.Device.ID))
	w.clock.Add(50*time.Minute - 11*time.Second)
	tokens = w.refresh("an unused token", tokens.Refresh, "")
	w.access("a new token", tokens.Access, "")
	w.clock.Add(10 * time.Minute)
	w.refresh("a device that was idle", idle.Refresh, engine.CodeUnauthenticated)
	if list, err := w.ListDevices(t.Context(), engine.Read{}, ann.ID); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	w.clock.Add(38*time.Minute + 50*time.Second)
	tokens = w.refresh("refresh", tokens.Refresh, "")
	if left := tokens.AccessExpires.Sub(w.clock.Now()); left > 30*time.Second || !tokens.AccessExpires.Equal(tokens.Device.Expires) {
		t.Errorf("an access token outlives the device: %+v", tokens)
	}
	w.clock.Add(31 * time.Second)
	w.access("the device's end", tokens.Access, engine.CodeUnauthenticated)
	w.refresh("the device's end", tokens.Refresh, engine.CodeUnauthenticated)
	w.expire()
	if left := w.dump(); strings.Contains(left, tokens.Device.ID) || strings.Contains(left, idle.Device.ID) {
		t.Error("a device is left in the store")
	}
}

// TestDevicesRevoked: devices end with everything that ends sessions, also without a store of sessions.
func TestDevicesRevoked(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(ctx context.Context, w *world, u auth.User, id string) error{
		"disable": func(ctx context.Context, w *world, u auth.User, _ string) error {
			if _, err := w.Disable(ctx, u.ID, true); err != nil {
				return err
			}
			_, err := w.Disable(ctx, u.ID, false) // which brings no device back
			return err
		},
		"delete": func(ctx context.Context, w *world, u auth.User, _ string) error { return w.Delete(ctx, u.ID) },
		"change the password": func(ctx context.Context, w *world, u auth.User, _ string) error {
			_, err := w.ChangePassword(ctx, u.ID, good, "another long password")
			return err
		},
		"set the password": func(ctx context.Context, w *world, u auth.User, _ string) error {
			_, err := w.SetPassword(ctx, u.ID, "another long password")
			return err
		},
		"reset": func(ctx context.Context, w *world, u auth.User, _ string) error {
			_, err := w.Reset(ctx, w.requestReset(u.Email).Token, "another long password")
			return err
		},
		"remove the second factor": func(ctx context.Context, w *world, u auth.User, _ string) error { return w.RemoveTOTP(ctx, u.ID) },
		"revoke": func(ctx context.Context, w *world, u auth.User, id string) error {
			return w.RevokeDevice(ctx, u.ID, id)
		},
		"revoke all": func(ctx context.Context, w *world, u auth.User, _ string) error {
			n, err := w.RevokeDevices(ctx, u.ID, "another")
			if err == nil && n != 1 {
				err = fmt.Errorf("%d devices were revoked", n)
			}
			return err
		},
	} {
		w := open(t, auth.Options{})
		ann, bob := w.verified("ann@example.com"), w.verified("bob@example.com")
		tokens, others := w.phone(ann, "phone"), w.phone(bob, "phone")
		must(t, what, end(t.Context(), w, ann, tokens.Device.ID))
		w.access(what, tokens.Access, engine.CodeUnauthenticated)
		w.refresh(what, tokens.Refresh, engine.CodeUnauthenticated)
		want(t, what, w.CheckDevice(t.Context(), engine.Read{}, tokens.Device.ID), engine.CodeUnauthenticated)
		w.access("somebody else's device", others.Access, "")
	}
}

// TestDeviceOfLogin: a login is void for a device once the user was changed, and a device belongs to one user.
func TestDeviceOfLogin(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann, bob := w.verified("ann@example.com"), w.verified("bob@example.com")
	tokens := w.phone(ann, "phone")
	want(t, "revoke another's device", w.RevokeDevice(ctx, bob.ID, tokens.Device.ID), engine.CodeNotFound)
	want(t, "revoke no device", w.RevokeDevice(ctx, bob.ID, "x"), engine.CodeNotFound)
	if n, err := w.RevokeDevices(ctx, ann.ID, tokens.Device.ID); n != 0 || err != nil {
		t.Errorf("%d devices: %v", n, err)
	}
	w.access("ann's", tokens.Access, "")
	must(t, "bump", w.Bump(ctx, ann.ID))
	_, err := w.OpenDevice(ctx, ann, "late")
	want(t, "a login before the password was changed", err, auth.CodeWrongCredentials)
	_, err = w.Disable(ctx, bob.ID, true)
	must(t, "disable", err)
	_, err = w.OpenDevice(ctx, bob, "late")
	want(t, "a login before the user was disabled", err, auth.CodeWrongCredentials)
	must(t, "delete", w.Delete(ctx, bob.ID))
	_, err = w.OpenDevice(ctx, bob, "late")
	want(t, "a login before the user was deleted", err, auth.CodeWrongCredentials)
}

// TestDeviceLimits: names are lines, and one login too many ends the device that was refreshed least recently.
func TestDeviceLimits(t *testing.T) {
	t.Parallel()
	w, ctx := open(t, auth.Options{}), t.Context()
	ann := w.verified("ann@example.com")
	_, err := w.OpenDevice(ctx, ann, strings.Repeat("n", auth.MaxNameBytes+1))
	want(t, "a long name", err, engine.CodeLimit)
	_, err = w.OpenDevice(ctx, ann, "a\nb")
	want(t, "a line break", err, engine.CodeInvalid)
	var all []auth.Tokens
	for range auth.MaxDevices {
		all = append(all, w.phone(ann, ""))
		w.clock.Add(time.Second)
	}
	all[0] = w.refresh("refresh the oldest", all[0].Refresh, "")
	w.phone(ann, "one more")
	w.access("the one refreshed last", all[0].Access, "")
	w.access("the one refreshed least recently", all[1].Access, engine.CodeUnauthenticated)
	w.access("the one after it", all[2].Access, "")
	if list, err := w.ListDevices(ctx, engine.Read{}, ann.ID); err != nil || len(list) != auth.MaxDevices {
		t.Errorf("%d devices: %v", len(list), err)
	}
	for name, o := range map[string]auth.Options{"AccessTTL": {AccessTTL: -1}, "RefreshTTL": {RefreshTTL: -1}, "DeviceTTL": {DeviceTTL: -1}} {
		if _, err := auth.New(w.store, o); engine.CodeOf(err) != engine.CodeInvalid || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileTokens: nothing but the very text of a token is one, and garbage is no reuse.
func TestHostileTokens(t *testing.T) {
	t.Parallel()
	w := open(t, auth.Options{})
	ann := w.phone(w.verified("ann@example.com"), "phone")
	bob := w.phone(w.verified("bob@example.com"), "phone")
	for _, text := range []string{
		"", "ska_", "skr_", ann.Access + "a", ann.Access[1:], " " + ann.Access, strings.ToUpper(ann.Access), strings.Repeat("a", 1<<20),
		"ska_\x00", strings.Replace(ann.Access, "ska_", "sk_", 1), strings.Replace(ann.Access, "ska_", "skr_", 1), strings.Replace(ann.Refresh, "skr_", "ska_", 1),
		strings.Replace(ann.Access, ann.Device.ID, bob.Device.ID, 1), strings.Replace(ann.Refresh, ann.Device.ID, bob.Device.ID, 1),
	} {
		w.access(text[:min(len(text), 100)], text, engine.CodeUnauthenticated)
		w.refresh(text[:min(len(text), 100)], text, engine.CodeUnauthenticated)
	}
	for i := range ann.Refresh {
		b := []byte(ann.Refresh)
		if b[i] = 'a'; ann.Refresh[i] == 'a' {
			b[i] = 'b'
		}
		w.refresh(fmt.Sprintf("another letter at %d", i), string(b), engine.CodeUnauthenticated)
	}
	for _, tokens := range []auth.Tokens{ann, bob} {
		w.access("after all this", tokens.Access, "")
		w.refresh("after all this", tokens.Refresh, "")
	}
	if _, _, err := w.CheckKey(t.Context(), engine.Read{}, ann.Access); !errors.Is(err, engine.ErrUnauthenticated) {
		t.Errorf("an access token as an API key: %v", err)
	}
	if devices, err := w.ListDevices(t.Context(), engine.Read{}, "nobody"); err != nil || !slices.Equal(devices, nil) {
		t.Errorf("%+v %v", devices, err)
	}
}
