package skerry_test

import (
	"go/ast"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/skerrydb/skerry"

// may lists what one package may import besides the standard library. Names without a dot in the first element
// are packages of this module; a final "/..." matches everything below.
type may struct {
	code  string // its own code
	tests string // its tests, besides what its code may
}

// law is policy: if TestImports fails, fix the code, not this table. A package that is not listed fails. There
// are two rules behind it: only cli with its subpackages, and webtest for tests, name an engine; and
// capabilities never import each other, except for kv, which auth, proc and session are built on
// (docs/decisions/0017).
var law = map[string]may{
	// leaves: nothing of ours, not even in tests
	"btree":     {},
	"decimal":   {},
	"journal":   {tests: "journal/memfs"},
	"gate":      {},
	"raft":      {code: "go.etcd.io/raft/... google.golang.org/protobuf/proto"},
	"peer":      {tests: "ci/ports journal"},
	"resp/wire": {code: "decimal"},
	"jsonscan":  {},
	"suggest":   {},
	"keyspace":  {},

	"journal/memfs": {code: "journal"}, // a crashable disk, for tests

	"spill": {code: "journal", tests: "ci/seed journal/memfs"}, // on the same file system as the log

	// the contract
	"engine":            {tests: "engine"},
	"engine/overlay":    {code: "btree engine"},
	"engine/optimistic": {code: "btree engine engine/overlay", tests: "engine/embedded engine/enginetest engine/testengine journal/memfs"},
	"engine/enginetest": {code: "ci/eventually engine workload", tests: "engine/embedded"},

	// the way to the leader
	"forward": {code: "engine"},

	// engines
	"engine/postgres":        {code: "btree engine engine/overlay github.com/jackc/pgx/v5/... github.com/jackc/pgx/v5", tests: "ci/eventually ci/pgserver ci/seed engine/enginetest"},
	"engine/postgres/tables": {code: "engine record/expr record/keys record/query record/schema record/value github.com/jackc/pgx/v5", tests: "ci/eventually ci/pgserver ci/seed engine/postgres engine/testengine feed github.com/jackc/pgx/v5/pgconn record"},
	"engine/postgres/adopt":  {code: "engine engine/postgres engine/postgres/tables github.com/jackc/pgx/v5 github.com/jackc/pgx/v5/pgconn record/schema", tests: "ci/pgserver ci/seed record record/keys"},
	"engine/embedded":        {code: "engine btree journal peer raft spill", tests: "ci/ports engine/enginetest journal/memfs workload workload/history google.golang.org/protobuf/proto"},

	// the engine of the tests of capabilities, which names engines so that those need not
	"engine/cassandra":  {code: "engine github.com/apache/cassandra-gocql-driver/v2", tests: "ci/cassandraserver ci/certs ci/eventually ci/ports engine/enginetest"},
	"engine/redis":      {code: "engine engine/overlay btree github.com/redis/rueidis", tests: "ci/eventually ci/redisserver engine/enginetest"},
	"engine/testengine": {code: "ci/cassandraserver ci/pgserver ci/redisserver engine engine/cassandra engine/embedded engine/enginetest engine/postgres engine/redis journal/memfs"},
	// the same for records, which tables imports
	"engine/testengine/recordengine": {code: "engine engine/postgres engine/postgres/tables engine/testengine record/keys"},

	// flow and capabilities; their tests run on a real engine
	"feed": {code: "engine", tests: "ci/eventually engine/embedded engine/testengine"},
	"kv":   {code: "decimal engine feed keyspace", tests: "engine/enginetest engine/testengine"},

	"auth":      {code: "engine keyspace kv github.com/pquerna/otp/... github.com/pquerna/otp golang.org/x/crypto/argon2", tests: "engine/embedded engine/testengine"},
	"auth/oidc": {code: "auth engine github.com/coreos/go-oidc/v3/oidc golang.org/x/oauth2", tests: "ci/oidcprovider engine/embedded kv"},

	"proc": {code: "engine jsonscan kv suggest", tests: "engine/embedded engine/enginetest engine/testengine journal/memfs"},
	// the source of procedures, not procedures: it imports none of ours
	"proc/procvet": {code: "golang.org/x/tools/go/..."},

	"record/value":  {code: "jsonscan", tests: "ci/seed"},
	"record/expr":   {code: "record/value", tests: "ci/seed"},
	"record/schema": {code: "jsonscan record/expr record/value suggest", tests: "ci/seed"},
	"record/query":  {code: "jsonscan record/expr record/schema record/value suggest", tests: "ci/seed"},
	"record/match":  {code: "engine record/query record/value", tests: "ci/seed record/expr record/schema"},
	"record/keys":   {code: "engine jsonscan keyspace record/expr record/query record/schema record/value", tests: "ci/seed engine/testengine"},

	"record": {code: "engine feed kv record/expr record/keys record/match record/query record/schema record/value suggest", tests: "ci/eventually ci/logbuf ci/seed engine/embedded engine/testengine engine/testengine/recordengine journal/memfs keyspace proc"},

	"series/chunk": {tests: "ci/seed"},
	"series":       {code: "engine feed keyspace series/chunk", tests: "ci/eventually ci/logbuf ci/seed engine/embedded engine/testengine journal/memfs"},

	"graph/value":       {tests: "ci/seed"},
	"graph/gremlin":     {code: "graph/value"},
	"graph/files":       {code: "engine graph graph/graphson graph/message graph/value", tests: "ci/seed engine/testengine"},
	"graph/message":     {code: "graph/value"},
	"graph/graphson":    {code: "graph/gremlin graph/message graph/value", tests: "graph/message/messagetest"},
	"graph/graphbinary": {code: "graph/gremlin graph/message graph/value", tests: "graph/message/messagetest"},
	"graph":             {code: "engine graph/value keyspace", tests: "ci/seed engine/enginetest engine/testengine"},
	"graph/gql":         {code: "graph/value"},
	"graph/traversal":   {code: "engine graph graph/gql graph/gremlin graph/value", tests: "ci/seed engine/testengine"},

	"graph/message/messagetest": {code: "graph/gremlin graph/message graph/value"}, // for the tests of encodings

	// the tiers are leaves; sources and feeds on databases import cache
	"cache":          {code: "cache/disk cache/memory engine feed", tests: "ci/eventually ci/seed engine/testengine"},
	"cache/memory":   {tests: "ci/seed"},
	"cache/postgres": {code: "cache engine github.com/jackc/pgx/v5/... github.com/jackc/pgx/v5", tests: "ci/eventually ci/logbuf ci/pgserver ci/seed"},
	"cache/disk":     {code: "journal", tests: "ci/eventually ci/logbuf ci/seed journal/memfs"}, // on the same file system as the log

	"session": {code: "engine keyspace kv", tests: "engine/embedded engine/enginetest engine/testengine github.com/alexedwards/scs/..."},

	// what a program is for those who call it; its tests call a real server
	"proc/typescript": {code: "proc record/schema", tests: "auth engine engine/embedded feed kv record session web web/account web/api web/calls web/records"},

	// the online backup
	"archive": {code: "engine journal", tests: "engine/embedded journal/memfs"},

	// the backups of a server in a folder
	"backups": {code: "engine journal", tests: "engine/embedded journal/memfs"},

	// truth
	"workload":         {code: "engine", tests: "engine/embedded"},
	"workload/history": {code: "github.com/anishathalye/porcupine"},

	// moves between engines
	"transfer": {code: "engine", tests: "engine/testengine workload"},

	// messages to people
	"mail": {code: "engine github.com/wneessen/go-mail github.com/wneessen/go-mail/smtp"},

	// faces
	"web":            {code: "cache engine forward jsonscan session web/hostname web/lane web/problem web/relay web/requestid web/view github.com/klauspost/compress/gzip github.com/klauspost/compress/zstd", tests: "engine/embedded kv"},
	"web/problem":    {code: "engine"},
	"web/calls":      {code: "engine proc web web/conditions web/problem", tests: "engine/testengine"},
	"web/conditions": {code: "engine kv web/problem"},
	"web/relay":      {code: "engine forward web/problem"},
	"web/hostname":   {},
	"web/lane":       {code: "engine", tests: "ci/certs ci/eventually ci/seed"},
	"web/requestid":  {},
	"web/transfers":  {code: "engine transfer web", tests: ". engine/embedded"},
	"web/view":       {code: "engine suggest web/view/exec"},
	"web/view/exec":  {},
	"web/api":        {code: "auth engine feed forward gate keyspace kv proc record web web/conditions web/hostname web/lane web/problem web/relay github.com/prometheus/...", tests: "engine/embedded"},
	"resp": {
		code:  "decimal engine feed forward gate keyspace kv proc resp/wire",
		tests: "ci/ports ci/redisserver engine/embedded engine/enginetest github.com/redis/...",
	},

	// the face of auth
	"web/account": {
		code:  "auth auth/oidc engine mail session web web/problem web/view github.com/pquerna/otp",
		tests: ". ci/oidcprovider cli engine/embedded kv github.com/pquerna/otp/...", // cli: the program that its guide shows
	},

	"docs": {}, // its pages, for the admin page

	// the admin page
	"web/admin": {
		code:  "archive auth backups engine feed graph graph/gremlin graph/traversal graph/value keyspace kv mail proc record record/expr record/query record/schema record/value resp resp/wire series session web web/account web/hostname web/problem web/records web/relay web/view",
		tests: ". cache ci/eventually ci/npm ci/ports docs engine/embedded engine/testengine engine/testengine/recordengine examples/browsertest github.com/chromedp/... github.com/pquerna/otp/... golang.org/x/net/html web/api web/prometheus webtest",
	},

	// the face of record
	"web/records": {code: "engine kv record record/keys record/query record/schema web web/conditions web/problem", tests: "engine/testengine/recordengine feed"},

	// the face of series
	"web/timeseries":           {code: "engine series web web/problem web/timeseries/lineproto", tests: ". ci/eventually ci/seed engine/embedded engine/testengine"},
	"web/timeseries/lineproto": {tests: "ci/seed"},

	// the face of graph for drivers
	"web/gremlin": {code: "engine forward graph/gremlin graph/value graph/graphbinary graph/graphson graph/message web/requestid github.com/coder/websocket"},

	"web/graphs": {code: "engine engine/optimistic graph graph/graphson graph/gremlin graph/traversal graph/value web/gremlin", tests: "ci/daemon ci/npm ci/pip ci/tinkerpop engine/testengine graph/files"},

	// the same for Prometheus's clients, with its query engine
	"web/prometheus": {code: "engine series web web/problem github.com/klauspost/compress/snappy github.com/prometheus/prometheus/...", tests: "engine/testengine"},

	// certificates, on certmagic, which asks for a zap logger
	"web/acme": {
		code:  "engine keyspace kv github.com/caddyserver/certmagic go.uber.org/zap go.uber.org/zap/zapcore",
		tests: "ci/ports engine/embedded",
	},

	// what programs link that call a server; its tests call a real one
	"client": {
		code:  "resp/wire suggest",
		tests: ". ci/ports ci/redisserver engine engine/embedded kv proc github.com/redis/...",
	},

	"client/sqldriver": {
		code:  "client resp/wire suggest",
		tests: ". ci/ports engine engine/embedded kv proc",
	},

	// assembly
	".": {code: "auth backups cache docs engine feed gate graph graph/files keyspace kv mail proc record record/keys record/schema resp series session transfer web web/acme web/admin web/api web/gremlin web/graphs web/hostname web/lane web/records web/timeseries web/transfers", tests: "auth/oidc ci/cassandraserver ci/pgserver ci/redisserver engine/cassandra engine/embedded engine/enginetest engine/postgres engine/redis graph/graphbinary graph/message graph/value web/problem web/view github.com/coder/websocket"},
	"cli": {
		code:  ". archive backups cache cli/cluster cli/dev cli/serve cli/size cli/top cli/verb engine engine/cassandra engine/embedded engine/postgres engine/postgres/adopt engine/postgres/tables engine/redis graph graph/files graph/value journal proc proc/typescript record record/keys record/schema transfer web/api web/problem web/records web/transfers workload/history",
		tests: "auth ci/cassandraserver ci/pgserver ci/ports ci/redisserver cli/dev/starter cli/verify client github.com/jackc/pgx/v5 github.com/redis/... web", // the client libraries, against three processes
	},
	"cli/verb":        {code: ". engine engine/embedded proc series suggest web/api github.com/BurntSushi/toml"},
	"cli/verify":      {code: "cli/serve cli/verb engine engine/enginetest proc/procvet workload"},
	"cli/cluster":     {code: ". cli/verb engine engine/embedded"},
	"cli/serve":       {code: ". archive backups cli/cluster cli/verb engine engine/embedded journal mail series", tests: "ci/eventually"},
	"cli/size":        {code: "cli/verb"},
	"cli/top":         {code: "cli/verb github.com/gdamore/tcell/v3/... github.com/gdamore/tcell/v3"},
	"cli/dev":         {code: "cli/cluster cli/dev/front cli/dev/sources cli/dev/starter cli/serve cli/verb engine engine/embedded journal web", tests: "ci/ports"},
	"cli/dev/front":   {code: "web/hostname"},
	"cli/dev/sources": {},
	"cli/dev/starter": {},

	"cmd/skerry": {code: ". cli cli/verify web/api web/prometheus"},

	// what users' tests of web applications use: it assembles a server as cli does, so it
	// names an engine too (docs/decisions/0024)
	"webtest": {code: ". engine/embedded mail proc golang.org/x/net/html", tests: "auth web web/account"},

	// programs to learn from
	"examples":               {tests: "ci/pgserver ci/redisserver"}, // tests of all of them
	"examples/exampletest":   {code: ". engine engine/embedded proc"},
	"examples/browsertest":   {code: "ci/eventually github.com/chromedp/..."},
	"examples/meter":         {},
	"examples/load":          {code: "client examples/meter"},
	"examples/voter":         {code: "engine kv proc", tests: ". client client/sqldriver engine/embedded examples/exampletest github.com/redis/..."},
	"examples/voter/load":    {code: "client client/sqldriver examples/load examples/meter examples/voter", tests: "examples/exampletest proc"},
	"examples/voter/server":  {code: "cli examples/voter"},
	"examples/bank":          {code: "engine kv proc", tests: "engine/embedded examples/exampletest"},
	"examples/bank/load":     {code: "client examples/load examples/meter examples/bank", tests: "examples/exampletest proc"},
	"examples/bank/server":   {code: "cli examples/bank"},
	"examples/todo":          {code: ". auth engine kv proc web web/account web/view", tests: "engine/embedded examples/browsertest examples/exampletest mail webtest github.com/chromedp/..."},
	"examples/todo/server":   {code: "cli examples/todo"},
	"examples/blog":          {code: ". auth engine record record/schema web web/account web/records web/view", tests: "examples/browsertest webtest github.com/chromedp/..."},
	"examples/blog/server":   {code: "cli examples/blog"},
	"examples/picture":       {},
	"examples/people":        {code: ". engine examples/picture graph graph/graphson graph/traversal graph/value web web/view", tests: "engine/embedded examples/browsertest graph/gremlin webtest"},
	"examples/people/server": {code: ". cli cli/verb examples/people", tests: "engine/embedded examples/exampletest"},
	"examples/fraud":         {code: ". engine examples/picture graph graph/traversal graph/value kv proc web web/calls web/view", tests: "engine/embedded examples/browsertest graph/gremlin webtest"},
	"examples/fraud/server":  {code: "cli examples/fraud"},

	"examples/gotro":        {code: ". engine record record/schema record/value session web web/view", tests: "engine/embedded examples/exampletest"},
	"examples/gotro/server": {code: "cli examples/gotro"},

	"examples/iot":          {code: ". engine series web web/problem web/timeseries web/view", tests: "examples/browsertest examples/iot/simulate webtest github.com/chromedp/..."},
	"examples/iot/simulate": {code: "examples/iot"},
	"examples/iot/server":   {code: "cli cli/verb examples/iot examples/iot/simulate", tests: ". ci/cassandraserver ci/eventually ci/npm engine/cassandra engine/embedded examples/exampletest"},

	"examples/deptemp":          {code: ". cache cache/postgres engine github.com/jackc/pgx/v5 web", tests: "ci/eventually ci/pgserver engine/embedded examples/exampletest"},
	"examples/deptemp/server":   {code: "cache cli examples/deptemp"},
	"examples/deptemp/generate": {code: "examples/deptemp", tests: "ci/pgserver github.com/jackc/pgx/v5"},

	// the repository's own programs, and what its tests share
	"ci/certs":           {},
	"ci/daemon":          {code: "ci/eventually"},
	"ci/eventually":      {},
	"ci/npm":             {},
	"ci/pip":             {},
	"ci/logbuf":          {},
	"ci/oidcprovider":    {},
	"ci/pgserver":        {code: "ci/daemon ci/ports github.com/jackc/pgx/v5"},
	"ci/plant":           {},
	"ci/ports":           {},
	"ci/tinkerpop":       {code: "ci/daemon ci/ports"},
	"ci/redisserver":     {code: "ci/daemon ci/eventually ci/ports"},
	"ci/cassandraserver": {code: "ci/daemon ci/eventually ci/ports github.com/apache/cassandra-gocql-driver/v2"},
	"ci/report":          {},
	"ci/seed":            {},
}

// forbidden are folder names that say nothing about their contents.
var forbidden = []string{
	"base", "common", "helper", "helpers", "internal", "lib", "misc", "models",
	"pkg", "shared", "types", "util", "utils",
}

func TestImports(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range goFiles(t) {
		if f.nested {
			continue // a module of its own: its go.mod is its law
		}
		rule, listed := law[f.dir]
		if !listed {
			t.Errorf("%s: package %s is not in the law", f.path, f.dir)
			continue
		}
		seen[f.dir] = true
		allowed := strings.Fields(rule.code)
		if f.test {
			allowed = append(append(allowed, strings.Fields(rule.tests)...), f.dir, "ci/certs", "ci/eventually", "ci/logbuf", "ci/npm", "ci/seed")
		}
		for _, name := range imports(t, f.syntax) {
			if !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, name) }) {
				t.Errorf("%s: %s may not import %s", f.path, f.dir, name)
			}
		}
	}
	for dir := range maps.Keys(law) {
		if !seen[dir] {
			t.Errorf("the law lists %s, which does not exist", dir)
		}
	}
}

// covers reports whether an entry of the law allows an import.
func covers(entry, name string) bool {
	if above, ok := strings.CutSuffix(entry, "..."); ok {
		return strings.HasPrefix(name, above)
	}
	return entry == name
}

// imports returns the imports of a file besides the standard library: packages of this module by their folder
// ("." is the root), others by their full path.
func imports(t *testing.T, f *ast.File) []string {
	t.Helper()
	var names []string
	for _, im := range f.Imports {
		name, err := strconv.Unquote(im.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if name == module {
			names = append(names, ".")
		} else if own, ok := strings.CutPrefix(name, module+"/"); ok {
			names = append(names, own)
		} else if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") {
			names = append(names, name)
		}
	}
	return names
}

func TestFolderNames(t *testing.T) {
	t.Parallel()
	walk(t, func(p string, d fs.DirEntry) {
		if d.IsDir() && slices.Contains(forbidden, path.Base(p)) {
			t.Errorf("%s: name a package for what it provides", p)
		}
	})
}
