package top

import (
	"context"
	"fmt"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
)

// Watch shows the servers on the terminal until the person quits or ctx ends, which is no error.
func Watch(ctx context.Context, o Options) error {
	s, err := tcell.NewScreen()
	if err != nil {
		return fmt.Errorf("open the terminal: %w; --once prints a snapshot", err)
	}
	return newMonitor(o).watch(ctx, s)
}

// watch is Watch on a screen, which it ends.
func (m *monitor) watch(ctx context.Context, s tcell.Screen) error {
	if err := s.Init(); err != nil {
		return fmt.Errorf("use the terminal: %w; --once prints a snapshot", err)
	}
	defer s.Fini()
	s.HideCursor()
	return m.loop(ctx, s)
}

// loop shows the servers on a screen until the person quits or ctx ends.
func (m *monitor) loop(ctx context.Context, s tcell.Screen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(m.Every)
	defer tick.Stop()
	m.ask(ctx)
	for {
		m.show(s)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if !m.paused {
				m.ask(ctx)
			}
		case a := <-m.answers:
			if err := m.take(a); err != nil {
				return err
			}
		case ev, ok := <-s.EventQ():
			if !ok || m.handle(ev, s) {
				return nil
			}
		}
	}
}

// handle handles an event of the terminal and reports whether the person quits.
func (m *monitor) handle(ev tcell.Event, s tcell.Screen) bool {
	switch ev := ev.(type) {
	case *tcell.EventResize:
		s.Sync()
	case *tcell.EventKey:
		nodes := len(all(m.nodes))
		switch ev.Key() {
		case tcell.KeyCtrlC:
			return true
		case tcell.KeyDown, tcell.KeyTab:
			m.chosen = (m.chosen + 1) % max(nodes, 1)
		case tcell.KeyUp, tcell.KeyBacktab:
			m.chosen = (m.chosen + nodes - 1) % max(nodes, 1)
		}
		switch ev.Str() {
		case "q", "Q":
			return true
		case "c":
			return ev.Modifiers()&tcell.ModCtrl != 0
		case "p", "P", " ":
			m.paused = !m.paused
		}
	}
	return false
}

// styles use the terminal's own colors, so they suit light and dark ones.
var styles = map[tone]tcell.Style{
	plain:  tcell.StyleDefault,
	bold:   tcell.StyleDefault.Bold(true),
	dim:    tcell.StyleDefault.Dim(true),
	bad:    tcell.StyleDefault.Foreground(color.Maroon).Bold(true),
	chosen: tcell.StyleDefault.Reverse(true),
}

// show fills the screen.
func (m *monitor) show(s tcell.Screen) {
	width, height := s.Size()
	v := m.view()
	s.Clear()
	for y, l := range v.draw(width, height) {
		x := 0
		for _, p := range l {
			s.PutStrStyled(x, y, p.text, styles[p.tone])
			x += len([]rune(p.text))
		}
	}
	s.Show()
}
