// Command testhelper serves the tests of the hooks: a real NATS server, and the Go reference of shapes, events and redaction.
//
//	testhelper nats DIR PORT [MAX_PAYLOAD]  runs nats-server with the event stream until standard input ends, and prints its port
//	testhelper faults                       serves package faults on loopback until standard input ends, and prints the port
//	testhelper shape KEY                    prints the shape (base64) of each line {"kind", "dialect", "body", "limit"}; body is base64
//	testhelper event                        prints subject, stage, message id and dialect of each line {"service", "agent", "conversation", "instance", "text", "path"}
//	testhelper redact                       prints the masked text and the cut text of each line {"body", "limit"}
//
// The Python package contains copies of the files that all hooks read.
//
//go:generate cp ../testdata/shape_paths.json ../python/llmtap/_shape/shape_paths.json
//go:generate cp ../testdata/redact.json ../python/llmtap/redact.json
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/go/event/redact"
	"github.com/llmtap/llmtap/ingest/sdk/go/shape"
	"github.com/llmtap/llmtap/ingest/sdk/go/wire"
	"github.com/llmtap/llmtap/ingest/sdk/testhelper/faults"
	"github.com/llmtap/llmtap/ingest/sdk/testhelper/natsd"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	switch {
	case (len(args) == 3 || len(args) == 4) && args[0] == "nats":
		return runNATS(args[1], args[2:], in, out)
	case len(args) == 1 && args[0] == "faults":
		return runFaults(in, out)
	case len(args) == 2 && args[0] == "shape":
		return runShape([]byte(args[1]), in, out)
	case len(args) == 1 && args[0] == "event":
		return runEvent(in, out)
	case len(args) == 1 && args[0] == "redact":
		return runRedact(in, out)
	}
	return errors.New("usage: testhelper nats DIR PORT [MAX_PAYLOAD] | faults | shape KEY | event | redact")
}

// runNATS runs nats-server until in ends. numbers are the port (-1: any free port) and, optionally, the maximum
// payload.
func runNATS(dir string, numbers []string, in io.Reader, out io.Writer) error {
	var n [2]int
	for i, s := range numbers {
		var err error
		if n[i], err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("parse port and payload: %w", err)
		}
	}
	srv, err := natsd.Start(dir, n[0], n[1], nil)
	if err != nil {
		return err
	}
	defer natsd.Stop(srv)
	return untilEnd(srv.Addr(), in, out)
}

// untilEnd prints the port of a and waits until in ends.
func untilEnd(a net.Addr, in io.Reader, out io.Writer) error {
	addr, ok := a.(*net.TCPAddr)
	if !ok {
		return errors.New("the server listens on no TCP port")
	}
	fmt.Fprintln(out, addr.Port)
	_, err := io.Copy(io.Discard, in)
	return err
}

func runFaults(in io.Reader, out io.Writer) error {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = l.Close() }()
	go faults.Serve(l)
	return untilEnd(l.Addr(), in, out)
}

func runShape(key []byte, in io.Reader, out io.Writer) error {
	s := shape.New(key)
	var line struct {
		Kind    string
		Dialect wire.Dialect
		Body    []byte
		Limit   int
	}
	return each(in, out, &line, func() any {
		if line.Kind == "request" {
			return s.Request(line.Dialect, line.Body, line.Limit)
		}
		return s.Response(line.Dialect, line.Body, line.Limit)
	})
}

func runEvent(in io.Reader, out io.Writer) error {
	var line struct {
		Service, Agent, Conversation, Instance, Text, Path string
		HookStatus                                         string
		Uncaptured, Seq                                    uint64
	}
	return each(in, out, &line, func() any {
		ev := event.Event{Kind: event.Run, RunStatus: event.StatusOK, Instance: line.Instance}
		if line.Uncaptured > 0 {
			ev.Kind, ev.Uncaptured, ev.HookStatus, ev.Seq = event.Hook, line.Uncaptured, line.HookStatus, line.Seq
		}
		ev.Labels = event.Labels{Service: line.Service, Agent: line.Agent, Conversation: line.Conversation, Run: line.Text, Stage: line.Text}
		h := ev.Encode()
		return []string{ev.Subject(), first(h[event.HeaderStage]), first(h[event.HeaderMsgID]), string(wire.PathDialect(line.Path)), first(h[event.HeaderUncaptured]), first(h[event.HeaderHookStatus])}
	})
}

func runRedact(in io.Reader, out io.Writer) error {
	var line struct {
		Body  []byte
		Limit int
	}
	return each(in, out, &line, func() any {
		return [][]byte{redact.Append(nil, line.Body), redact.Truncate(line.Body, line.Limit)}
	})
}

func first(v []string) string {
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// each decodes each JSON value of in into line, calls f, and writes the result of f to out as JSON.
func each[T any](in io.Reader, out io.Writer, line *T, f func() any) error {
	w := bufio.NewWriter(out)
	enc, dec := json.NewEncoder(w), json.NewDecoder(in)
	enc.SetEscapeHTML(false)
	for {
		*line = *new(T)
		err := dec.Decode(line)
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err != nil {
			return fmt.Errorf("decode line: %w", err)
		}
		if err := enc.Encode(f()); err != nil {
			return fmt.Errorf("encode result: %w", err)
		}
	}
}
