package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/llmtap/llmtap/sinks/chdb"
)

func main() {
	chdb.RunChild()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]...); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args ...string) error {
	modes := map[string]func(context.Context, io.Writer, *flag.FlagSet, []string) error{"compare": compare, "proxy": proxies, "rate": rate, "size": size, "stores": stores, "reverse-proxy": reverseProxy, "agent": agent}
	if len(args) == 0 || modes[args[0]] == nil {
		return fmt.Errorf("the first argument is compare, proxy, rate, size or stores; see -help of each")
	}
	return modes[args[0]](ctx, out, flag.NewFlagSet(args[0], flag.ExitOnError), args[1:])
}

// options are those of compare and rate.
type options struct {
	binary, output, env string
	keep                bool
}

func (o *options) flags(f *flag.FlagSet) {
	f.StringVar(&o.binary, "llmtap", "", "llmtap binary; empty: build it")
	f.StringVar(&o.output, "json", "", "file to which each result is appended as a line of JSON")
	f.StringVar(&o.env, "env", "", "environment of llmtap, such as GOGC=400,LLMTAP_BATCHER_MAX_ROWS=100000")
	f.BoolVar(&o.keep, "keep", false, "keep the data directories")
}

func (o *options) environment() []string {
	return strings.FieldsFunc(o.env, func(c rune) bool { return c == ',' })
}

// build builds llmtap, unless its binary is given, and returns the directory of built programs.
func (o *options) build(ctx context.Context) (cache string, err error) {
	if cache, err = os.UserCacheDir(); err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "llmtap", "bench")
	if err := os.MkdirAll(cache, 0o755); err != nil || o.binary != "" {
		return cache, err
	}
	o.binary = filepath.Join(cache, "llmtap")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", o.binary, "github.com/llmtap/llmtap/cmd/llmtap").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build llmtap: %w\n%s", err, out)
	}
	return cache, nil
}

// inDir calls f with a new directory.
func (o *options) inDir(f func(dir string) error) error {
	dir, err := os.MkdirTemp("", "llmtap-bench-")
	if err != nil {
		return err
	}
	if !o.keep {
		defer func() { _ = os.RemoveAll(dir) }() // a leftover directory does no harm
	}
	return f(dir)
}

// record writes r as JSON.
func (o *options) record(r *result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s\n", line)
	if o.output == "" {
		return nil
	}
	out, err := os.OpenFile(o.output, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := out.Write(append(line, '\n')); err != nil {
		return err
	}
	return out.Close()
}
