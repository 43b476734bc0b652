package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/skerrydb/skerry/examples/iot"
)

const (
	lines         = 8    // of production; the sensors are spread over them
	faultOnceIn   = 7200 // seconds, on average
	faultSeconds  = 90
	cycleSeconds  = 600 // of a machine
	sensorsSeeded = 0x9e3779b97f4a7c15
)

// sensor makes the values of one sensor, one for each second: its usual value, a cycle of its machine, a slow drift,
// and now and then a fault that is above the alarm.
type sensor struct {
	kind   iot.Kind
	prefix string // of its lines, up to the value
	random *rand.Rand
	usual  float64
	phase  float64
	drift  float64
	second int
	fault  int // seconds that are left of a fault
}

// sensors returns n sensors. Those of the same seed have the same values.
func sensors(n int, seed uint64) []*sensor {
	kinds := iot.Kinds()
	all := make([]*sensor, n)
	for i := range all {
		s := &sensor{kind: kinds[i%len(kinds)], random: rand.New(rand.NewPCG(seed, sensorsSeeded+uint64(i)))}
		s.usual = s.kind.Usual * (1 + .02*s.random.NormFloat64())
		s.phase = s.random.Float64() * 2 * math.Pi
		s.prefix = fmt.Sprintf("sensor,kind=%s,line=%d,sensor=%s-%04d value=", s.kind.Name, i/len(kinds)%lines+1, s.kind.Name, i/len(kinds)+1)
		all[i] = s
	}
	return all
}

// next returns the value of the next second.
func (s *sensor) next() float64 {
	room := s.kind.Alarm - s.kind.Usual
	s.drift = .98*s.drift + .02*room*s.random.NormFloat64()
	v := s.usual + s.drift + .1*room*math.Sin(2*math.Pi*float64(s.second)/cycleSeconds+s.phase)
	if s.fault == 0 && s.random.IntN(faultOnceIn) == 0 {
		s.fault = faultSeconds
	}
	if s.fault > 0 {
		v += 1.3 * room * math.Sin(math.Pi*float64(s.fault)/faultSeconds) // rises and falls
		s.fault--
	}
	s.second++
	return math.Round(max(v, 0)*100) / 100
}

// appendLine appends the line of the next second, whose time is in Unix seconds.
func (s *sensor) appendLine(b []byte, time int64) []byte {
	b = append(b, s.prefix...)
	b = strconv.AppendFloat(b, s.next(), 'f', -1, 64)
	return append(strconv.AppendInt(append(b, ' '), time, 10), '\n')
}
