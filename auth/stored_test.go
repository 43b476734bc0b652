package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/engine"
)

var at = time.Date(2026, 11, 21, 10, 0, 0, 123456000, time.UTC)

const (
	userID = "abcdefghijklmnopqrstuvwxyz"
	phc    = "$argon2id$v=19$m=64,t=1,p=1$AAECAwQFBgcICQoLDA0ODw$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
)

func sumOf(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// record is one kind of stored record.
type record struct {
	name   string
	hex    string // what version 1 wrote
	encode func() []byte
	decode func(b []byte) ([]byte, error) // decodes and encodes again
}

func records() []record {
	user := &stored{
		User: User{ID: userID, Email: "Ann@example.com", VerifiedAt: at, Name: "Ann", Created: at, TOTP: true, Password: true, Disabled: true, Roles: []string{"admin", "staff"}, Epoch: 300},
		fold: "ann@example.com", hash: phc, pending: true,
	}
	key := &storedKey{Key{ID: "k", User: userID, Name: "laptop", Scopes: []string{"a", "b:*"}, Created: at, Expires: at.Add(time.Hour)}, sumOf("secret")}
	device := &storedDevice{
		Device: Device{ID: "d", User: userID, Name: "phone", Created: at, Used: at.Add(time.Hour)}, accessUntil: at.Add(time.Hour),
		access: sumOf("access"), family: sumOf("family"), refresh: sumOf("refresh"),
	}
	return []record{
		{
			"user", "01070f416e6e406578616d706c652e636f6dc094f0e3e698980303416e6ec094f0e3e6989803" +
				"5e" + hex.EncodeToString([]byte(phc)) + "ac02020561646d696e057374616666",
			user.encode, func(b []byte) ([]byte, error) {
				u, err := decodeUser(userID, b)
				return u.encode(), err
			},
		},
		{
			"user with a profile", "010803614062" + "00" + "00" + "c094f0e3e6989803" + "00" + "01" + "00" + "02" + "0463697479" + "044f736c6f",
			(&stored{User: User{ID: userID, Email: "a@b", Created: at, Epoch: 1, Profile: map[string]string{"city": "Oslo"}}, fold: "a@b"}).encode,
			func(b []byte) ([]byte, error) {
				u, err := decodeUser(userID, b)
				return u.encode(), err
			},
		},
		{
			"token", "01031a" + hex.EncodeToString([]byte(userID)) + "03614062ac02",
			token{purpose: ToReset, user: userID, email: "a@b", epoch: 300}.encode,
			func(b []byte) ([]byte, error) {
				k, err := decodeToken(b)
				return k.encode(), err
			},
		},
		{
			"API key", "011a" + hex.EncodeToString([]byte(userID)) + "066c6170746f7002016103623a2a" +
				"c094f0e3e6989803c0dcbe98f498980300" + "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
			key.encode, func(b []byte) ([]byte, error) {
				k, err := decodeKey("k", b)
				return k.encode(), err
			},
		},
		{
			"device", "011a" + hex.EncodeToString([]byte(userID)) + "0570686f6e65" + "c094f0e3e6989803" + "c0dcbe98f4989803" + "c0dcbe98f4989803" +
				"a0561fd649cdb6baa784055f051bad796ea0afef17fca38219549deeba4e8c1a" +
				"d34a569ab7aaa54dacd715ae64953455d86b768846cd0085ef4e9e7471489b7b" +
				"d6cc0a088c07683c65cd266860cab8d94b3a1937b17420d9da30ca299c09fb77",
			device.encode, func(b []byte) ([]byte, error) {
				d, err := decodeDevice("d", b)
				return d.encode(), err
			},
		},
		{
			"second factor", "0103027879" + "ac02" + "01" + "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
			(&factor{confirmed: true, sealed: true, secret: []byte("xy"), step: 300, codes: [][sha256.Size]byte{sumOf("secret")}}).encode,
			func(b []byte) ([]byte, error) {
				f, err := decodeFactor(b)
				return f.encode(), err
			},
		},
		{
			"identity", "0102696402737500c094f0e3e6989803",
			Linked{Issuer: "id", Subject: "su", Since: at}.encode, func(b []byte) ([]byte, error) {
				l, err := decodeLinked(b)
				return l.encode(), err
			},
		},
	}
}

// TestRecords: records are those of version 1 and are read back unchanged; anything else is refused with a
// reason.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, r := range records() {
		b := r.encode()
		if got := hex.EncodeToString(b); got != r.hex {
			t.Errorf("%s is stored as\n%s, version 1 wrote\n%s", r.name, got, r.hex)
		}
		again, err := r.decode(b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: read again: %x %v", r.name, again, err)
		}
		for n := range b {
			if _, err := r.decode(b[:n]); engine.CodeOf(err) != engine.CodeCorrupt {
				t.Errorf("%s cut off after %d bytes: %v", r.name, n, err)
			}
		}
		if _, err := r.decode(append(bytes.Clone(b), 0)); engine.CodeOf(err) != engine.CodeCorrupt {
			t.Errorf("%s with a byte behind: %v", r.name, err)
		}
		if _, err := r.decode(append([]byte{2}, b[1:]...)); engine.CodeOf(err) != engine.CodeFormatNewer {
			t.Errorf("%s of a newer format: %v", r.name, err)
		}
	}
}

