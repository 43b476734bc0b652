package query

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/skerrydb/skerry/record/value"
)

// sum is what an aggregate has seen of one group. Sums are exact, so they do not depend on the order of records.
type sum struct {
	n     int64
	best  value.Value // the least or greatest
	whole big.Int     // of ints and decimals: the sum times 10^scale
	scale int
	float *big.Float // of floats
}

// floatBits is a precision at which sums of any floats are exact: from 2^-1074 to 2^1024, with room for 2^60 of them.
const floatBits = 1074 + 1024 + 60

func (s *sum) add(op AggregateOp, v value.Value) {
	s.n++
	switch op {
	case MinOf, MaxOf:
		if c := value.Compare(v, s.best); s.best.IsNull() || c < 0 == (op == MinOf) && c != 0 {
			s.best = v
		}
	case SumOf, AvgOf:
		if text, ok := v.Decimal(); ok {
			s.addDecimal(text)
			return
		}
		if s.float == nil {
			s.float = new(big.Float).SetPrec(floatBits)
		}
		f, _ := v.Float()
		s.float.Add(s.float, new(big.Float).SetFloat64(f))
	}
}

func (s *sum) addDecimal(text string) {
	scale := value.Scale(text)
	var d big.Int
	d.SetString(strings.Replace(text, ".", "", 1), 10)
	if scale < s.scale {
		d.Mul(&d, power10(s.scale-scale))
	} else if scale > s.scale {
		s.whole.Mul(&s.whole, power10(scale-s.scale))
		s.scale = scale
	}
	s.whole.Add(&s.whole, &d)
}

func power10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}

// value returns what aggregate a is.
func (s *sum) value(a Aggregate) (value.Value, error) {
	switch {
	case a.Op == CountOf:
		return value.OfInt(s.n), nil
	case a.Op == MinOf || a.Op == MaxOf || s.n == 0:
		return s.best, nil
	case s.float != nil:
		return s.floatValue(a)
	}
	whole, scale := &s.whole, s.scale
	if a.Op == AvgOf {
		whole, scale = s.average()
	} else if scale == 0 && a.term.kind == value.Int && whole.IsInt64() {
		return value.OfInt(whole.Int64()), nil
	}
	v, err := value.ParseDecimal(point(whole, scale))
	if err != nil {
		return v, tooLarge(a, err)
	}
	return v, nil
}

func tooLarge(a Aggregate, why error) error {
	return &Error{Code: CodeTooLarge, Member: "aggregate", Text: fmt.Sprintf("%s has no value: %v", a.Name, why)}
}

// floatValue returns the float nearest to the sum or average.
func (s *sum) floatValue(a Aggregate) (value.Value, error) {
	exact, _ := s.float.Rat(nil)
	if exact == nil {
		exact = new(big.Rat)
	}
	if a.Op == AvgOf {
		exact.Quo(exact, new(big.Rat).SetInt64(s.n))
	}
	f, _ := exact.Float64()
	v, err := value.OfFloat(f)
	if err != nil {
		return v, tooLarge(a, fmt.Errorf("the value is too large for a float"))
	}
	return v, nil
}

// average returns the sum divided by the number of values, times 10^scale, rounded half away from zero. It has at most
// AvgDigits digits after the point, and fewer if there would be more than value.MaxDecimalDigits altogether.
func (s *sum) average() (whole *big.Int, scale int) {
	for scale = AvgDigits; ; scale-- {
		// |sum| × 10^scale ÷ (n × 10^s.scale) + ½, rounded down
		dividend := new(big.Int).Mul(new(big.Int).Abs(&s.whole), power10(scale))
		divisor := new(big.Int).Mul(big.NewInt(s.n), power10(s.scale))
		dividend.Lsh(dividend, 1).Add(dividend, divisor)
		whole = dividend.Quo(dividend, divisor.Lsh(divisor, 1))
		if scale == 0 || len(whole.String()) <= value.MaxDecimalDigits {
			break
		}
	}
	if s.whole.Sign() < 0 {
		whole.Neg(whole)
	}
	return whole, scale
}

// point returns whole ÷ 10^scale as text.
func point(whole *big.Int, scale int) string {
	text := new(big.Int).Abs(whole).String()
	if len(text) <= scale {
		text = strings.Repeat("0", scale+1-len(text)) + text
	}
	if scale > 0 {
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
	}
	if whole.Sign() < 0 {
		text = "-" + text
	}
	return text
}
