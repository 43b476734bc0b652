package lineproto

import (
	"testing"
	"time"
)

// cpuLine is a line as TSBS writes it for its use case cpu-only.
const cpuLine = "cpu,hostname=host_0,region=eu-central-1,datacenter=eu-central-1a,rack=6,os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,service_environment=test " +
	"usage_user=58i,usage_system=2i,usage_idle=24i,usage_nice=61i,usage_iowait=22i,usage_irq=63i,usage_softirq=6i,usage_steal=44i,usage_guest=80i,usage_guest_nice=38i 1451606400000000000"

// floatLine has the same series and floats as agents write them, of up to 17 digits.
const floatLine = "cpu,hostname=host_0,region=eu-central-1,datacenter=eu-central-1a,rack=6,os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,service_environment=test " +
	"usage_user=58.1354,usage_system=2.25,usage_idle=24.839999999999996,usage_nice=61.3,usage_iowait=0.0000124,usage_irq=63,usage_softirq=6.1e-7,usage_steal=44.123456789,usage_guest=80.00000000000001,usage_guest_nice=38.5 1451606400000000000"

const escapedLine = `my\ app,host=web\ 1,path=C:\\temp "size"=1u,text="say \"hello\"",ok=t,load\ avg=0.25 1451606400000000000`

func BenchmarkParse(b *testing.B) {
	for _, bench := range []struct{ name, line string }{{"cpu", cpuLine}, {"floats", floatLine}, {"escapes", escapedLine}} {
		b.Run(bench.name, func(b *testing.B) {
			var p Parser
			var l Line
			line := []byte(bench.line)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Parse(line, time.Nanosecond, &l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkNextLine(b *testing.B) {
	body := []byte(cpuLine + "\n" + cpuLine)
	b.SetBytes(int64(len(cpuLine) + 1))
	for b.Loop() {
		if line, _ := NextLine(body); len(line) != len(cpuLine) {
			b.Fatal(len(line))
		}
	}
}

func BenchmarkSplitSeries(b *testing.B) {
	var p Parser
	var l Line
	if err := p.Parse([]byte(cpuLine), 0, &l); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	tags := 0
	for b.Loop() {
		if _, err := SplitSeries(l.Series, func(_, _ []byte) { tags++ }); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAllocations(t *testing.T) {
	for _, text := range []string{cpuLine, floatLine, escapedLine} {
		var p Parser
		var l Line
		body := []byte(text + "\n" + text + "\r\n")
		allocs := testing.AllocsPerRun(100, func() {
			for rest := body; len(rest) > 0; {
				var line []byte
				line, rest = NextLine(rest)
				if err := p.Parse(line, time.Nanosecond, &l); err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocs != 0 {
			t.Errorf("%.40q: %v allocations", text, allocs)
		}
	}
}
