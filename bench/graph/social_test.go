package main

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSocial: friends, paths and sums are those of the edges, and a seed always gives the same graph.
func TestSocial(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const people, edges = 60, 300
	g := newSocial(seed, people, edges)
	if !slices.Equal(g.edges, newSocial(seed, people, edges).edges) {
		t.Error("the same seed has given two graphs")
	}
	if slices.Equal(g.edges, newSocial(seed+1, people, edges).edges) {
		t.Error("two seeds have given the same graph")
	}
	for person := range people {
		now := map[uint32]int64{uint32(person): 1}
		for hops := 1; hops <= 3; hops++ {
			next, n, sum := map[uint32]int64{}, int64(0), int64(0)
			for _, e := range g.edges {
				next[e[1]] += now[e[0]]
				n += now[e[0]]
				sum += now[e[0]] * int64(e[1])
			}
			if got := g.paths(person, hops); got != n {
				t.Errorf("%d paths of %d edges from %s, want %d", got, hops, name(person), n)
			}
			if got := g.friendSum(person); hops == 1 && got != sum {
				t.Errorf("the friends of %s have the sum %d, want %d", name(person), got, sum)
			}
			now = next
		}
	}
}

// TestFewAreKnownByMany: the first tenth of the people is known by more than a quarter of the edges.
func TestFewAreKnownByMany(t *testing.T) {
	g := newSocial(1, 1000, 10_000)
	n := 0
	for _, e := range g.edges {
		if int(e[0]) >= g.people || int(e[1]) >= g.people {
			t.Fatalf("an edge of %v", e)
		}
		if e[1] < 100 {
			n++
		}
	}
	if n < 2500 || n > 4000 {
		t.Errorf("%d of 10,000 edges enter the first 100 people, want about 3,162", n)
	}
}

// TestTop: in a star, the middle has the highest PageRank, and the one that it knows the second.
func TestTop(t *testing.T) {
	g := &social{people: 5, first: []uint32{0, 1, 1, 2, 3, 4}, far: []uint32{3, 0, 0, 0}}
	if got := g.top(2); !slices.Equal(got, []string{"p0", "p3"}) {
		t.Errorf("the best are %v, want p0 and p3", got)
	}
}

// TestSumOf: what is not a name is refused.
func TestSumOf(t *testing.T) {
	if n, err := sumOf([]string{"p3", "p40"}); n != 43 || err != nil {
		t.Errorf("%d, %v, want 43", n, err)
	}
	if _, err := sumOf([]string{"ann"}); err == nil {
		t.Error("ann has a number")
	}
}
