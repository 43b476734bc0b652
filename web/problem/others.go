package problem

import (
	"net/http"

	"github.com/skerrydb/skerry/engine"
)

// others are the codes of packages above the engine, as their own catalogs have them.
// They stand here once more so that a program does not contain all those packages
// because its errors are told over HTTP; a test holds them against the catalogs.
// auth's rate_limited is in this package's Catalog, and not in auth's.
func others() []Outcome {
	return []Outcome{
		// auth
		{engine.Meaning{Code: "account_disabled", Text: "the account is disabled"}, http.StatusForbidden},
		{engine.Meaning{Code: "code_wrong", Text: "the code is wrong, out of date or was used before"}, http.StatusUnauthorized},
		{engine.Meaning{Code: "email_taken", Text: "another account has the email address"}, http.StatusConflict},
		{engine.Meaning{Code: "email_unverified", Text: "the email address has to be verified before the first login"}, http.StatusForbidden},
		{engine.Meaning{Code: "identity_conflict", Text: "the identity, or its email address, belongs to another account"}, http.StatusConflict},
		{engine.Meaning{Code: "identity_unverified", Text: "the provider does not vouch for the identity's email address"}, http.StatusForbidden},
		{engine.Meaning{Code: "password_refused", Text: "the new password is too short, too long, too common or like the email address"}, http.StatusUnprocessableEntity},
		{engine.Meaning{Code: "second_factor_required", Text: "the password is right and a second factor is needed"}, http.StatusUnauthorized},
		{engine.Meaning{Code: "token_invalid", Text: "the token is unknown, expired, of another kind or was used before"}, http.StatusBadRequest},
		{engine.Meaning{Code: "wrong_credentials", Text: "the email address or the password is wrong"}, http.StatusUnauthorized},
		// auth/oidc
		{engine.Meaning{Code: "flow_invalid", Text: "the provider's answer does not belong to the login that this browser began; begin again"}, http.StatusBadRequest},
		{engine.Meaning{Code: "provider_failed", Retryable: true, Text: "the login provider could not be reached, refused, or gave an answer that is not valid"}, http.StatusBadGateway},
		// mail
		{engine.Meaning{Code: "mail_refused", Text: "the mail server refused the message or a recipient for good"}, http.StatusBadGateway},
		{engine.Meaning{Code: "mail_unavailable", Retryable: true, Text: "the mail server cannot be reached or does not take mail at the moment"}, http.StatusServiceUnavailable},
		// session
		{engine.Meaning{Code: "no_session", Text: "there is no such session: it has ended, was revoked or rotated, or never was; nothing was written"}, http.StatusUnauthorized},
		{engine.Meaning{Code: "session_value_type", Text: "a value in the session does not have the type that the program asks for"}, http.StatusInternalServerError},
		// web/view
		{engine.Meaning{Code: "view_broken", Text: "a template does not parse; the log names file and line"}, http.StatusInternalServerError},
		{engine.Meaning{Code: "view_failed", Text: "a template failed while it was rendered; the log names file and line"}, http.StatusInternalServerError},
		{engine.Meaning{Code: "view_missing", Text: "the program has no view of that name"}, http.StatusInternalServerError},
		{engine.Meaning{Code: "view_too_large", Text: "a rendered page is longer than a page may be"}, http.StatusInternalServerError},
	}
}
