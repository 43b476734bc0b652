package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"syscall"
	"time"

	"github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/skerrydb/skerry/bench/rig"
	"github.com/skerrydb/skerry/engine"
	"github.com/skerrydb/skerry/engine/cassandra"
	"github.com/skerrydb/skerry/series"
)

const (
	sensors   = 1000 // that each send
	perSensor = 10   // values at once, one a second
	atOnce    = 64   // requests to Cassandra
	hourOf    = 3600 // values of the series that is read
)

// factory is what the benchmark does with samples of sensors on Cassandra.
type factory interface {
	// write stores perSensor values of each sensor, from a time on.
	write(ctx context.Context, from time.Time) error
	// read returns how many values a sensor has in an hour.
	read(ctx context.Context, sensor int, from time.Time) (int, error)
	close()
}

// onCassandra measures series on one node of Cassandra, and the same rows through gocql by hand: what Skerry's layer costs.
func (p *plan) onCassandra(ctx context.Context, dir string, w io.Writer) (err error) {
	java, err := rig.Need("java", "openjdk-17-jre-headless")
	if err != nil {
		return err
	}
	jars, err := rig.CassandraJars()
	if err != nil {
		return err
	}
	ports, err := rig.FreePorts(2)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	server, err := rig.StartCassandra(java, jars, dir, ports[0], ports[1], filepath.Join(dir, "log"))
	if server != nil {
		defer func() { err = errors.Join(err, server.Stop(syscall.SIGKILL)) }() // its data is not used any more
	}
	if err != nil {
		return err
	}
	layer, err := openLayer(ctx, ports[0])
	if err != nil {
		return err
	}
	defer layer.close()
	hand, err := openHand(ctx, ports[0])
	if err != nil {
		return err
	}
	defer hand.close()
	fmt.Fprintf(w, "\nCassandra: %d values each of %d sensors at once, at a quorum of one node with commitlog_sync batch\n", perSensor, sensors)
	return p.compareFactories(ctx, w, []factory{layer, hand})
}

func (p *plan) compareFactories(ctx context.Context, w io.Writer, both []factory) error {
	begin := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	names := []string{"skerry", "gocql by hand"}
	at := []time.Time{begin, begin}
	rates, reads := make([][]float64, 2), make([][]float64, 2)
	for round := range p.Rounds + 1 { // the first one warms up
		took := make([]time.Duration, 2)
		for turn := range 2 * p.batches { // in turns, so that both meet the same load of the machine
			i := (turn + turn/2) % 2
			from := time.Now()
			if err := both[i].write(ctx, at[i]); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
			took[i] += time.Since(from)
			at[i] = at[i].Add(perSensor * time.Second)
		}
		for i := range both {
			if round > 0 {
				rates[i] = append(rates[i], float64(p.batches*sensors*perSensor)/took[i].Seconds())
			}
		}
	}
	for at[0].Before(begin.Add(hourOf*time.Second)) && !p.Quick { // so that there is an hour
		for i := range both {
			if err := both[i].write(ctx, at[0]); err != nil {
				return fmt.Errorf("%s: %w", names[i], err)
			}
		}
		at[0] = at[0].Add(perSensor * time.Second)
	}
	for round := range 200 {
		i := round % 2
		from := time.Now()
		n, err := both[i].read(ctx, round, begin)
		if err != nil || n == 0 {
			return fmt.Errorf("%s read %d values: %w", names[i], n, err)
		}
		reads[i] = append(reads[i], time.Since(from).Seconds())
	}
	for i, name := range names {
		fmt.Fprintf(w, "%-24s %12.0f values/s; one hour of one series %v\n", name, rig.Median(rates[i]), time.Duration(rig.Median(reads[i])*float64(time.Second)).Round(10*time.Microsecond))
	}
	p.targets = append(p.targets, rig.AtLeast("Cassandra: ingest, over gocql by hand", rig.Median(rates[0])/rig.Median(rates[1]), 0.9, "×"),
		rig.AtMost("Cassandra: one hour of one series, over gocql by hand", rig.Median(reads[0])/rig.Median(reads[1]), 1.1, "×"))
	return nil
}

