package auth

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"time"
)

// The layout of auth's kv space: do not change, data on disk depends on it. DESIGN.md has it as a table.
const (
	keyUser      = 'u' // 'u' id                             → user
	keyEmail     = 'e' // 'e' folded address                 → id
	keyToken     = 't' // 't' sha256(token)                  → token
	keyTokenOf   = 'T' // 'T' id kind expires(8) sha256      → nothing
	keyTOTP      = 'm' // 'm' id                             → second factor
	keyAPI       = 'k' // 'k' key id                         → API key
	keyAPIOf     = 'K' // 'K' id key id                      → nothing
	keyDevice    = 'd' // 'd' device id                      → device
	keyDeviceOf  = 'D' // 'D' id device id                   → nothing
	keyIdentity  = 'o' // 'o' sha256(issuer, subject)        → id
	keyIdentOf   = 'O' // 'O' id sha256(issuer, subject)     → identity
	keyRateLimit = 'r' // 'r' action sha256(subject)[:16]    → count
)

// base32Lower encodes ids and API keys: letters and digits that need no escaping anywhere and survive
// conversion to lower case.
var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const (
	idRawBytes = 16
	idBytes    = 26 // of a user's id as text
)

func newKey(kind byte, parts ...string) []byte {
	return []byte(string(kind) + strings.Join(parts, ""))
}

func userKey(id string) []byte    { return newKey(keyUser, id) }
func emailKey(fold string) []byte { return newKey(keyEmail, fold) }
func totpKey(id string) []byte    { return newKey(keyTOTP, id) }

func tokenKey(sum [sha256.Size]byte) []byte { return newKey(keyToken, string(sum[:])) }

func tokenOfKey(user string, kind Purpose, expires time.Time, sum [sha256.Size]byte) []byte {
	b := append(newKey(keyTokenOf, user), byte(kind))
	b = binary.BigEndian.AppendUint64(b, uint64(expires.UnixMilli()))
	return append(b, sum[:]...)
}

func apiKey(key string) []byte         { return newKey(keyAPI, key) }
func apiOfKey(user, key string) []byte { return newKey(keyAPIOf, user, key) }

func deviceKey(device string) []byte         { return newKey(keyDevice, device) }
func deviceOfKey(user, device string) []byte { return newKey(keyDeviceOf, user, device) }

func identityKey(sum string) []byte         { return newKey(keyIdentity, sum) }
func identityOfKey(user, sum string) []byte { return newKey(keyIdentOf, user, sum) }

// identitySum returns the hash of an identity. It is unambiguous about where issuer ends and subject begins.
func identitySum(issuer, subject string) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(issuer))))
	h.Write([]byte(issuer))
	h.Write([]byte(subject))
	return string(h.Sum(nil))
}

func limitKey(action byte, subject string) []byte {
	sum := sha256.Sum256([]byte(subject))
	return append([]byte{keyRateLimit, action}, sum[:16]...)
}
