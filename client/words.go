package client

import "strings"

// command checks what a command does to a shared connection.
func (r *request) command(args []any) error {
	if len(args) == 0 {
		return errorf(CodeInvalid, "the command is empty")
	}
	var tmp [24]byte
	var word []byte
	switch v := args[0].(type) {
	case string:
		word = append(tmp[:0], v[:min(len(v), len(tmp))]...)
	case []byte:
		word = append(tmp[:0], v[:min(len(v), len(tmp))]...)
	default:
		return errorf(CodeInvalid, "the first word of a command must be its name, as text")
	}
	for i, c := range word {
		if c >= 'a' && c <= 'z' {
			word[i] = c - 'a' + 'A'
		}
	}
	name, kind := known(string(word))
	switch kind {
	case refusedWord:
		return errorf(CodeInvalid, "%s changes or blocks the connection that all calls share; it cannot be sent through this client", name)
	case clientWord:
		if sub := subcommand(args); sub != "" {
			return errorf(CodeInvalid, "CLIENT %s changes the connection that all calls share; it cannot be sent through this client", sub)
		}
	case readingWord:
		r.flags |= readsOnly
	}
	if r.name = name; name == "" {
		r.name = "other"
	}
	return nil
}

// Kinds of commands.
const (
	plainWord = iota
	readingWord
	refusedWord
	clientWord
)

// known returns a constant with the command's name and its kind. The name is "" if the
// command is not counted separately. word must be in capitals.
func known(word string) (string, int) {
	switch word {
	case "MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH", "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE",
		"UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE", "SELECT", "HELLO", "AUTH", "RESET", "QUIT",
		"MONITOR", "SYNC", "PSYNC", "READONLY", "READWRITE", "ASKING", "BLPOP", "BRPOP", "BLMOVE",
		"BLMPOP", "BRPOPLPUSH", "BZPOPMIN", "BZPOPMAX", "BZMPOP", "WAIT", "WAITAOF", "DEBUG":
		return strings.Clone(word), refusedWord
	case "CLIENT":
		return "CLIENT", clientWord
	case "GET":
		return "GET", readingWord
	case "MGET":
		return "MGET", readingWord
	case "EXISTS":
		return "EXISTS", readingWord
	case "TTL", "PTTL", "STRLEN", "GETRANGE", "KEYS", "SCAN", "DBSIZE", "TYPE", "INFO", "TIME", "HGET",
		"HGETALL", "HMGET", "LRANGE", "SMEMBERS", "ZRANGE", "FCALL_RO", "ECHO":
		return "read", readingWord
	case "PING":
		return "PING", readingWord
	case "SET":
		return "SET", plainWord
	case "DEL":
		return "DEL", plainWord
	case "INCR":
		return "INCR", plainWord
	case "CALL":
		return "CALL", plainWord
	case "FCALL":
		return "FCALL", plainWord
	}
	return "", plainWord
}

// subcommand returns the second word of CLIENT if it must not be sent.
func subcommand(args []any) string {
	if len(args) < 2 {
		return ""
	}
	s, ok := textArg(args[1])
	if !ok {
		return "with a second word that is not text"
	}
	switch s = strings.ToUpper(s); s {
	case "REPLY", "TRACKING", "CACHING", "READ", "MOVED", "SETNAME", "NO-EVICT", "NO-TOUCH":
		return strings.Clone(s)
	}
	return ""
}

// textArg returns an argument that is a string or bytes.
func textArg(a any) (s string, ok bool) {
	switch v := a.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	}
	return "", false
}
