// Package process starts programs, among them llmtap, and measures processes: CPU time, memory, open files and disk. It
// reads /proc, so it measures on Linux only.
package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A Process is a process that is measured. Several may have the same name; they are then added up.
type Process struct {
	Name string
	PID  int
}

// CPU returns the seconds of CPU time that p has used; 0 after p has ended.
func (p Process) CPU() float64 {
	f := statFields(p.path("stat"))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(f[11], 64) // utime and stime, in hundredths of a second
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// RSS returns the resident set of p in bytes; 0 after p has ended.
func (p Process) RSS() int64 {
	statm, err := os.ReadFile(p.path("statm"))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// Files returns the number of open files and sockets of p; 0 after p has ended.
func (p Process) Files() int {
	open, err := os.ReadDir(p.path("fd"))
	if err != nil {
		return 0
	}
	return len(open)
}

func (p Process) path(file string) string { return fmt.Sprintf("/proc/%d/%s", p.PID, file) }

// statFields returns the fields of a stat file after the name of the program, which may contain spaces.
func statFields(file string) []string {
	stat, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
}

// busyCores returns the seconds of CPU time that all processes of the machine have used, with the time that its host gave to
// others; 0 if they are unknown.
func busyCores() float64 {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	total, _, _ := strings.Cut(string(stat), "\n")
	var busy float64
	for i, f := range strings.Fields(total) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name, idle, iowait, and guests, which user includes
			continue
		}
		n, _ := strconv.ParseFloat(f, 64)
		busy += n / 100
	}
	return busy
}

// Tree returns p and the processes that it has started, and those that they have, all with its name.
func Tree(p Process) []Process {
	all := []Process{p}
	tasks, _ := filepath.Glob(p.path("task/*/children")) // the pattern is valid
	for _, file := range tasks {
		children, _ := os.ReadFile(file) // none after it has ended
		for child := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(child); err == nil {
				all = append(all, Tree(Process{p.Name, pid})...)
			}
		}
	}
	return all
}

// In returns the process whose working directory is dir. An embedded ClickHouse works in its data directory.
func In(name, dir string) (p Process, err error) {
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return p, err
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return p, err
	}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err != nil || cwd != dir { // an error: it has ended, or belongs to another user
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		return Process{name, pid}, err
	}
	return p, fmt.Errorf("no process works in %s", dir)
}

// A Usage is what processes used since Watch was called.
type Usage struct {
	CPU  map[string]float64 // seconds by name of the process
	Peak int64              // largest sum of the resident sets, in bytes
	Sets map[string]int64   // the resident sets at that time

	Other float64 // cores that all other processes of the machine used, on average
}

// Watch samples processes until stop is called.
func Watch(all []Process) (stop func() Usage) {
	before := make([]float64, len(all))
	for i, p := range all {
		before[i] = p.CPU()
	}
	u := Usage{CPU: map[string]float64{}}
	start, busy := time.Now(), busyCores()
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			sum, sets := int64(0), map[string]int64{}
			for _, p := range all {
				n := p.RSS()
				sets[p.Name] += n
				sum += n
			}
			if sum > u.Peak {
				u.Peak, u.Sets = sum, sets
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() Usage {
		close(done)
		sampling.Wait()
		for i, p := range all {
			u.CPU[p.Name] += p.CPU() - before[i]
			u.Other -= p.CPU() - before[i]
		}
		u.Other = max(0, u.Other+busyCores()-busy) / time.Since(start).Seconds()
		return u
	}
}

// Idle waits until the processes together use less than a tenth of a core for three seconds, at most limit.
func Idle(ctx context.Context, all []Process, limit time.Duration) {
	sum := func() (n float64) {
		for _, p := range all {
			n += p.CPU()
		}
		return n
	}
	const wait = 3 * time.Second
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; {
		before := sum()
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		if sum()-before < wait.Seconds()/10 {
			return
		}
	}
}

// Start starts a program whose output goes to a file, and returns a function that ends it.
func Start(ctx context.Context, file string, env []string, name string, args ...string) (cmd *exec.Cmd, stop func(), err error) {
	log, err := os.Create(file)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(context.WithoutCancel(ctx), name, args...) // stop ends it
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = log, log, env, endWithParent()
	if err := cmd.Start(); err != nil {
		_ = log.Close() // nothing was written
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }() // its error is in the log
	return cmd, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = log.Close()
	}, nil
}

// SizeOf returns the space that a folder takes on disk, in bytes.
func SizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil {
			return nil // files disappear meanwhile
		}
		if info, err := d.Info(); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok && !d.IsDir() {
				n += s.Blocks * 512
			}
		}
		return nil
	})
	return n
}
