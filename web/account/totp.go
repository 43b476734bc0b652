package account

import (
	"bytes"
	"encoding/base64"
	"html/template"
	"image/png"
	"net/http"

	"github.com/pquerna/otp"

	"github.com/skerrydb/skerry/auth"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web"
)

// qrPixels is the width of a QR code.
const qrPixels = 240

// secondFactor describes the second factor in JSON responses.
type secondFactor struct {
	On   bool `json:"on"`
	Left int  `json:"recovery_codes"`
}

func (a *Account) totpPage(c *web.Context, u auth.User) error {
	s, err := a.factorOf(c, u)
	if err != nil {
		return err
	}
	return a.show(c, http.StatusOK, "totp", web.Locals{"me": meOf(u), "left": s.Left}, s)
}

func (a *Account) factorOf(c *web.Context, u auth.User) (s secondFactor, err error) {
	if s.On = u.TOTP; s.On {
		s.Left, err = a.users.RecoveryCodesLeft(c, engine.Read{Level: engine.Local}, u.ID)
	}
	return s, err
}

// refuseFactor shows the page of the second factor with the error.
func (a *Account) refuseFactor(c *web.Context, u auth.User, err error) error {
	s, other := a.factorOf(c, u)
	if other != nil {
		return other
	}
	return a.refuse(c, "totp", web.Locals{"me": meOf(u), "left": s.Left}, err)
}

// enrol creates a secret and shows it for an app to scan.
func (a *Account) enrol(c *web.Context, u auth.User) error {
	var in struct {
		Password string `json:"password,omitempty"`
	}
	err := c.Bind(&in)
	if err == nil {
		err = a.sure(c, u, in.Password)
	}
	var e auth.Enrolment
	if err == nil {
		e, err = a.users.EnrolTOTP(c, u.ID)
	}
	if err != nil {
		return a.refuseFactor(c, u, err)
	}
	locals := web.Locals{"secret": e.Secret, "qr": template.URL("")}
	if !c.IsJSON() {
		if locals["qr"], err = qr(e.URL); err != nil {
			return err
		}
	}
	return a.show(c, http.StatusOK, "enrol", locals, struct {
		Secret string `json:"secret"`
		URL    string `json:"url"`
	}{e.Secret, e.URL})
}

// qr returns a QR code as a data URL.
func qr(address string) (template.URL, error) {
	key, err := otp.NewKeyFromURL(address)
	if err != nil {
		return "", engine.Errorf(engine.CodeInternal, "account: %w", err)
	}
	img, err := key.Image(qrPixels, qrPixels)
	if err != nil {
		return "", engine.Errorf(engine.CodeInternal, "account: draw a QR code: %w", err)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return "", engine.Errorf(engine.CodeInternal, "account: draw a QR code: %w", err)
	}
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())), nil //nolint:gosec // made here
}

// code reads the form with one code.
func code(c *web.Context) (string, error) {
	var in struct {
		Code string `json:"code"`
	}
	err := c.Bind(&in)
	return in.Code, err
}

// recoveryCodes are shown once.
type recoveryCodes struct {
	Codes []string `json:"recovery_codes"`
}

func (a *Account) confirm(c *web.Context, u auth.User) error {
	text, err := code(c)
	if err != nil {
		return a.refuse(c, "enrol", web.Locals{"secret": "", "qr": template.URL("")}, err)
	}
	// Before creating the codes: a later failure would hide them.
	rotate(c)
	if err := c.SaveSession(); err != nil {
		return err
	}
	codes, err := a.users.ConfirmTOTP(c, u.ID, text)
	a.happened(c, Event{Kind: TurnedFactorOn, User: u, Err: err})
	if err != nil {
		return a.refuse(c, "enrol", web.Locals{"secret": "", "qr": template.URL("")}, err)
	}
	a.notify(c, FactorOn, u.Email, u)
	return a.show(c, http.StatusOK, "recovery", web.Locals{"codes": codes}, recoveryCodes{codes})
}

func (a *Account) disable(c *web.Context, u auth.User) error {
	text, err := code(c)
	if err == nil {
		err = a.users.DisableTOTP(c, u.ID, text)
		a.happened(c, Event{Kind: TurnedFactorOff, User: u, Recovery: err == nil && !ofApp(text), Err: err})
	}
	if err != nil {
		return a.refuseFactor(c, u, err)
	}
	rotate(c)
	a.notify(c, FactorOff, u.Email, u)
	return a.done(c, a.to("/totp", "totp-off"), http.StatusNoContent, nil)
}

// codes replaces the recovery codes.
func (a *Account) codes(c *web.Context, u auth.User) error {
	text, err := code(c)
	var codes []string
	if err == nil {
		codes, err = a.users.NewRecoveryCodes(c, u.ID, text)
		a.happened(c, Event{Kind: MadeRecoveryCode, User: u, Recovery: err == nil && !ofApp(text), Err: err})
	}
	if err != nil {
		return a.refuseFactor(c, u, err)
	}
	return a.show(c, http.StatusOK, "recovery", web.Locals{"codes": codes}, recoveryCodes{codes})
}
