package main

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

// A process is one that is measured.
type process struct {
	name string
	pid  int
}

// cpu returns the seconds of CPU time that p has used.
func (p process) cpu() float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	user, _ := strconv.ParseFloat(f[11], 64) // utime and stime, in hundredths of a second
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// rss returns the resident set of p in bytes.
func (p process) rss() int64 {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// childOf returns the only child process of pid.
func childOf(pid int) (child int, err error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range stats {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
		if f[1] != strconv.Itoa(pid) {
			continue
		}
		if child != 0 {
			return 0, fmt.Errorf("process %d has more than one child", pid)
		}
		if child, err = strconv.Atoi(filepath.Base(filepath.Dir(file))); err != nil {
			return 0, err
		}
	}
	if child == 0 {
		return 0, fmt.Errorf("process %d has no child", pid)
	}
	return child, nil
}

// usage is what processes used since watch was called.
type usage struct {
	cpu  map[string]float64 // seconds by name of the process
	peak int64              // largest sum of the resident sets, in bytes
	sets map[string]int64   // the resident sets at that time
}

// watch samples processes until stop is called.
func watch(all []process) (stop func() usage) {
	before := make([]float64, len(all))
	for i, p := range all {
		before[i] = p.cpu()
	}
	u := usage{cpu: map[string]float64{}}
	done := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			sum, sets := int64(0), map[string]int64{}
			for _, p := range all {
				sets[p.name] = p.rss()
				sum += sets[p.name]
			}
			if sum > u.peak {
				u.peak, u.sets = sum, sets
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	return func() usage {
		close(done)
		sampling.Wait()
		for i, p := range all {
			u.cpu[p.name] = p.cpu() - before[i]
		}
		return u
	}
}

// idle waits until the processes together use less than a tenth of a core for three seconds, at most limit.
func idle(ctx context.Context, all []process, limit time.Duration) {
	sum := func() (n float64) {
		for _, p := range all {
			n += p.cpu()
		}
		return n
	}
	const wait = 3 * time.Second
	for end := time.Now().Add(limit); time.Now().Before(end) && ctx.Err() == nil; {
		before := sum()
		time.Sleep(wait)
		if sum()-before < wait.Seconds()/10 {
			return
		}
	}
}

// run starts a program whose output goes to a file, and returns a function that ends it.
func run(ctx context.Context, file string, env []string, name string, args ...string) (cmd *exec.Cmd, stop func(), err error) {
	log, err := os.Create(file)
	if err != nil {
		return nil, nil, err
	}
	cmd = exec.CommandContext(context.WithoutCancel(ctx), name, args...) // stop ends it
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	return cmd, func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		_ = log.Close()
	}, nil
}

// sizeOf returns the space that a folder takes on disk, in bytes.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
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
