package rig

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Plan is the flags that comparisons share. Its values are set before Flags is called and are the defaults.
type Plan struct {
	Name         string // of the comparison, in its files and messages
	Systems      string // names, separated by commas
	Rounds       int
	Window, Warm time.Duration
	Quick        bool
	dir, out     string
}

// Flags defines the flags. quick describes what of a short run the program itself chooses.
func (p *Plan) Flags(quick string) {
	flag.StringVar(&p.dir, "dir", ".", "`folder` on a disk; the servers keep their data below it during the run")
	flag.StringVar(&p.out, "out", "", "`file` for the output (default results/"+p.Name+"-DATE.txt, none with -quick)")
	flag.StringVar(&p.Systems, "systems", p.Systems, "systems to run")
	flag.IntVar(&p.Rounds, "rounds", p.Rounds, "rounds; the systems take turns in each, backwards in every second one, and medians are printed")
	flag.DurationVar(&p.Window, "window", p.Window, "counted time of one measurement")
	flag.DurationVar(&p.Warm, "warm", p.Warm, "time before it that is not counted")
	flag.BoolVar(&p.Quick, "quick", false, "a short run to check that everything works: "+quick+", 1 round of 500 ms windows")
}

// Main runs compare with a new folder on the disk and the writer of the report, and exits with 1 if it fails.
// The folder is then left.
func (p *Plan) Main(compare func(dir string, w io.Writer) error) {
	if p.Quick {
		p.Rounds, p.Window, p.Warm = 1, 500*time.Millisecond, 200*time.Millisecond
	}
	if err := p.run(compare); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

func (p *Plan) run(compare func(dir string, w io.Writer) error) error {
	dir, err := os.MkdirTemp(p.dir, p.Name+"-*.tmp")
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := OnDisk(dir); err != nil {
		return err
	}
	w, done, err := Report(p.out, p.Name, p.Quick)
	if err != nil {
		return err
	}
	defer done()
	if err := compare(dir, w); err != nil {
		return fmt.Errorf("%w (logs and data stay in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// Open finds the systems of a plan, without starting them. makers has them by name.
func Open[S any](p *Plan, makers map[string]func() (S, error)) (systems []S, err error) {
	for name := range strings.SplitSeq(p.Systems, ",") {
		maker := makers[name]
		if maker == nil {
			return nil, errors.New("no such system: " + name)
		}
		s, err := maker()
		if err != nil {
			return nil, err
		}
		systems = append(systems, s)
	}
	return systems, nil
}

// Turns calls visit for each system in each round, backwards in every second round.
func Turns[S fmt.Stringer](p *Plan, systems []S, visit func(s S, round int) error) error {
	turn := slices.Clone(systems)
	for r := range p.Rounds {
		for _, s := range turn {
			if err := visit(s, r); err != nil {
				return fmt.Errorf("%v, round %d: %w", s, r+1, err)
			}
		}
		slices.Reverse(turn)
	}
	return nil
}
