package resp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// replyTimeout ends a step whose reply does not arrive.
	replyTimeout = 10 * time.Second
	// quietTime is how long a connection must be silent to count as having no push.
	quietTime = 60 * time.Millisecond
)

// peer is one connection of a transcript.
type peer struct {
	net.Conn
	replies chan reply // closed at the end of the stream
	pushes  chan reply
}

func newPeer(c net.Conn) *peer {
	p := &peer{Conn: c, replies: make(chan reply, 1024), pushes: make(chan reply, 1024)}
	go func() {
		defer close(p.replies)
		r := bufio.NewReaderSize(c, 64<<10)
		for {
			v, err := readReply(r, 0)
			if err != nil {
				if err != io.EOF && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset by peer") {
					p.replies <- reply{kind: '-', text: "(broken stream) " + err.Error()}
				}
				return
			}
			if v.kind == '>' {
				p.pushes <- v
			} else {
				p.replies <- v
			}
		}
	}()
	return p
}

// send writes one command as an array of bulk strings.
func (p *peer) send(args []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	_, err := io.WriteString(p.Conn, b.String())
	return err
}

func (p *peer) receive() (reply, error) {
	select {
	case v, ok := <-p.replies:
		if !ok {
			return v, io.EOF
		}
		return v, nil
	case <-time.After(replyTimeout):
		return reply{}, fmt.Errorf("no reply within %v", replyTimeout)
	}
}

func (p *peer) do(args ...string) (reply, error) {
	if err := p.send(args); err != nil {
		return reply{}, err
	}
	return p.receive()
}

// player runs one transcript on one server in one protocol.
type player struct {
	dial  func() (net.Conn, error)
	proto int
	peers map[string]*peer
	vars  map[string]string
}

func newPlayer(proto int, dial func() (net.Conn, error)) *player {
	return &player{dial: dial, proto: proto, peers: map[string]*peer{}, vars: map[string]string{}}
}

func (pl *player) close() {
	for _, p := range pl.peers {
		p.Close()
	}
}

// peer returns the connection with that name. It opens a new one if necessary.
func (pl *player) peer(name string) (*peer, error) {
	if p := pl.peers[name]; p != nil {
		return p, nil
	}
	c, err := pl.dial()
	if err != nil {
		return nil, err
	}
	p := newPeer(c)
	pl.peers[name] = p
	if pl.proto == 3 && !strings.HasPrefix(name, "raw") {
		_, err = p.do("HELLO", "3")
	}
	return p, err
}

// play runs one step and returns the lines of its reply.
func (pl *player) play(st *step) []string {
	p, err := pl.peer(st.conn)
	if err != nil {
		return []string{"(no connection) " + err.Error()}
	}
	v, has, err := pl.perform(p, st)
	if err != nil {
		return []string{"(failed) " + err.Error()}
	}
	if !has {
		return nil
	}
	if st.sorted {
		v.sort()
	}
	if st.as != "" {
		pl.vars[st.as] = v.text
	}
	return v.lines()
}

// perform returns the reply, and whether the step has one.
func (pl *player) perform(p *peer, st *step) (v reply, has bool, err error) {
	args := pl.expand(st.args)
	switch st.verb {
	case "":
		if st.scan {
			v, err = scanAll(p, args)
		} else {
			v, err = p.do(args...)
		}
		return v, true, err
	case "send":
		return v, false, p.send(args)
	case "raw":
		_, err = io.WriteString(p.Conn, strings.Join(args, ""))
		return v, false, err
	case "reply":
		v, err = p.receive()
		return v, true, err
	case "sleep":
		d, err := time.ParseDuration(args[0])
		time.Sleep(d)
		return v, false, err
	case "close":
		delete(pl.peers, st.conn)
		return v, false, p.Close()
	case "closed":
		if v, err = p.receive(); err != io.EOF {
			return v, false, fmt.Errorf("the connection is open; it said %q", v.lines())
		}
		delete(pl.peers, st.conn)
		return v, false, p.Close()
	}
	return p.push(st.verb == "push")
}

// push returns the next push, or makes sure that there is none.
func (p *peer) push(wanted bool) (reply, bool, error) {
	wait := replyTimeout
	if !wanted {
		wait = quietTime
	}
	select {
	case v := <-p.pushes:
		return v, true, nil
	case <-time.After(wait):
		if wanted {
			return reply{}, false, fmt.Errorf("no push within %v", wait)
		}
		return reply{}, false, nil
	}
}

// scanAll follows the cursor of a SCAN from 0 to the end and returns all keys as one sorted
// array. args are the arguments after the cursor.
func scanAll(p *peer, args []string) (reply, error) {
	all := reply{kind: '*'}
	seen := map[string]bool{}
	cursor := "0"
	for range 10_000 {
		v, err := p.do(append([]string{args[0], cursor}, args[1:]...)...)
		if err != nil || len(v.elems) != 2 {
			return v, err
		}
		for _, e := range v.elems[1].elems {
			if !seen[e.text] {
				seen[e.text] = true
				all.elems = append(all.elems, e)
			}
		}
		if cursor = v.elems[0].text; cursor == "0" {
			all.sort()
			return all, nil
		}
	}
	return all, fmt.Errorf("SCAN does not end")
}

var varRE = regexp.MustCompile(`\$\{(\w+)([+-]\d+)?\}`)

// expand replaces ${name}, ${now+10} (seconds) and ${nowms-5}.
func (pl *player) expand(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = varRE.ReplaceAllStringFunc(a, func(s string) string {
			m := varRE.FindStringSubmatch(s)
			delta, _ := strconv.ParseInt(m[2], 10, 64)
			switch m[1] {
			case "now":
				return strconv.FormatInt(time.Now().Unix()+delta, 10)
			case "nowms":
				return strconv.FormatInt(time.Now().UnixMilli()+delta, 10)
			}
			return pl.vars[m[1]]
		})
	}
	return out
}
