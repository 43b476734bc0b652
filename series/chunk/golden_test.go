package chunk

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/skerrydb/skerry/ci/seed"
)

// goldens are chunks whose bytes are on disks: do not change what they decode to. What Append
// chooses may change, as long as Decode reads both.
var goldens = []struct {
	name, data string
	times      []int64
	values     []float64
}{
	{"one sample", "000015cd0a795424251400000000000000e0bf", []int64{1_451_606_400_123_456_789}, []float64{-0.5}},
	{"constant", "0a020000af715424251401000000000000001c40", regular(3), []float64{7, 7, 7}},
	{"decimal", "0a070000af715424251401210106842031230a00000000", regular(8), []float64{20.5, 20.6, 20.75, 20.5, 20.25, 20, 19.75, 19.5}},
	{"counter", "0a080000af71542425140101010280897a628984", regular(9), []float64{1e6, 1e6 + 50, 1e6 + 101, 1e6 + 150, 1e6 + 201, 1e6 + 250, 1e6 + 300, 1e6 + 349, 1e6 + 400}},
	{"exceptions", "0a090000af715424251401090204010000000000f87f03000000000000008001020200158601", regular(10), []float64{1, 2, 3, 4, math.NaN(), 6, 7, math.Copysign(0, -1), 9, 10}},
	{"patches", "0a130000af715424251401010402020109ffffffffff0704120c0901", regular(20), []float64{1, 2, 1, 1, 3, 1, 2, 1, 1, 1 << 40, 1, 1, 2, 3, 1, 1, 2, 1, 1, 1}},
	{"XOR", "0a050000af71542425140103182d4454fb2109400f0ef6d14244b51f92fc3f50763e0304", regular(6), []float64{math.Pi, math.Pi, 0x1p-3, 0x1p200, 0x1.8p200, 0x1.8p200}},
	{"bits", "0a060000af715424251401020002aeb4a1c4eafe908980015914", regular(7), []float64{math.Pi, math.Nextafter(math.Pi, 4), math.Pi, math.Pi, math.Nextafter(math.Pi, 3), math.Pi, math.Pi}},
	{"raw", "0a010000af71542425140104c3072a6a6a20bd01af6cd14daec352fe", regular(2), []float64{math.E * 1e-300, -math.Pi * 1e300}},
	{"other times", "230478ecffffffffffff140002082500000000000000f03f", []int64{-5000, 0, 5000, 11000, 15000}, []float64{1, 1, 1, 1, 1}},
	{"prefixes", "0a770000af71542425140101080a0033334343540560f2745a1673793e2d0330cf92514cf36c8a05c1e8b42ca63e1f964508f2241a73aa4fa6e0108896c17cd6a761a117825a02", regular(120), prefixValues()},
}

// prefixValues returns small integers, of which the smaller are more frequent.
func prefixValues() []float64 {
	values := make([]float64, 120)
	for i := range values {
		values[i] = float64(min(i*i%23, i*7%31, i*5%11))
	}
	return values
}

func TestGolden(t *testing.T) {
	for _, c := range goldens {
		data, err := hex.DecodeString(c.data)
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(Append(nil, c.times, c.values)); got != c.data {
			t.Errorf("%s: encoded as\n%s, want\n%s", c.name, got, c.data)
		}
		times, values, err := Decode(data, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		same(t, times, values, c.times, c.values)
	}
}

// TestKinds checks that each kind of block is the cheapest for some values: that each is tested.
func TestKinds(t *testing.T) {
	r := seed.Rand(t)
	seen := map[byte]bool{}
	for range 500 {
		n := 1 + r.IntN(400)
		var e encoder
		b := e.appendBlock(nil, randomValues(r, n))
		seen[b[0]&(blockKind|blockExceptions)] = true
	}
	for _, kind := range []byte{blockConstant, blockDecimal, blockDecimal | blockExceptions, blockBits, blockXOR, blockRaw} {
		if !seen[kind] {
			t.Errorf("no block of kind %d", kind)
		}
	}
}

// checkPrefixes encodes codes, of which count says how often each occurs, with prefixes.
func checkPrefixes(t *testing.T, r *rand.Rand, count []int) {
	t.Helper()
	var codes []uint64
	for c, n := range count {
		for range n {
			codes = append(codes, uint64(c))
		}
	}
	r.Shuffle(len(codes), func(i, j int) { codes[i], codes[j] = codes[j], codes[i] })
	lengths, n, ok := planPrefixes(codes, 1<<30)
	if !ok {
		return
	}
	space := 0
	for _, l := range lengths {
		if l > 0 {
			space += prefixSpace >> l
		}
	}
	if space != prefixSpace {
		t.Fatalf("%v: lengths %v", count, lengths)
	}
	d := decoder{reader: reader{data: appendPrefixes(nil, codes, lengths[:n])}}
	got := make([]int64, len(codes))
	if d.prefixes(got, n); d.bad || len(d.data) > 0 {
		t.Fatalf("%v: bad %v, %d bytes left", count, d.bad, len(d.data))
	}
	for i := range codes {
		if uint64(got[i]) != codes[i] {
			t.Fatalf("%v: code %d is %d, want %d", count, i, got[i], codes[i])
		}
	}
}

func TestPrefixes(t *testing.T) {
	r := seed.Rand(t)
	ones := func(n int, count ...int) []int {
		for range n {
			count = append(count, 1)
		}
		return count
	}
	checkPrefixes(t, r, []int{1, 1})
	checkPrefixes(t, r, []int{0, 1000, 0, 1})
	checkPrefixes(t, r, ones(15, 512, 256, 128, 64, 32, 16)) // too little space for the shortest lengths
	checkPrefixes(t, r, ones(63, 900))
	checkPrefixes(t, r, ones(64))
	for range 3000 {
		count := make([]int, 2+r.IntN(prefixSymbols-1))
		skew, left := 1+r.IntN(300), blockSize-1
		for i := range count {
			if r.IntN(4) > 0 {
				count[i] = min(left, int(r.ExpFloat64()*r.ExpFloat64()*float64(skew)))
				left -= count[i]
			}
		}
		count[r.IntN(len(count))]++ // at least one
		checkPrefixes(t, r, count)
	}
}