// layer is Skerry.
type layer struct {
	s   *skerry
	ids []series.ID
}

func openLayer(ctx context.Context, addr string) (*layer, error) {
	eng, err := cassandra.Open(ctx, &url.URL{Scheme: cassandra.Scheme, Host: addr, Path: "/bench"}, cassandra.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	s, err := openOn(eng)
	if err != nil {
		return nil, err
	}
	var all []series.Labels
	for i := range sensors {
		l, err := series.NewLabels("sensor_value", series.Label{Name: "sensor", Value: fmt.Sprint(i)})
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	ids, err := s.define(ctx, all)
	return &layer{s, ids}, err
}

func (l *layer) write(ctx context.Context, from time.Time) error {
	var b series.Batch
	for second := range perSensor {
		at := from.Add(time.Duration(second) * time.Second).UnixNano()
		for i, id := range l.ids {
			b.Add(id, at, value(i, second))
		}
	}
	_, err := l.s.store.Append(ctx, &b)
	return err
}

// value is one of a sensor.
func value(sensor, second int) float64 { return float64(sensor) + float64(second)/10 }

func (l *layer) read(ctx context.Context, sensor int, from time.Time) (int, error) {
	match, err := series.ParseSelector(fmt.Sprintf(`sensor_value{sensor="%d"}`, sensor))
	if err != nil {
		return 0, err
	}
	list, err := l.s.store.Select(ctx, series.Query{Match: match, From: from, To: from.Add(hourOf*time.Second - 1), Read: engine.Read{Level: engine.Session}})
	if err != nil || len(list) != 1 {
		return 0, fmt.Errorf("%d series: %w", len(list), err)
	}
	return len(list[0].Times), nil
}

func (l *layer) close() { _ = l.s.close() }

// hand writes and reads a table like Skerry's with gocql.
type hand struct{ c *gocql.Session }

func openHand(ctx context.Context, addr string) (*hand, error) {
	cfg := gocql.NewCluster(addr)
	cfg.Consistency, cfg.Timeout, cfg.PoolConfig.HostSelectionPolicy = gocql.Quorum, 30*time.Second, gocql.TokenAwareHostPolicy(gocql.RoundRobinHostPolicy())
	c, err := cfg.CreateSession()
	if err != nil {
		return nil, err
	}
	for _, stmt := range []string{
		"CREATE KEYSPACE hand WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
		"CREATE TABLE hand.samples (series blob, day int, at bigint, value double, PRIMARY KEY ((series, day), at)) WITH compaction = {'class': 'TimeWindowCompactionStrategy'}",
	} {
		if err := c.Query(stmt).ExecContext(ctx); err != nil {
			return nil, err
		}
	}
	return &hand{c}, nil
}

// key returns the partition of a sensor at a time.
func (h *hand) key(sensor int, at time.Time) (id []byte, day int) {
	return fmt.Appendf(make([]byte, 0, 16), "%016d", sensor), int(at.Unix() / (24 * 3600))
}

func (h *hand) write(ctx context.Context, from time.Time) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for sensor := range sensors {
		work.Go(func() error {
			id, day := h.key(sensor, from)
			b := h.c.Batch(gocql.UnloggedBatch)
			for second := range perSensor {
				b.Query("INSERT INTO hand.samples (series, day, at, value) VALUES (?, ?, ?, ?)", id, day, from.Add(time.Duration(second)*time.Second).UnixNano(), value(sensor, second))
			}
			return b.ExecContext(ctx)
		})
	}
	return work.Wait()
}

func (h *hand) read(ctx context.Context, sensor int, from time.Time) (n int, err error) {
	id, day := h.key(sensor, from)
	rows := h.c.Query("SELECT at, value FROM hand.samples WHERE series = ? AND day = ? AND at >= ? AND at < ?", id, day, from.UnixNano(), from.Add(hourOf*time.Second).UnixNano()).IterContext(ctx)
	var at int64
	var v float64
	for rows.Scan(&at, &v) {
		n++
	}
	return n, rows.Close()
}

func (h *hand) close() { h.c.Close() }
