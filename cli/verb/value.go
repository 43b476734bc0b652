package verb

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry"
)

// The functions here make the Set of a setting: they parse one value or return an error.

func Text(p *string) func(string) error {
	return func(v string) error {
		if v == "" {
			return errors.New("must not be empty")
		}
		*p = v
		return nil
	}
}

func Toggle(p *bool) func(string) error {
	return func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		*p = b
		return nil
	}
}

func Choice(p *string, of ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(of, v) {
			return fmt.Errorf("%q is not one of %s", v, strings.Join(of, ", "))
		}
		*p = v
		return nil
	}
}

// List parses words separated by commas.
func List(p *[]string) func(string) error {
	return func(v string) error {
		*p = nil
		for word := range strings.SplitSeq(v, ",") {
			if word = strings.TrimSpace(word); word == "" {
				return fmt.Errorf("%q has an empty element", v)
			}
			*p = append(*p, word)
		}
		return nil
	}
}

// Several parses names separated by commas.
func Several(p *[]string, of ...string) func(string) error {
	return func(v string) error {
		if err := List(p)(v); err != nil {
			return err
		}
		for i := range *p {
			if err := Choice(&(*p)[i], of...)((*p)[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

func Whole(p *int, lo, hi int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < lo || n > hi {
			return fmt.Errorf("%q is not a whole number from %d to %d", v, lo, hi)
		}
		*p = n
		return nil
	}
}

func Seed(p *uint64) func(string) error {
	return func(v string) error {
		n, err := strconv.ParseUint(v, 0, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number from 0 to %d", v, uint64(math.MaxUint64))
		}
		*p = n
		return nil
	}
}

func Duration(p *time.Duration, lo, hi time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < lo || d > hi {
			return fmt.Errorf("%q is not a duration from %v to %v, like 90s or 5m", v, lo, hi)
		}
		*p = d
		return nil
	}
}

// units of sizes, longest first. Powers of 1024 with an i, of 1000 without.
var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

func Size(p *int64, lo int64) func(string) error {
	return func(v string) error {
		for _, u := range units {
			digits, ok := strings.CutSuffix(v, u.name)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
				break
			}
			if n *= u.bytes; n < lo {
				return fmt.Errorf("%q is less than %s", v, FormatSize(lo))
			}
			*p = n
			return nil
		}
		return fmt.Errorf("%q is not a size like 512MiB or 4GiB", v)
	}
}

// FormatSize formats a size in the syntax that settings accept, rounded down to a tenth.
func FormatSize(n int64) string {
	for _, u := range slices.Backward(units[:4]) {
		if n >= u.bytes {
			s := strconv.FormatFloat(math.Floor(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64)
			return s + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Off is the address that turns a face off.
const Off = skerry.Off

func Address(p *string) func(string) error {
	return func(v string) error {
		if v == Off {
			*p = v
			return nil
		}
		_, port, err := net.SplitHostPort(v)
		if err != nil {
			return fmt.Errorf("%q is not HOST:PORT or %s", v, Off)
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > math.MaxUint16 {
			return fmt.Errorf("%q: the port must be a number from 0 to %d", v, math.MaxUint16)
		}
		*p = v
		return nil
	}
}

// Public reports whether other machines can reach an address. Names other than localhost count as public,
// because they may change their meaning.
func Public(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if addr == Off || err != nil || host == "localhost" {
		return false
	}
	ip := net.ParseIP(host)
	return ip == nil || !ip.IsLoopback()
}
