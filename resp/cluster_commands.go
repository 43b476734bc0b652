package resp

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/skerrydb/skerry/decimal"
	"github.com/skerrydb/skerry/engine"
)

func clusterCommands() []command {
	sub := func(name string, arity int, kind kind, run func(*call) error) command {
		return command{name: "cluster|" + name, arity: arity, kind: kind, run: clustered(run)}
	}
	return []command{
		sub("countkeysinslot", 3, kindScan, clusterCountKeysInSlot),
		sub("help", 2, kindPlain, helpCmd),
		sub("info", 2, kindPlain, clusterInfo),
		sub("keyslot", 3, kindPlain, clusterKeySlot),
		{name: "cluster|leader", arity: -2, kind: kindAdmin, flags: flagLooks, run: clusterLeader,
			doc: &Doc{Summary: "Get the ID, host and port of the leader, and with PUSH receive a push message whenever it changes", Group: "cluster", Args: []Arg{{Name: "push", Type: "pure-token", Optional: true}}}},
		sub("myid", 2, kindPlain, clusterMyID),
		sub("nodes", 2, kindPlain, clusterNodes),
		looks(sub("shards", 2, kindAdmin, clusterShards)),
		looks(sub("slots", 2, kindAdmin, clusterSlots)),
	}
}

// clustered makes a command fail on a single node, as Redis does.
func clustered(run func(*call) error) func(*call) error {
	return func(x *call) error {
		if x.srv.opts.Cluster == nil {
			return replyError("ERR This instance has cluster support disabled")
		}
		return run(x)
	}
}

func askingCmd(x *call) error {
	return clustered(func(x *call) error { x.out.OK(); return nil })(x)
}

// readOnlyCmd implements READONLY and READWRITE, which only cluster clients send.
func readOnlyCmd(x *call) error {
	return clustered(func(x *call) error {
		x.conn.cl.readonly = x.cmd.name == "readonly"
		x.conn.cl.asksCluster()
		x.out.OK()
		return nil
	})(x)
}

// asksCluster records that the client follows MOVED.
func (m *membership) asksCluster() {
	m.moves = m.Cluster != nil && !m.stays
}

// nodeID returns a node's name of 40 hexadecimal digits, as in Redis.
func nodeID(st *engine.ClusterState, id uint64) string {
	return fmt.Sprintf("%.32s%08x", st.ID+strings.Repeat("0", 32), id)
}

// face returns a node's address for clients. If this node's address is not configured, it
// is the one that the client has connected to.
func (c *conn) face(st *engine.ClusterState, n engine.Node) (host string, port int64) {
	addr := n.RESP
	if addr == "" && n.ID == st.Self {
		addr = c.nc.LocalAddr().String()
	}
	return endpoint(addr)
}

// owner returns the node that clients see as the owner of all slots: the leader or, if
// clients cannot reach the leader, this node, which forwards. Without a leader, it waits
// for one.
func (x *call) owner() (engine.ClusterState, engine.Node, error) {
	cl := x.srv.opts.Cluster
	st := cl.State()
	if st.Leader == 0 && x.tx == nil { // in a transaction, others would have to wait too
		ctx, cancel := context.WithTimeout(context.Background(), x.srv.opts.ElectionWait)
		defer cancel()
		if _, err := cl.AwaitLeader(ctx); err != nil {
			return st, engine.Node{}, err
		}
		st = cl.State()
	}
	n, ok := st.Node(st.Leader)
	if !ok || n.RESP == "" && n.ID != st.Self {
		if n, ok = st.Node(st.Self); !ok {
			return st, n, engine.ErrNotLeader
		}
	}
	return st, n, nil
}

// faces returns the nodes that clients can reach, starting with the owner of the slots.
func faces(st *engine.ClusterState, owner engine.Node) []engine.Node {
	list := []engine.Node{owner}
	for _, n := range st.Nodes {
		if n.ID != owner.ID && (n.RESP != "" || n.ID == st.Self) {
			list = append(list, n)
		}
	}
	return list
}

func clusterSlots(x *call) error {
	st, owner, err := x.owner()
	if err != nil {
		return err
	}
	list := faces(&st, owner)
	x.out.Array(1)
	x.out.Array(2 + len(list))
	x.out.Int(0)
	x.out.Int(Slots - 1)
	for _, n := range list {
		host, port := x.conn.face(&st, n)
		x.out.Array(4)
		x.out.BulkString(host)
		x.out.Int(port)
		x.out.BulkString(nodeID(&st, n.ID))
		x.out.Array(0)
	}
	x.conn.cl.asksCluster()
	return nil
}

