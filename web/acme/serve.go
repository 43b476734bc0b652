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

// missingFor is how soon kv is asked again for a certificate that was not there
// or could not be used.
const missingFor = 100 * time.Millisecond

// serve returns the certificate of a site as this node knows it. A read of kv
// here is one of memory, at most once in every Refresh; when it fails, or what it
// finds cannot be used, the certificate that was served before still is.
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

// load brings a site's certificate up to what this node's kv has.
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
			// Seen between two writes of the node that leads, if not for long.
			return engine.Errorf(engine.CodeCorrupt, "the certificate and key of %s do not match: %w", s.name, err)
		}
		s.cert, s.rev = &pair, rev
	}
	return nil
}

// files reads a name's certificate chain and private key, of one moment. A file
// that is not there has no revision.
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

// state is what kv has of a name's certificate.
type state uint8

const (
	missing state = iota
	torn          // files that do not belong together, or not all of them
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

// mend returns what kv has of a name's certificate, without what is torn: a node
// that died between two writes leaves such files, with which certmagic would refuse
// to go on, while it orders anew what is not there. It stores them one by one
// itself, under a lock of the name: what is torn meanwhile is left alone.
func (m *Manager) mend(ctx context.Context, name string) (s state, removed bool, err error) {
	if s, err = m.state(ctx, name); err != nil || s != torn {
		return s, false, err
	}
	lock := "issue_cert_" + name
	if free, err := m.storage.TryLock(ctx, lock); err != nil || !free {
		return torn, false, err
	}
	defer func() { _ = m.storage.Unlock(context.WithoutCancel(ctx), lock) }() // or its lease ends it
	if s, err = m.state(ctx, name); err != nil || s != torn {
		return s, false, err
	}
	if err := m.storage.Delete(ctx, certmagic.StorageKeys.CertsSitePrefix(m.issuer.IssuerKey(), name)); err != nil {
		return torn, false, err
	}
	m.o.Logger.Warn("certificate removed: it does not match its key; ordering a new one", "domain", name)
	return missing, true, nil
}
