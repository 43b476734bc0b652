package main

import (
	"math"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// halfSecond is the number of slices in which the worst throughput is looked for.
const halfSecond = 5

// reckon computes what follows from the slices.
func (w *window) reckon() {
	perSecond := float64(time.Second / slice)
	var halves []float64
	w.worst = math.NaN()
	for i := range len(w.slices) - halfSecond + 1 {
		n := int64(0)
		for _, h := range w.slices[i : i+halfSecond] {
			n += h.Count
		}
		halves = append(halves, float64(n)*perSecond/halfSecond)
	}
	for _, v := range halves {
		if math.IsNaN(w.worst) || v < w.worst {
			w.worst = v
		}
	}
	w.rate = rig.Median(halves)
	var beside []float64
	for i, h := range w.slices {
		if covered(w.sliceSpan(i), w.snapshots) {
			w.beside.Merge(h)
			beside = append(beside, float64(h.Count)*perSecond)
		} else {
			w.calm.Merge(h)
		}
	}
	w.besideRate = math.NaN()
	if len(beside) >= halfSecond {
		w.besideRate = rig.Median(beside)
	}
}

func (w *window) sliceSpan(i int) span {
	return span{time.Duration(i) * slice, time.Duration(i+1) * slice}
}

// covered reports whether at least half of one lies in the spans.
func covered(one span, in []span) bool {
	sum := time.Duration(0)
	for _, s := range in {
		sum += one.within(s)
	}
	return 2*sum >= one.length()
}

// longMark is the length from which the throughput during one mark can be told from chance.
const longMark = 3 * slice

// drops returns by which share the throughput is lower during the worst of the marks, and, to compare with, in the worst
// piece without any mark or snapshot that is as long as the marks on average. NaN: there is none.
func (w *window) drops() (inMark, inCalm float64) {
	inMark, inCalm = math.NaN(), math.NaN()
	var marks []span
	length := 0
	for _, k := range w.marks {
		marks = append(marks, k.span)
	}
	calm := make([]bool, len(w.slices))
	var rates []float64
	for i, h := range w.slices {
		one := w.sliceSpan(i)
		if !covered(one, marks) && !covered(one, w.snapshots) {
			calm[i] = true
			rates = append(rates, float64(h.Count))
		}
	}
	base, n := rig.Median(rates), 0
	for _, k := range marks {
		var during []float64
		for i, h := range w.slices {
			if 2*w.sliceSpan(i).within(k) >= slice && !covered(w.sliceSpan(i), w.snapshots) {
				during = append(during, float64(h.Count))
			}
		}
		if k.length() >= longMark && time.Duration(len(during))*slice >= longMark {
			inMark = worse(inMark, 1-mean(during)/base)
			length, n = length+len(during), n+1
		}
	}
	if n > 0 {
		length /= n
	} else {
		length = halfSecond
	}
	for i := 0; i+length <= len(calm); i++ {
		sum, whole := 0.0, true
		for j := i; j < i+length; j++ {
			whole = whole && calm[j]
			sum += float64(w.slices[j].Count)
		}
		if whole {
			inCalm = worse(inCalm, 1-sum/float64(length)/base)
		}
	}
	return inMark, inCalm
}

func worse(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}