func clusterShards(x *call) error {
	st, owner, err := x.owner()
	if err != nil {
		return err
	}
	list := faces(&st, owner)
	x.out.Array(1)
	x.out.Map(2)
	x.out.BulkString("slots")
	x.out.Array(2)
	x.out.Int(0)
	x.out.Int(Slots - 1)
	x.out.BulkString("nodes")
	x.out.Array(len(list))
	for i, n := range list {
		host, port := x.conn.face(&st, n)
		name := "port"
		if x.srv.opts.TLS != nil {
			name = "tls-port"
		}
		role := "replica"
		if i == 0 {
			role = "master"
		}
		x.out.Map(7)
		writeField(x.out, "id", nodeID(&st, n.ID))
		x.out.BulkString(name)
		x.out.Int(port)
		writeField(x.out, "ip", host)
		writeField(x.out, "endpoint", host)
		writeField(x.out, "role", role)
		x.out.BulkString("replication-offset")
		if n.ID == st.Self {
			x.out.Int(int64(x.localPosition()))
		} else {
			x.out.Int(0) // unknown here
		}
		writeField(x.out, "health", "online")
	}
	x.conn.cl.asksCluster()
	return nil
}

func clusterNodes(x *call) error {
	st := x.srv.opts.Cluster.State()
	var b strings.Builder
	for _, n := range st.Nodes {
		host, port := x.conn.face(&st, n)
		_, bus := endpoint(n.Addr)
		flags, master, slots := "slave", "-", ""
		switch {
		case n.ID == st.Leader:
			flags, slots = "master", fmt.Sprintf(" 0-%d", Slots-1)
		case st.Leader != 0:
			master = nodeID(&st, st.Leader)
		}
		if n.ID == st.Self {
			flags = "myself," + flags
		}
		fmt.Fprintf(&b, "%s %s@%d %s %s 0 0 %d connected%s\n", nodeID(&st, n.ID),
			hostPort(host, port), bus, flags, master, st.Term, slots)
	}
	x.out.Verbatim("txt", b.String())
	return nil
}

// hostPort joins host and port as Redis does, without brackets.
func hostPort(host string, port int64) string { return fmt.Sprintf("%s:%d", host, port) }

func clusterInfo(x *call) error {
	st := x.srv.opts.Cluster.State()
	state, slots := "ok", Slots
	if st.Leader == 0 {
		state, slots = "fail", 0
	}
	x.out.Verbatim("txt", strings.Join([]string{
		"cluster_state:" + state,
		fmt.Sprintf("cluster_slots_assigned:%d", slots),
		fmt.Sprintf("cluster_slots_ok:%d", slots),
		"cluster_slots_pfail:0",
		"cluster_slots_fail:0",
		fmt.Sprintf("cluster_known_nodes:%d", len(st.Nodes)),
		fmt.Sprintf("cluster_size:%d", number(st.Leader != 0)),
		fmt.Sprintf("cluster_current_epoch:%d", st.Term),
		fmt.Sprintf("cluster_my_epoch:%d", st.Term),
		"",
	}, "\r\n"))
	return nil
}

func clusterMyID(x *call) error {
	st := x.srv.opts.Cluster.State()
	x.out.BulkString(nodeID(&st, st.Self))
	return nil
}

// clusterLeader implements CLUSTER LEADER [PUSH]. It returns the leader and, with PUSH,
// enables a push whenever the leader changes.
func clusterLeader(x *call) error {
	push := len(x.args) == 3 && x.is(2, "PUSH")
	switch {
	case len(x.args) > 2 && !push:
		return errSyntax
	case push && !x.out.RESP3:
		return replyError("ERR CLUSTER LEADER PUSH needs RESP3: send HELLO 3 first")
	}
	var st engine.ClusterState
	if x.srv.opts.Cluster != nil {
		st = x.srv.opts.Cluster.State()
	}
	leader, ok := st.Node(st.Leader)
	host, port := "", int64(0)
	if ok {
		host, port = x.conn.face(&st, leader)
	}
	if push {
		x.conn.cl.notify, x.conn.cl.notified = true, leader.ID
	}
	if host == "" {
		x.out.Null()
		return nil
	}
	x.out.Array(3)
	x.out.BulkString(nodeID(&st, leader.ID))
	x.out.BulkString(host)
	x.out.Int(port)
	return nil
}

