package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// social is a graph of people who know others. Everybody knows about as many; a few are known by many.
type social struct {
	people int
	edges  [][2]uint32 // who knows whom, in random order
	first  []uint32    // where the friends of each person begin, and of one more
	far    []uint32    // friends of all, by person
}

// newSocial returns the graph of a seed.
func newSocial(seed uint64, people, edges int) *social {
	s := &social{people: people, edges: make([][2]uint32, edges), first: make([]uint32, people+1), far: make([]uint32, edges)}
	r := rand.New(rand.NewPCG(seed, uint64(people)))
	for i := range s.edges {
		known := r.Float64()
		s.edges[i] = [2]uint32{uint32(r.IntN(people)), uint32(known * known * float64(people))}
		s.first[s.edges[i][0]+1]++
	}
	for i := range people {
		s.first[i+1] += s.first[i]
	}
	next := slices.Clone(s.first)
	for _, e := range s.edges {
		s.far[next[e[0]]] = e[1]
		next[e[0]]++
	}
	return s
}

func name(person int) string { return fmt.Sprintf("p%d", person) }

func age(person int) int64 { return int64(person%90) + 10 }

func (s *social) friends(person int) []uint32 { return s.far[s.first[person]:s.first[person+1]] }

// paths returns how many paths with so many edges begin at a person.
func (s *social) paths(person, hops int) (n int64) {
	if hops == 1 {
		return int64(len(s.friends(person)))
	}
	for _, f := range s.friends(person) {
		n += s.paths(int(f), hops-1)
	}
	return n
}

// friendSum is the sum of the friends' names without their letter.
func (s *social) friendSum(person int) (sum int64) {
	for _, f := range s.friends(person) {
		sum += int64(f)
	}
	return sum
}

// starts returns people at random, to begin queries at.
func (s *social) starts(seed uint64, n int) []int {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]int, n)
	for i := range out {
		out[i] = r.IntN(s.people)
	}
	return out
}

// top returns the people with the highest PageRank, best first.
func (s *social) top(n int) []string {
	rank, next := make([]float64, s.people), make([]float64, s.people)
	for i := range rank {
		rank[i] = 1 / float64(s.people)
	}
	for range rankTimes {
		given := 0.0
		clear(next)
		for i, has := range rank {
			friends := s.friends(i)
			if len(friends) == 0 {
				continue
			}
			given += rankAlpha * has
			for _, f := range friends {
				next[f] += rankAlpha * has / float64(len(friends))
			}
		}
		for i := range next {
			next[i] += (1 - given) / float64(s.people)
		}
		rank, next = next, rank
	}
	people := make([]int, s.people)
	for i := range people {
		people[i] = i
	}
	slices.SortFunc(people, func(a, b int) int {
		switch {
		case rank[a] > rank[b]:
			return -1
		case rank[a] < rank[b]:
			return 1
		}
		return a - b
	})
	out := make([]string, min(n, s.people))
	for i := range out {
		out[i] = name(people[i])
	}
	return out
}

// The defaults of TinkerPop's pageRank.
const (
	rankTimes = 20
	rankAlpha = 0.85
)
