package resp_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/skerrydb/skerry/resp"
	"github.com/skerrydb/skerry/resp/wire"
)

// faults fails a fuzz target when the server logs an error, as it does if a command panics.
type faults struct {
	slog.Handler
	seen chan string
}

func (f faults) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	select {
	case f.seen <- text:
	default:
	}
	return nil
}

// FuzzServer sends arbitrary bytes. The server must reply in RESP and close the connection
// when the input ends, and no command may panic.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		"PING\r\nSET k v\r\nGET k\r\n", "HELLO 3\r\nMULTI\r\nINCR n\r\nSELECT 3\r\nGET k\r\nEXEC\r\n",
		"SET k v EX 10 GET\r\nGETEX k PERSIST\r\nEXPIRE k 5 NX\r\nTTL k\r\nOBJECT ENCODING k\r\n",
		"SET k 1\r\nAPPEND k 2\r\nCOPY k c\r\nOBJECT ENCODING c\r\nINCRBYFLOAT k 1\r\nSETRANGE c 0 x\r\nOBJECT ENCODING k\r\nOBJECT REFCOUNT k\r\n",
		"WATCH k\r\nMULTI\r\nEXEC\r\nDISCARD\r\nRESET\r\n", "SCAN 0 MATCH [a-z* COUNT 3\r\nKEYS \"\\x00*\"\r\n",
		"HELLO 3 SETNAME a\r\nCLIENT TRACKING ON BCAST PREFIX a\r\nSET a 1\r\nCLIENT LIST\r\n",
		"LCS a b IDX WITHMATCHLEN\r\nINCRBYFLOAT f 1e3\r\nSETRANGE k 5 x\r\nGETRANGE k -3 -1\r\n",
		"COMMAND DOCS get\r\nCOMMAND GETKEYSANDFLAGS SORT a STORE b\r\nINFO\r\nCONFIG GET *\r\n",
		"RESTORE k 0 \"\\x00\\x01a\\x0a\\x00\" REPLACE\r\nDUMP k\r\nMEMORY USAGE k SAMPLES 3\r\n",
		"CLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nab\r\n*1\r\n$4\r\nPING\r\n*x\r\n",
		"SORT a BY b LIMIT 0 1 STORE c\r\nCOPY a b DB 1 REPLACE\r\nMOVE a 1\r\nFLUSHALL\r\nSWAPDB 0 1\r\n",
		"CALL add n 2\r\nFCALL add 1 n -3\r\nFCALL_RO value 1 n\r\nCALLONCE k add n 1\r\nCALLONCE k add n 1\r\n",
		"FCALL add 9 n\r\nFCALL add -1 n\r\nFCALL add x n 1\r\nFCALL_RO add 0 n 1\r\nFCALL nothing 0\r\nCALL\r\nCALLONCE k\r\n",
		"HELLO 3\r\nCALL shape\r\nCALL echo \"{\\\"text\\\":\\\"x\\\",\\\"list\\\":[1,2]}\"\r\nCALL echo x [1,2] {}\r\nCALL vote 1 2 3\r\n",
		"MULTI\r\nCALL add n 1\r\nCALL fail n c t\r\nCALL nothing\r\nFCALL add x\r\nEXEC\r\nCALL put k \"\\xff\\x00\"\r\n",
		"FUNCTION LIST LIBRARYNAME s* WITHCODE\r\nFUNCTION STATS\r\nFUNCTION LOAD x\r\nPROC SCHEMA\r\nPROC SCHEMA add x\r\nPROC LIST\r\nCLUSTER LEADER PUSH\r\n",
		"COMMAND GETKEYS FCALL f 2 a b c\r\nCOMMAND GETKEYSANDFLAGS FCALL_RO f -1 a\r\nCOMMAND INFO call fcall proc|list\r\nCOMMAND DOCS call proc\r\n",
		"SUBSCRIBE __redis__:invalidate\r\nPING\r\nGET a\r\nUNSUBSCRIBE\r\nQUIT\r\nPING\r\n",
	} {
		f.Add([]byte(s))
	}
	seen := make(chan string, 1)
	l := loopback(f)
	quiet := slog.New(faults{slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}), seen})
	serveSkerry(f, l, resp.Options{Logger: quiet})
	f.Fuzz(func(t *testing.T, in []byte) {
		low := strings.ToLower(string(in))
		for _, word := range []string{"wait", "pause", "migrate"} {
			if strings.Contains(low, word) {
				t.Skip("it may take its time")
			}
		}
		nc, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(20 * time.Second))
		go func() {
			nc.Write(in)
			nc.(*net.TCPConn).CloseWrite()
		}()
		rd := wire.NewReplies(nc, &wire.Buffers{}, 0)
		for {
			_, err := rd.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if _, bad := errors.AsType[*wire.ProtocolError](err); bad || err != nil && strings.Contains(err.Error(), "timeout") {
				t.Fatalf("after %q: %v", in, err)
			}
			if err != nil {
				break // the server closed the connection before it had read everything
			}
		}
		select {
		case text := <-seen:
			t.Fatalf("after %q: %s", in, text)
		default:
		}
	})
}
