package api

import (
	"net/http"
	"net/http/pprof"
)

const profilesPath = "/debug/pprof/"

// profiles adds what runtime/pprof knows, as net/http/pprof shows it.
func (a *app) profiles() {
	for pattern, show := range map[string]http.HandlerFunc{
		profilesPath: pprof.Index, "/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/profile": pprof.Profile,
		"/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		a.ops.Handle(pattern, a.operation(profilesPath, func(x *exchange, r *http.Request) error {
			if !x.operator {
				return a.noRoute()
			}
			x.Header()["X-Content-Type-Options"] = a.noSniff
			show(x, r)
			return nil
		}, true))
	}
}