// TestKeysInStore: do not change.
func TestKeysInStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key  []byte
		want string
	}{
		{userKey("id"), "uid"},
		{emailKey("a@b"), "ea@b"},
		{totpKey("id"), "mid"},
		{apiKey("k"), "kk"},
		{apiOfKey("id", "k"), "Kidk"},
		{deviceKey("d"), "dd"},
		{deviceOfKey("id", "d"), "Didd"},
		{identityKey("sum"), "osum"},
		{identityOfKey("id", "sum"), "Oidsum"},
		{identityKey(identitySum("a", "bc")), "o" + hexed("e98bc483cc6af9ccf82bc23e481a128c12818251d9d359a7b560dcabfd7909d6")},
		{limitKey(actLogin, "a@b"), "r\x01" + hexed("7508d8b5018ea640b85269861a101203")},
	} {
		if string(c.key) != c.want {
			t.Errorf("key %q %x, want %q", c.key, c.key, c.want)
		}
	}
	sum := sumOf("secret")
	if got := string(tokenKey(sum)); got != "t"+string(sum[:]) {
		t.Errorf("token: %q", got)
	}
	want := "Tid\x03" + hexed("000001a1fd8c697b") + string(sum[:])
	if got := string(tokenOfKey("id", ToReset, at, sum)); got != want {
		t.Errorf("token of a user: %x, want %x", got, want)
	}
}

func hexed(s string) string {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TestTOTPVectors: those of RFC 6238, appendix B, for SHA-1, of which six digits
// are the last ones.
func TestTOTPVectors(t *testing.T) {
	t.Parallel()
	secret := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for at, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471",
		1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		f := &factor{}
		now := time.Unix(at, 0)
		if ok, err := f.useTOTP(secret, code[2:], now); !ok || err != nil {
			t.Errorf("%d: %s is refused: %v", at, code, err)
		}
		if f.step != uint64(at)/30 {
			t.Errorf("%d: step %d", at, f.step)
		}
		if ok, _ := f.useTOTP(secret, code[2:], now); ok {
			t.Errorf("%d: %s works twice", at, code)
		}
		if ok, _ := (&factor{}).useTOTP(secret, code, now); ok {
			t.Errorf("%d: eight digits work", at)
		}
		for _, d := range []int64{-60, 60} {
			if ok, _ := (&factor{}).useTOTP(secret, code[2:], now.Add(time.Duration(d)*time.Second)); ok && at+d > 0 {
				t.Errorf("%d: %s works %d seconds off", at, code, d)
			}
		}
	}
	if ok, err := (&factor{}).useTOTP(secret, "755224", time.Unix(0, 0)); ok || err != nil { // step 0 is "used" in a new one
		t.Errorf("at 1970: %v %v", ok, err)
	}
}

