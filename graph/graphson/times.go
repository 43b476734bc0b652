package graphson

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/skerrydb/skerry/graph/message"
	"github.com/skerrydb/skerry/graph/value"
)

// appendTime appends a time in ISO 8601, as Java does: years that do not have four
// digits have a sign.
func appendTime(b []byte, t time.Time) []byte {
	switch y := t.Year(); {
	case y > 9999:
		b = fmt.Appendf(b, "+%d", y)
	case y < 0:
		b = fmt.Appendf(b, "-%04d", -y)
	default:
		b = fmt.Appendf(b, "%04d", y)
	}
	if _, zone := t.Zone(); zone%60 != 0 {
		return t.AppendFormat(b, "-01-02T15:04:05.999999999Z07:00:00")
	}
	return t.AppendFormat(b, "-01-02T15:04:05.999999999Z07:00")
}

// parseTime reads what appendTime writes, and other forms of dates with years of
// four digits.
func parseTime(text string) (time.Time, error) {
	if text == "" || text[0] != '+' && text[0] != '-' {
		return value.ParseDate(text)
	}
	end := strings.IndexByte(text[1:], '-') + 1
	year, err := strconv.Atoi(text[:max(end, 0)])
	if err != nil || year > message.MaxYear || year < -message.MaxYear {
		return time.Time{}, fmt.Errorf("there is no year from %d to %d", -message.MaxYear, message.MaxYear)
	}
	// the calendar is the same every 400 years
	t, err := value.ParseDate(strconv.Itoa(2400+year%400) + text[end:])
	if err != nil {
		return t, err
	}
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location()), nil
}

// parseDuration reads a duration of ISO 8601 in days, hours, minutes and seconds,
// as Java's Duration.parse does.
func parseDuration(text string) (value.Duration, bool) {
	sign := int64(1)
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = -1, rest
	}
	text, ok := strings.CutPrefix(strings.TrimPrefix(text, "+"), "P")
	date, clock, timed := strings.Cut(text, "T")
	if !ok || text == "" || timed && clock == "" {
		return value.Duration{}, false
	}
	var d value.Duration
	if !addUnits(&d, sign, date, "D", []int64{86400}) || !addUnits(&d, sign, clock, "HMS", []int64{3600, 60, 1}) {
		return value.Duration{}, false
	}
	return d, true
}

// addUnits adds numbers that are followed by units, which stand in their order.
func addUnits(d *value.Duration, sign int64, text, units string, seconds []int64) bool {
	for text != "" {
		i := strings.IndexAny(text, "DHMS")
		if i < 0 {
			return false
		}
		unit := strings.IndexByte(units, text[i])
		if unit < 0 {
			return false
		}
		whole, fraction, point := strings.Cut(text[:i], ".")
		n, err := strconv.ParseInt(whole, 10, 64)
		if err != nil || point && (text[i] != 'S' || len(fraction) > 9) {
			return false
		}
		nanos := int64(0)
		if fraction != "" {
			if nanos, err = strconv.ParseInt(fraction+strings.Repeat("0", 9-len(fraction)), 10, 64); err != nil || nanos < 0 {
				return false
			}
		}
		if strings.HasPrefix(whole, "-") {
			nanos = -nanos
		}
		if !add(d, n, seconds[unit]*sign, nanos*sign) {
			return false
		}
		text, units, seconds = text[i+1:], units[unit+1:], seconds[unit+1:]
	}
	return true
}

// add adds n units of some seconds, and nanoseconds of less than a second. It
// reports false if there is no such duration.
func add(d *value.Duration, n, seconds, nanos int64) bool {
	limit := (math.MaxInt64 - 1) / max(seconds, -seconds)
	if n > limit || n < -limit {
		return false
	}
	s, extra := n*seconds, int64(d.Nanos)+nanos
	if extra < 0 {
		extra, s = extra+1e9, s-1
	} else if extra >= 1e9 {
		extra, s = extra-1e9, s+1
	}
	if sum := d.Seconds + s; (s > 0) == (sum > d.Seconds) || s == 0 {
		d.Seconds, d.Nanos = sum, int32(extra)
		return true
	}
	return false
}