// pushLeader pushes the new leader if the client asked for it. node has just replied as the
// leader; it is pushed only if it differs from the last one pushed and has an address.
func (c *conn) pushLeader(node uint64) {
	if !c.cl.notify || node == c.cl.notified || node == 0 || !c.out.RESP3 {
		return
	}
	st := c.cl.State()
	n, ok := st.Node(node)
	if !ok || n.RESP == "" {
		return
	}
	c.cl.notified = node
	host, port := endpoint(n.RESP)
	w := &c.out
	w.Push(4)
	w.BulkString("leader")
	w.BulkString(nodeID(&st, node))
	w.BulkString(host)
	w.Int(port)
}

func clusterKeySlot(x *call) error {
	x.out.Int(int64(keySlot(x.args[2])))
	return nil
}

// clusterCountKeysInSlot visits all keys of database 0.
func clusterCountKeysInSlot(x *call) error {
	slot, ok := decimal.Parse(x.args[2])
	if !ok || slot < 0 || slot >= Slots {
		return replyError("ERR Invalid slot")
	}
	x.tx.Select(0)
	defer x.tx.Select(x.db)
	n := int64(0)
	for it, err := range x.tx.Scan(nil, nil) {
		if err != nil {
			return err
		}
		n += number(int64(keySlot(it.Key)) == slot)
	}
	x.out.Int(n)
	return nil
}

// localPosition returns the current position of this node's state.
func (x *call) localPosition() engine.Position {
	if x.tx != nil {
		return x.conn.cl.pos // not within a transaction
	}
	pos, err := x.srv.store.View(context.Background(), x.srv.loosely(), 0, nothing)
	if err != nil {
		return 0
	}
	return pos
}

// roleCmd returns the node's role. Offsets are positions. Those of other nodes are unknown
// here and returned as 0.
func roleCmd(x *call) error {
	cl := x.srv.opts.Cluster
	if cl == nil {
		x.out.Array(3)
		x.out.BulkString("master")
		x.out.Int(0)
		x.out.Array(0)
		return nil
	}
	st := cl.State()
	if st.Leader != st.Self {
		leader, _ := st.Node(st.Leader)
		host, port := endpoint(leader.RESP)
		state := "connected"
		if st.Leader == 0 {
			state = "connect"
		}
		x.out.Array(5)
		x.out.BulkString("slave")
		x.out.BulkString(host)
		x.out.Int(port)
		x.out.BulkString(state)
		x.out.Int(int64(x.localPosition()))
		return nil
	}
	x.out.Array(3)
	x.out.BulkString("master")
	x.out.Int(int64(x.localPosition()))
	x.out.Array(len(st.Nodes) - 1)
	for _, n := range st.Nodes {
		if n.ID == st.Self {
			continue
		}
		host, port := endpoint(n.RESP)
		x.out.Array(3)
		x.out.BulkString(host)
		x.out.BulkInt(port)
		x.out.BulkString("0")
	}
	return nil
}

func infoReplication(x *call) ([]string, error) {
	cl := x.srv.opts.Cluster
	if cl == nil {
		var l lines
		l.add("role", "master")
		l.none("connected_slaves")
		l.add("master_failover_state", "no-failover")
		l.add("master_replid", x.srv.runID)
		l.add("master_repl_offset", int64(x.localPosition()))
		l.none("repl_backlog_active")
		return l, nil
	}
	st := cl.State()
	offset := x.localPosition()
	if st.Leader != st.Self {
		leader, _ := st.Node(st.Leader)
		host, port := endpoint(leader.RESP)
		link := "up"
		if st.Leader == 0 {
			link = "down"
		}
		return []string{
			"role:slave", "master_host:" + host, fmt.Sprintf("master_port:%d", port), "master_link_status:" + link,
			fmt.Sprintf("slave_repl_offset:%d", offset), "slave_read_only:1", "connected_slaves:0",
			fmt.Sprintf("master_repl_offset:%d", offset),
		}, nil
	}
	lines := []string{"role:master", fmt.Sprintf("connected_slaves:%d", len(st.Nodes)-1)}
	i := 0
	for _, n := range st.Nodes {
		if n.ID == st.Self {
			continue
		}
		host, port, err := net.SplitHostPort(n.RESP)
		if err != nil {
			port = "0"
		}
		lines = append(lines, fmt.Sprintf("slave%d:ip=%s,port=%s,state=online", i, host, port))
		i++
	}
	return append(lines, "master_failover_state:no-failover", fmt.Sprintf("master_repl_offset:%d", offset)), nil
}
