package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/skerrydb/skerry"
	"github.com/skerrydb/skerry/cli/serve"
	"github.com/skerrydb/skerry/cli/verb"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/problem"
)

// defaultURL is the default address of a server's keys and procedures.
func defaultURL(app verb.App) string {
	if app.Web != nil {
		return "http://" + skerry.DefaultAdmin
	}
	return "http://" + skerry.DefaultHTTP
}

// maxAnswer bounds the bytes of a response that is read as a whole, and maxRefusal those of an error response.
const (
	maxAnswer  = 64 << 20
	maxRefusal = 64 << 10
)

// remote is a running server that a verb talks to over HTTP.
type remote struct {
	url          string
	passwordFile string
	caFile       string
	password     string       // from passwordFile, after check
	client       *http.Client // trusts the certificates of caFile, after check
	flag         string       // the flag of url, after check
}

func urlSetting(p *string, def string) verb.Setting {
	return verb.Setting{Name: "url", Arg: "URL", Default: def, Help: "HTTP address of a running server; the admin address if it serves a web application", Set: verb.Text(p)}
}

// accessSettings are the settings for authentication to the server and for trusting it.
func (r *remote) accessSettings() []verb.Setting {
	return []verb.Setting{
		{Name: "password-file", Arg: "FILE", Help: "file with the server's password", Server: true, Set: verb.Text(&r.passwordFile)},
		{Name: "ca", Arg: "FILE", Help: "CA certificates (PEM) to trust for https:// (default those of this machine)", Set: verb.Text(&r.caFile)},
	}
}

// check validates the settings and reads the password. flag is the flag of url, which may be empty.
func (r *remote) check(flag string) (err error) {
	r.flag, r.client = flag, http.DefaultClient
	var where, trust error
	if u, err := url.Parse(r.url); r.url != "" && (err != nil || u.Host == "" || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https") {
		where = fmt.Errorf("--%s: %q is not a URL like http://%s", flag, r.url, skerry.DefaultHTTP)
	}
	if r.passwordFile != "" {
		r.password, err = serve.ReadPassword(r.passwordFile)
	}
	if r.caFile != "" {
		r.client, trust = trusting(r.caFile)
	}
	return verb.Mistakes(where, err, trust)
}

// trusting returns a client for servers whose certificate comes from an authority in file.
func trusting(file string) (*http.Client, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca: %s has no certificate (PEM)", file)
	}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
	}}, nil
}

// ask sends one request and returns the response, whose body the caller closes. A status other than 200 and
// 201 is an error, a *refusal if it came from Skerry.
func (r *remote) ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for name, vals := range header {
		req.Header[name] = vals
	}
	if r.password != "" {
		req.Header.Set("Authorization", "Bearer "+r.password)
	}
	resp, err := r.client.Do(req)
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return nil, fmt.Errorf("%w; --ca FILE sets the CA to trust", err)
	}
	if at, ok := errors.AsType[*net.OpError](err); ok && at.Op == "dial" {
		return nil, fmt.Errorf("no server responds at %s://%s: %w; --%s sets the address", req.URL.Scheme, req.URL.Host, errors.Unwrap(err), r.flag)
	}
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusCreated {
		return resp, nil
	}
	defer resp.Body.Close()
	why, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // best effort
	no := &refusal{}
	if json.Unmarshal(why, &no.Problem) != nil || no.Code == "" {
		const most = 1 << 10
		text := bytes.TrimSpace(why[:min(len(why), most)])
		if isPage(resp.Header) {
			text = []byte("a page")
		}
		if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) { // Go's servers say so
			return nil, fmt.Errorf("%s accepts HTTPS only: use --%s https://%s", req.URL.Host, r.flag, req.URL.Host)
		}
		return nil, fmt.Errorf("%s responded with %s: %s%s", req.URL.Redacted(), resp.Status, text, elsewhere(resp.StatusCode))
	}
	if no.Code == problem.CodeNoRoute { // not the face that the verb expects
		return nil, fmt.Errorf("%w%s", no, elsewhere(resp.StatusCode))
	}
	return nil, no
}

// elsewhere returns a hint to the admin address if an address is a web application's.
func elsewhere(status int) string {
	if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
		return ""
	}
	return fmt.Sprintf("; if this is a web application, use the server's admin address (default http://%s)", skerry.DefaultAdmin)
}

func isPage(h http.Header) bool { return strings.HasPrefix(h.Get("Content-Type"), "text/html") }

// sent reports whether a request that failed with err, which is not a refusal, may have reached the server. It
// has not if there was no server, or the wrong one.
func sent(err error) bool {
	if _, ok := errors.AsType[*url.Error](err); !ok {
		return false // never a request, or there is a response
	}
	at, ok := errors.AsType[*net.OpError](err)
	dialled := !ok || at.Op != "dial"
	return dialled && !errors.As(err, new(*tls.CertificateVerificationError)) && !errors.As(err, new(tls.RecordHeaderError))
}

// askJSON reads the response to a GET into v.
func (r *remote) askJSON(ctx context.Context, path string, v any) error {
	resp, err := r.ask(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read %s%s: %w", r.url, path, err)
	case len(b) > maxAnswer:
		return fmt.Errorf("%s%s is larger than %s", r.url, path, verb.FormatSize(maxAnswer))
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s%s is not a response of a Skerry server: %w", r.url, path, err)
	}
	return nil
}

// refusal is an error response of a server.
type refusal struct{ problem.Problem }

// Error returns the text and the code, in the format of errors on this machine.
func (no *refusal) Error() string {
	hint := ""
	if no.Code == engine.CodeUnauthenticated {
		hint = "; set the server's password with --password-file"
	}
	return fmt.Sprintf("%s [%s]%s", cmp.Or(no.Detail, no.Title), no.Code, hint)
}

// arguments reports whether the server refused the arguments of the command line.
func (no *refusal) arguments() bool {
	at := func(f problem.Fault) bool { return f.Pointer != "" || f.Header != "" }
	return no.Code == engine.CodeUnknownProcedure || slices.ContainsFunc(no.Errors, at)
}

// sendJSON sends what as JSON and reads the JSON of the response into a pointer.
func (r *remote) sendJSON(ctx context.Context, method, path string, what, into any) error {
	body, err := json.Marshal(what)
	if err != nil {
		return err
	}
	resp, err := r.ask(ctx, method, path, http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(into); err != nil {
		return fmt.Errorf("the server carried out the request, but reading its response failed: %w", err)
	}
	return nil
}
