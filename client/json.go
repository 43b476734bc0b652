package client

import "encoding/json"

func jsonArg(v any) Arg {
	text, err := json.Marshal(v)
	return Arg{text, err}
}
