package auth

import (
	"errors"
	"time"

	"github.com/skerrydb/skerry/engine"
)

// Codes that only auth returns. They are part of the public API, like the engine's.
const (
	CodeAccountDisabled    engine.Code = "account_disabled"
	CodeCodeWrong          engine.Code = "code_wrong"
	CodeEmailTaken         engine.Code = "email_taken"
	CodeEmailUnverified    engine.Code = "email_unverified"
	CodeIdentityConflict   engine.Code = "identity_conflict"
	CodeIdentityUnverified engine.Code = "identity_unverified"
	CodePasswordRefused    engine.Code = "password_refused"
	CodeRateLimited        engine.Code = "rate_limited" // web/problem's too, whose Catalog has it
	CodeSecondFactor       engine.Code = "second_factor_required"
	CodeTokenExpired       engine.Code = "token_expired"
	CodeTokenInvalid       engine.Code = "token_invalid"
	CodeTokenReused        engine.Code = "token_reused"
	CodeWrongCredentials   engine.Code = "wrong_credentials"
)

// Catalog returns auth's codes, sorted, except CodeRateLimited: any face can return it, so it is in the
// catalog of package web/problem.
func Catalog() []engine.Meaning {
	return []engine.Meaning{
		{Code: CodeAccountDisabled, Kind: engine.KindForbidden, Text: "the account is disabled"},
		{Code: CodeCodeWrong, Kind: engine.KindCredentials, Text: "the code is wrong, out of date or was used before"},
		{Code: CodeEmailTaken, Kind: engine.KindConflict, Text: "another account has the email address"},
		{Code: CodeEmailUnverified, Kind: engine.KindForbidden, Text: "the email address must be verified before the first login"},
		{Code: CodeIdentityConflict, Kind: engine.KindConflict, Text: "the identity, or its email address, belongs to another account"},
		{Code: CodeIdentityUnverified, Kind: engine.KindForbidden, Text: "the provider does not vouch for the identity's email address"},
		{Code: CodePasswordRefused, Kind: engine.KindRefused, Text: "the new password is too short, too long, too common or like the email address"},
		{Code: CodeSecondFactor, Kind: engine.KindCredentials, Text: "the password is right and a second factor is needed"},
		{Code: CodeTokenExpired, Kind: engine.KindCredentials, Text: "the access token has expired: refresh it"},
		{Code: CodeTokenInvalid, Kind: engine.KindInvalid, Text: "the token is unknown, expired, of another kind or was used before"},
		{Code: CodeTokenReused, Kind: engine.KindCredentials, Text: "the refresh token was used before: the device is logged out"},
		{Code: CodeWrongCredentials, Kind: engine.KindCredentials, Text: "the email address or the password is wrong"},
	}
}

// Sentinel errors for errors.Is. Methods also return them when there is nothing to add.
var (
	ErrAccountDisabled    = &engine.Error{Code: CodeAccountDisabled, Msg: "this account is disabled"}
	ErrCodeWrong          = &engine.Error{Code: CodeCodeWrong, Msg: "the code is wrong, expired or already used; wait for the next one"}
	ErrEmailTaken         = &engine.Error{Code: CodeEmailTaken, Msg: "another account has this email address"}
	ErrEmailUnverified    = &engine.Error{Code: CodeEmailUnverified, Msg: "the email address is not verified yet; open the link in the confirmation email"}
	ErrIdentityConflict   = &engine.Error{Code: CodeIdentityConflict, Msg: "an account with this email address exists; log in to it and link the identity there"}
	ErrIdentityUnverified = &engine.Error{Code: CodeIdentityUnverified, Msg: "the provider has not verified the email address; verify it there first"}
	ErrPasswordRefused    = &engine.Error{Code: CodePasswordRefused, Msg: "the password is refused"}
	ErrRateLimited        = &engine.Error{Code: CodeRateLimited, Msg: "too many attempts"}
	ErrSecondFactor       = &engine.Error{Code: CodeSecondFactor, Msg: "a code of the second factor is needed"}
	ErrTokenExpired       = &engine.Error{Code: CodeTokenExpired, Msg: "the access token has expired; refresh it"}
	ErrTokenInvalid       = &engine.Error{Code: CodeTokenInvalid, Msg: "the link is invalid, has expired or was already used; request a new one"}
	ErrTokenReused        = &engine.Error{Code: CodeTokenReused, Msg: "the refresh token was used before, so somebody may have copied it; the device is logged out"}
	ErrWrongCredentials   = &engine.Error{Code: CodeWrongCredentials, Msg: "the email address or the password is wrong"}
)

// RateLimited is the error of an attempt over a limit. It matches ErrRateLimited.
type RateLimited struct {
	After time.Duration // when to try again, at least a second, whole seconds
	err   *engine.Error
}

func limited(after time.Duration) *RateLimited {
	after = max((after + time.Second - 1).Truncate(time.Second), time.Second)
	return &RateLimited{After: after, err: engine.Errorf(CodeRateLimited, "too many attempts; try again in %v", after)}
}

// Error returns the text of the error with its code.
func (e *RateLimited) Error() string { return e.err.Error() }

// Unwrap returns the error with the code.
func (e *RateLimited) Unwrap() error { return e.err }

// RetryAfter returns After. Faces use it without knowing this package.
func (e *RateLimited) RetryAfter() time.Duration { return e.After }

// RetryAfter returns how long to wait before the next attempt, if err is a RateLimited.
func RetryAfter(err error) (time.Duration, bool) {
	e, ok := errors.AsType[*RateLimited](err)
	if !ok {
		return 0, false
	}
	return e.After, true
}

// SecondFactor is the error of a login whose first factor was right and that needs a second one. It matches
// ErrSecondFactor. The user is not logged in yet.
type SecondFactor struct {
	Ticket string // for LoginTOTP and LoginRecovery; valid for 5 minutes; secret
	User   string // id of the user who must enter the code
}

// Error returns the text of the error with its code.
func (e *SecondFactor) Error() string { return ErrSecondFactor.Error() }

// Unwrap returns the error with the code.
func (e *SecondFactor) Unwrap() error { return ErrSecondFactor }

// Ticket returns the ticket of a login that needs a second factor, if err is a SecondFactor.
func Ticket(err error) (string, bool) {
	e, ok := errors.AsType[*SecondFactor](err)
	if !ok {
		return "", false
	}
	return e.Ticket, true
}
