package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	gremlin "github.com/apache/tinkerpop/gremlin-go/v3/driver"
	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/rig"
)

const (
	perRequest = 50  // edges, or people, that one request adds
	perDrop    = 100 // people that one request removes
	maxTries   = 20  // of one request
)

// ask returns the only result of a traversal, which is a number.
func ask(t *gremlin.GraphTraversal) (int64, error) {
	list, err := t.ToList()
	if err != nil {
		return 0, err
	}
	if len(list) != 1 {
		return 0, fmt.Errorf("%d results, want 1", len(list))
	}
	return list[0].GetInt64()
}

// addPeople adds people with a label, a name and an age, in order, and remembers their ids.
func (s *system) addPeople(people int, nameOf func(int) string) error {
	var all []int
	for i := range people {
		all = append(all, i)
	}
	for some := range slices.Chunk(all, perRequest) {
		t := s.g.GetGraphTraversal()
		for _, i := range some {
			t = t.AddV("person").Property("name", nameOf(i)).Property("age", age(i))
		}
		if _, err := ask(t.Count()); err != nil {
			return fmt.Errorf("add people: %w", err)
		}
	}
	list, err := s.g.V().HasLabel("person").Project("id", "name").By(gremlin.T.Id).By("name").ToList()
	if err != nil {
		return fmt.Errorf("read the ids of people: %w", err)
	}
	ids := map[string]int64{}
	for _, r := range list {
		m, ok := r.GetInterface().(map[any]any)
		if !ok {
			return fmt.Errorf("a person is a %T", r.GetInterface())
		}
		name, _ := m["name"].(string)
		ids[name], _ = m["id"].(int64)
	}
	s.ids = make([]int64, people)
	for i := range s.ids {
		if s.ids[i] = ids[nameOf(i)]; s.ids[i] == 0 && len(ids) != people {
			return fmt.Errorf("%s was not added; there are %d of %d people", nameOf(i), len(ids), people)
		}
	}
	return nil
}

// addEdges adds edges, inFlight requests at once, and returns how long that took.
func (s *system) addEdges(edges [][2]uint32) (time.Duration, error) {
	requests := make(chan [][2]uint32)
	retries := make([]int, inFlight)
	var work errgroup.Group
	from := time.Now()
	for w := range inFlight {
		work.Go(func() (err error) {
			for some := range requests {
				if err == nil {
					err = s.addRetried(some, &retries[w])
				}
			}
			return err
		})
	}
	for some := range slices.Chunk(edges, perRequest) {
		requests <- some
	}
	close(requests)
	err := work.Wait()
	for _, n := range retries {
		s.retries += n
	}
	return time.Since(from), err
}

// addRetried adds the edges of one request. A server that locks or validates may refuse it, having done nothing; then it is
// sent again. That edges were not added twice is checked afterwards.
func (s *system) addRetried(edges [][2]uint32, retries *int) (err error) {
	for range maxTries {
		t := s.g.GetGraphTraversal()
		for _, e := range edges {
			t = t.AddE("knows").From(gremlin.T__.V(s.ids[e[0]])).To(gremlin.T__.V(s.ids[e[1]]))
		}
		if _, err = ask(t.Count()); err == nil {
			return nil
		}
		*retries++
	}
	return fmt.Errorf("add edges, %d times: %w", maxTries, err)
}

// loadRound adds the edges of a round and notes how fast that was.
func (s *system) loadRound(edges [][2]uint32) error {
	used := func() (server, own time.Duration, err error) {
		if server, err = rig.CPUTime(s.process.PID()); err == nil {
			own, err = rig.CPUTime(os.Getpid())
		}
		return server, own, err
	}
	server, own, err := used()
	if err != nil {
		return err
	}
	took, err := s.addEdges(edges)
	if err != nil {
		return err
	}
	server2, own2, err := used()
	s.load.rate = append(s.load.rate, float64(len(edges))/took.Seconds())
	s.load.cpu = append(s.load.cpu, rig.PerOp(server2-server, int64(len(edges))))
	s.load.own = append(s.load.own, rig.PerOp(own2-own, int64(len(edges))))
	return err
}

// warm loads another graph and removes it, so that Java's compiler has seen the requests.
func (s *system) warm(other *social) error {
	if err := s.addPeople(other.people, func(i int) string { return "w" + name(i) }); err != nil {
		return err
	}
	if _, err := s.addEdges(other.edges); err != nil {
		return err
	}
	for i := 0; ; i++ {
		if _, err := s.g.V().Limit(perDrop).Drop().ToList(); err != nil {
			return fmt.Errorf("remove people: %w", err)
		}
		left, err := ask(s.g.V().Count())
		if err != nil {
			return err
		}
		if left == 0 {
			s.retries = 0
			return nil
		}
		if i > other.people/perDrop {
			return errors.New("people who were removed are still there")
		}
	}
}

// complete checks how many people and edges there are.
func (s *system) complete(want *social) error {
	people, err := ask(s.g.V().Count())
	if err != nil {
		return err
	}
	edges, err := ask(s.g.E().Count())
	if err != nil {
		return err
	}
	if people != int64(want.people) || edges != int64(len(want.edges)) {
		return fmt.Errorf("%s has %d people and %d edges, want %d and %d", s.name, people, edges, want.people, len(want.edges))
	}
	return nil
}
