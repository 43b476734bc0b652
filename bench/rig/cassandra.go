package rig

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// CassandraJars returns the folder to which ci/jars brings the jars of Cassandra. The current folder
// must be bench/.
func CassandraJars() (string, error) { return jarsOf("cassandraserver", "cassandra") }

// StartCassandra runs one node of Cassandra with its data in dir and waits until it serves at addr. It syncs its commit
// log before it acknowledges. It has 1 GB of heap: the small one of tests would measure garbage collection.
func StartCassandra(java, jars, dir, addr, storage, log string) (*Process, error) {
	host, port, _ := net.SplitHostPort(addr)
	_, nodes, _ := net.SplitHostPort(storage)
	yaml := fmt.Sprintf(`cluster_name: bench
num_tokens: 1
auto_bootstrap: false
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
endpoint_snitch: SimpleSnitch
listen_address: %[1]s
rpc_address: %[1]s
storage_port: %[2]s
native_transport_port: %[3]s
seed_provider: [ { class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [ { seeds: %[1]s } ] } ]
data_file_directories: [ %[4]s/data ]
commitlog_directory: %[4]s/commitlog
hints_directory: %[4]s/hints
saved_caches_directory: %[4]s/saved_caches
cdc_raw_directory: %[4]s/cdc
commitlog_sync: batch
`, host, nodes, port, dir)
	options, err := filepath.Abs("../ci/cassandraserver/jvm.options")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "cassandra.yaml")
	if err := os.WriteFile(conf, []byte(yaml), 0o644); err != nil {
		return nil, err
	}
	logback := filepath.Join(dir, "logback.xml") // without it the log has every request
	if err := os.WriteFile(logback, []byte(logWarnings), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(java, "@"+options, "-Xms1G", "-Xmx1G", "-Dcassandra.config=file://"+conf, "-Dlogback.configurationFile="+logback,
		"-Dcassandra.storagedir="+dir, "-Dcassandra.logdir="+dir, "-Dcassandra-foreground=yes", "-Djava.io.tmpdir="+dir,
		"-Dcassandra.ring_delay_ms=1000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-cp", jars+"/*", "org.apache.cassandra.service.CassandraDaemon")
	cmd.Dir = dir
	p, err := Start(cmd, log)
	if err != nil {
		return nil, err
	}
	return p, p.Await(addr, StartLimit)
}

const logWarnings = `<configuration><appender name="O" class="ch.qos.logback.core.ConsoleAppender"><encoder>
<pattern>%-5level %date{ISO8601} %logger{0} - %msg%n</pattern></encoder></appender>
<root level="WARN"><appender-ref ref="O"/></root></configuration>`
