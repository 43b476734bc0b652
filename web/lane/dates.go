package lane

import (
	"net/http"
	"sync/atomic"
	"time"
)

// dates formats the time for Date once a second.
type dates struct{ last atomic.Pointer[date] }

type date struct {
	second int64
	text   string
}

func (d *dates) now() string {
	now := time.Now()
	if last := d.last.Load(); last != nil && last.second == now.Unix() {
		return last.text
	}
	text := now.UTC().Format(http.TimeFormat)
	d.last.Store(&date{now.Unix(), text})
	return text
}
