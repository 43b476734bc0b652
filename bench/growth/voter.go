package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/skerrydb/skerry/bench/rig"
)

// voterJob and voterOutcome have the parts of bench/voter's -worker that are used here.
type voterJob struct {
	Driver string        `json:"driver"`
	Dir    string        `json:"dir"`
	Conns  int           `json:"conns"`
	Flight int           `json:"flight"`
	Phones uint64        `json:"phones"`
	Warm   time.Duration `json:"warm"`
	Window time.Duration `json:"window"`
	Seed   uint64        `json:"seed"`
}

type voterOutcome struct {
	Votes int64         `json:"votes"`
	Took  time.Duration `json:"took"`
	Err   string        `json:"err"`
}

// phones is how many phones vote: 1 M, or fewer in a run with fewer keys.
func (p *plan) phones() uint64 { return min(1_000_000, p.sizes[len(p.sizes)-1]) }

// voter measures Voter in the engine alone, with the program of bench/voter: 8 goroutines, each with batches of 64 calls, all
// on one core.
func (m *measurements) voter(p *plan, dir string) error {
	program := filepath.Join(dir, "voter.bin")
	if err := rig.BuildBench("./voter", program); err != nil {
		return err
	}
	for round := range p.rounds {
		data := filepath.Join(dir, fmt.Sprintf("voter-%d", round))
		length := max(p.window/2, shortest)
		job, err := json.Marshal(voterJob{"in-process", data, 8, 8 * 64, p.phones(), length / 2, length, uint64(round + 1)})
		if err != nil {
			return err
		}
		var result, complaint bytes.Buffer
		cmd := exec.Command(program, "-worker", string(job))
		cmd.Stdout, cmd.Stderr = &result, &complaint
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var out voterOutcome
		if err := errors.Join(cmd.Run(), json.Unmarshal(result.Bytes(), &out)); err != nil || out.Err != "" || out.Took <= 0 {
			return fmt.Errorf("voter: %w; %s\n%s", err, out.Err, complaint.Bytes())
		}
		rate := float64(out.Votes) / out.Took.Seconds()
		m.engine = append(m.engine, rate)
		fmt.Fprintf(m.w, "round %d  voter, the engine alone on one core, %s phones: %.0f votes/s\n", round+1, sizeName(p.phones()), rate)
		if err := os.RemoveAll(data); err != nil {
			return err
		}
	}
	return nil
}
