package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/kv"
)

// missingFor is how long to wait before reading a missing or unusable certificate from kv again.
const missingFor = 100 * time.Millisecond

// serve returns the certificate of a site as this node knows it. It reads kv, in memory, at most once per
// Refresh. If the read fails, or the result cannot be used, it returns the previous certificate.
func (m *Manager) serve(ctx context.Context, s *site, now time.Time) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	good := m.o.Refresh
	if s.cert == nil || s.reason != nil {
		good = min(good, missingFor)
	}
	if s.looked.IsZero() || now.Sub(s.looked) >= good {
		s.looked = now
		s.reason = m.load(ctx, s)
	}
	if s.cert == nil {
		return nil, s.reason
	}
	return s.cert, nil
}

// load updates a site's certificate from this node's kv.
func (m *Manager) load(ctx context.Context, s *site) error {
	cert, key, err := m.files(ctx, engine.Read{Level: engine.Local}, s.name)
	if err != nil {
		return err
	}
	if cert.Rev == 0 || key.Rev == 0 {
		return engine.Errorf(engine.CodeNotFound, "there is no certificate for %s yet", s.name)
	}
	if rev := [2]kv.Revision{cert.Rev, key.Rev}; s.cert == nil || s.rev != rev {
		pair, err := tls.X509KeyPair(cert.Val, key.Val)
		if err != nil {
			// Seen briefly between two writes of the leader.
			return engine.Errorf(engine.CodeCorrupt, "the certificate and key of %s do not match: %w", s.name, err)
		}
		s.cert, s.rev = &pair, rev
	}
	return nil
}

// files reads a name's certificate chain and private key from one snapshot. A missing file has no revision.
func (m *Manager) files(ctx context.Context, r engine.Read, name string) (cert, key kv.Entry, err error) {
	issuer := m.issuer.IssuerKey()
	_, err = m.store.View(ctx, r, m.o.Space, func(t *kv.Tx) error {
		for name, e := range map[string]*kv.Entry{
			certmagic.StorageKeys.SiteCert(issuer, name):       &cert,
			certmagic.StorageKeys.SitePrivateKey(issuer, name): &key,
		} {
			got, _, err := t.Get([]byte(filePrefix + name))
			if err != nil {
				return err
			}
			*e = got
			e.Val = bytes.Clone(got.Val)
		}
		return nil
	})
	return cert, key, err
}

// state is the state of a name's certificate in kv.
type state uint8

const (
	missing state = iota
	torn          // files that do not match, or some are missing
	whole
)

func (m *Manager) state(ctx context.Context, name string) (state, error) {
	cert, key, err := m.files(ctx, engine.Read{}, name)
	if err != nil || cert.Rev == 0 && key.Rev == 0 {
		return missing, err
	}
	if _, err := tls.X509KeyPair(cert.Val, key.Val); err != nil {
		return torn, nil //nolint:nilerr // that is the answer
	}
	return whole, nil
}

// mend returns the state of a name's certificate in kv and removes torn files. A node that died between two
// writes leaves torn files, with which certmagic would fail forever, while it orders missing ones anew.
// certmagic stores the files one by one under a lock of the name; files that are torn because of that are left
// alone.
func (m *Manager) mend(ctx context.Context, name string) (s state, removed bool, err error) {
	if s, err = m.state(ctx, name); err != nil || s != torn {
		return s, false, err
	}
	lock := "issue_cert_" + name
	if free, err := m.storage.TryLock(ctx, lock); err != nil || !free {
		return torn, false, err
	}
	defer func() { _ = m.storage.Unlock(context.WithoutCancel(ctx), lock) }() // otherwise its lease expires
	if s, err = m.state(ctx, name); err != nil || s != torn {
		return s, false, err
	}
	if err := m.storage.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(m.issuer.IssuerKey(), name)); err != nil {
		return torn, false, err
	}
	m.o.Logger.Warn("certificate removed: it does not match its key; ordering a new one", "domain", name)
	return missing, true, nil
}
