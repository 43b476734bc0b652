package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/skerrydb/skerry/engine"
)

const minSecretBytes = 32

// sealInfo separates the derived key from keys for other uses; do not change.
const sealInfo = "skerry auth: second factors, 1"

// sealer encrypts secrets that must be readable again.
type sealer struct {
	aead cipher.AEAD
	rand io.Reader
}

func newSealer(secret []byte, rand io.Reader) (*sealer, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, sealInfo, 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("set up AES: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("set up GCM: %w", err)
	}
	return &sealer{aead, rand}, nil
}

// seal returns nonce and ciphertext, which can be opened only for the same owner.
func (s *sealer) seal(plain []byte, owner string) ([]byte, error) {
	nonce := make([]byte, s.aead.NonceSize())
	if _, err := io.ReadFull(s.rand, nonce); err != nil {
		return nil, fmt.Errorf("read random bytes: %w", err)
	}
	return s.aead.Seal(nonce, nonce, plain, []byte(owner)), nil
}

func (s *sealer) open(sealed []byte, owner string) ([]byte, error) {
	if s == nil {
		return nil, engine.Errorf(engine.CodeInternal, "the second factor is sealed and Options.Secret is not set")
	}
	n := s.aead.NonceSize()
	if len(sealed) < n {
		return nil, engine.Errorf(engine.CodeCorrupt, "read second factor: %d bytes are too few", len(sealed))
	}
	plain, err := s.aead.Open(nil, sealed[:n], sealed[n:], []byte(owner))
	if err != nil {
		return nil, engine.Errorf(engine.CodeInternal, "the second factor was sealed with another Options.Secret, or is damaged")
	}
	return plain, nil
}
