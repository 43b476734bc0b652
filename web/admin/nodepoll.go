package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/web/relay"
)

// Limits of asking other nodes.
const (
	askEvery    = 2 * time.Second
	askDeadline = time.Second            // for the answer of one node
	askForPage  = 500 * time.Millisecond // how long a page waits for the answers
	maxAsking   = 8                      // nodes that are asked at once
	maxCommits  = 150                    // of the leader that are kept, to know how old an entry is: five minutes
)

// errOlder is the answer of a node whose program does not know the question.
var errOlder = errors.New("its version does not report to other nodes")

// knowledge is what this node knows about another one.
type knowledge struct {
	facts   nodeFacts
	at      time.Time // of facts; zero: there are none
	asked   time.Time // when the last question was sent
	failing time.Time // since when questions fail; zero: the last one was answered
	why     string    // the last one failed
	older   bool      // it answers, but its version does not know the question
}

// commit is how far the leader had committed at a time.
type commit struct {
	at    time.Time
	index uint64
}

// poll asks the other nodes about themselves, while somebody looks and when a page is loaded.
type poll struct {
	a        *Admin
	get      func(ctx context.Context, node uint64) (nodeFacts, error)
	watchers atomic.Int64
	ctx      context.Context
	stop     context.CancelFunc
	rounds   sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	known   map[uint64]*knowledge
	commits []commit
	began   time.Time     // the last round
	round   chan struct{} // closed when the current round ends; nil: there is none
	next    chan struct{} // closed when a round has ended
}

func newPoll(a *Admin) *poll {
	p := &poll{a: a, known: map[uint64]*knowledge{}, next: make(chan struct{})}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// run asks until ctx ends, every two seconds while somebody watches.
func (p *poll) run(ctx context.Context) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.watchers.Load() > 0 {
				p.ask()
			}
		}
	}
}

// watch keeps run asking until the returned function is called.
func (p *poll) watch() (end func()) {
	p.watchers.Add(1)
	p.ask()
	return func() { p.watchers.Add(-1) }
}

// ask begins a round, unless one is under way or has just begun. It returns a channel that is closed when there is none.
func (p *poll) ask() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.a.o.Now()
	switch {
	case p.round != nil:
		return p.round
	case p.ctx.Err() != nil || !p.began.IsZero() && now.Sub(p.began) < askEvery/2:
		done := make(chan struct{})
		close(done)
		return done
	}
	done := make(chan struct{})
	p.began, p.round = now, done
	p.rounds.Go(func() {
		p.askAll()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.round = nil
		close(done)
		close(p.next)
		p.next = make(chan struct{})
	})
	return done
}

// forPage begins a round and waits a moment for its answers.
func (p *poll) forPage(ctx context.Context) {
	wait := time.NewTimer(askForPage)
	defer wait.Stop()
	select {
	case <-p.ask():
	case <-wait.C:
	case <-ctx.Done():
	}
}

// close ends all rounds.
func (p *poll) close() {
	p.mu.Lock() // ask begins no round afterwards
	p.stop()
	p.mu.Unlock()
	p.rounds.Wait()
}

// askAll asks all nodes once, and forgets those that are no members.
func (p *poll) askAll() {
	s := p.a.o.Cluster.State()
	var asking sync.WaitGroup
	places := make(chan struct{}, maxAsking)
	for _, n := range s.Nodes {
		asking.Go(func() {
			if n.ID == s.Self {
				p.learn(n.ID, p.a.o.Now(), p.a.facts(), nil)
				return
			}
			places <- struct{}{}
			defer func() { <-places }()
			asked := p.a.o.Now()
			ctx, cancel := context.WithTimeout(p.ctx, askDeadline)
			defer cancel()
			f, err := p.get(ctx, n.ID)
			p.learn(n.ID, asked, f, err)
		})
	}
	asking.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.known {
		if _, member := s.Node(id); !member {
			delete(p.known, id)
		}
	}
	if k := p.known[s.Leader]; k != nil && k.failing.IsZero() && !k.at.IsZero() {
		p.commits = append(p.commits, commit{k.at, k.facts.Commit})
		if len(p.commits) > maxCommits {
			p.commits = append(p.commits[:0], p.commits[len(p.commits)-maxCommits:]...)
		}
	}
}

// learn takes in what a node has answered, or why it has not.
func (p *poll) learn(node uint64, asked time.Time, f nodeFacts, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known[node]
	if k == nil {
		k = &knowledge{}
		p.known[node] = k
	}
	gap := asked.Sub(k.asked) > 3*askEvery // nobody looked: what was then says nothing about the time between
	k.asked, k.older = asked, errors.Is(err, errOlder)
	switch {
	case err == nil:
		k.facts, k.at, k.failing, k.why = f, p.a.o.Now(), time.Time{}, ""
	case k.older:
		k.failing, k.why = time.Time{}, ""
	default:
		if k.failing.IsZero() || gap {
			k.failing = asked
		}
		k.why = err.Error()
	}
}

// all returns what is known about each node, the commits of the leader with the oldest first, and a channel that is closed when
// there is more.
func (p *poll) all() (map[uint64]knowledge, []commit, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := make(map[uint64]knowledge, len(p.known))
	for id, k := range p.known {
		known[id] = *k
	}
	return known, append([]commit(nil), p.commits...), p.next
}

// behindFor returns how long before at the leader had committed an entry after index; 0 if that is unknown.
func behindFor(commits []commit, index uint64, at time.Time) time.Duration {
	for _, c := range commits {
		if c.index > index {
			return max(0, at.Sub(c.at))
		}
	}
	return 0
}

// getFacts returns a function that asks a node through a transport of its cluster.
func getFacts(transport http.RoundTripper) func(context.Context, uint64) (nodeFacts, error) {
	return func(ctx context.Context, node uint64) (f nodeFacts, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+strconv.FormatUint(node, 10)+factsPath, nil)
		if err != nil {
			return f, err
		}
		resp, err := transport.RoundTrip(r)
		if errors.Is(err, context.DeadlineExceeded) {
			return f, fmt.Errorf("no answer within %v", askDeadline)
		}
		if err != nil {
			return f, err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxFactsBytes+1))
		switch {
		case err != nil:
			return f, fmt.Errorf("its answer broke off: %w", err)
		case resp.StatusCode == http.StatusNotFound:
			return f, errOlder
		case resp.StatusCode != http.StatusOK:
			return f, fmt.Errorf("it answers with status %d", resp.StatusCode)
		case len(text) > maxFactsBytes:
			return f, fmt.Errorf("its answer is longer than %d bytes", maxFactsBytes)
		}
		if err := json.Unmarshal(text, &f); err != nil {
			return nodeFacts{}, fmt.Errorf("its answer cannot be read: %w", err)
		}
		if f.Node != node {
			return nodeFacts{}, fmt.Errorf("node %d answers in its place", f.Node)
		}
		return f.bounded(), nil
	}
}

// nodeTransport returns the transport to the other nodes' NodeHandler.
func nodeTransport(c engine.Cluster) *http.Transport {
	t := relay.Transport(c, NodeProtocol)
	t.MaxIdleConnsPerHost = 1
	return t
}