func TestParseHash(t *testing.T) {
	t.Parallel()
	p, salt, sum, err := parseHash(phc)
	if err != nil || p != (Params{64, 1, 1}) || len(salt) != 16 || len(sum) != 32 || formatHash(p, salt, sum) != phc {
		t.Errorf("%+v %x %x %v", p, salt, sum, err)
	}
	for _, edit := range [][2]string{
		{"argon2id", "argon2i"}, {"v=19", "v=16"}, {"m=64", "m=2097152"}, {"m=64", "m=4"}, {"t=1", "t=0"}, {"t=1", "t=65"},
		{"p=1", "p=0"}, {"p=1$", "p=1,x=1$"}, {"m=64", "m=064"}, {"$AAEC", "$=AEC"}, {"Dw$", "D$"}, {"h8", "h9"}, {"h8", "h8$"}, {phc, ""},
	} {
		if s := strings.Replace(phc, edit[0], edit[1], 1); s != phc {
			if _, _, _, err := parseHash(s); engine.CodeOf(err) != engine.CodeCorrupt {
				t.Errorf("%s: %v", s, err)
			}
		} else {
			t.Errorf("%q is not in it", edit[0])
		}
	}
}

func FuzzRecords(f *testing.F) {
	for _, r := range records() {
		f.Add(r.encode())
	}
	f.Add([]byte("\x01\xbf0\x0200\x14000000000000000000000")) // a purpose of more than a byte
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, r := range records() {
			again, err := r.decode(b)
			code := engine.CodeOf(err)
			if err != nil && code != engine.CodeCorrupt && code != engine.CodeFormatNewer {
				t.Errorf("%s %x: %v", r.name, b, err)
			}
			if err == nil && !bytes.Equal(again, b) {
				t.Errorf("%s: %x is read as %x", r.name, b, again)
			}
		}
	})
}

func FuzzParseHash(f *testing.F) {
	f.Add(phc)
	f.Fuzz(func(t *testing.T, s string) {
		if p, salt, sum, err := parseHash(s); err == nil && formatHash(p, salt, sum) != s {
			t.Errorf("%q is read as %q", s, formatHash(p, salt, sum))
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add(formatKey("sk", "aaaaaaaaaaaaaaaa", make([]byte, 32)))
	f.Add("sk_" + strings.Repeat("a", 76))
	f.Fuzz(func(t *testing.T, s string) {
		id, sum, ok := parseKey("sk", s)
		if !ok {
			return
		}
		secret, err := base32Lower.DecodeString(s[20:72])
		if err != nil || formatKey("sk", id, secret) != s || sha256.Sum256(secret) != sum {
			t.Errorf("%q is read as %q", s, id)
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add(tokenCode.EncodeToString(make([]byte, 32)))
	f.Add(strings.Repeat("_", 43))
	f.Fuzz(func(t *testing.T, s string) {
		if sum, ok := parseToken(s); ok {
			raw, err := tokenCode.DecodeString(s)
			if err != nil || tokenCode.EncodeToString(raw) != s || sha256.Sum256(raw) != sum {
				t.Errorf("%q is read as another one", s)
			}
		}
	})
}

// TestByAction: every limit is counted under its own number.
func TestByAction(t *testing.T) {
	t.Parallel()
	l := Limits{}.withDefaults()
	if n := reflect.TypeOf(l).NumField(); len(l.byAction()) != n {
		t.Errorf("%d limits, %d actions", n, len(l.byAction()))
	}
	for act, limit := range l.byAction() {
		if limit.N <= 0 || limit.Per <= 0 {
			t.Errorf("action %d has the default %+v", act, *limit)
		}
	}
}
