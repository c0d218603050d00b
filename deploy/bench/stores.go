package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/llmtap/llmtap/deploy/bench/load"
	"github.com/llmtap/llmtap/deploy/bench/process"
)

// stores measures llmtap, Phoenix and MLflow with the same spans of LLM calls over HTTP, each with the database that it has by
// default: the last two with SQLite. LiteLLM is left out: its database needs PostgreSQL and an engine that pip does not bring.
func stores(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	var o options
	o.flags(flags)
	runs := flags.Int("runs", 3, "runs of each store, in turns")
	calls := flags.Int("calls", 2000, "calls of each run; llmtap gets 20 times as many")
	only := flags.String("only", "", "stores to run, separated by commas: llmtap, phoenix, mlflow")
	_ = flags.Parse(args) // exits
	cache, err := o.build(ctx)
	if err != nil {
		return err
	}
	text, err := readCorpus(ctx)
	if err != nil {
		return err
	}
	sides := []struct {
		name  string
		calls int
		start func(context.Context, *site) (subject, func(), error)
	}{{"llmtap", 20 * *calls, startReceive}, {"phoenix", *calls, startPhoenix}, {"mlflow", *calls, startMLflow}}
	results := make([][]*result, len(sides))
	for range *runs {
		for i, side := range sides {
			if *only != "" && !slices.Contains(strings.Split(*only, ","), side.name) {
				continue
			}
			err := o.inDir(func(dir string) error {
				s := site{options: &o, cache: cache, dir: dir}
				if err := s.listen(ctx); err != nil {
					return err
				}
				subject, stop, err := side.start(ctx, &s)
				if err != nil {
					return err
				}
				defer stop()
				r := &result{Workload: "10KB", Side: side.name}
				publish := func(sent *published) error {
					return export(ctx, httpExporter("http://"+s.addr+"/v1/traces"), conventional(single(text, "10KB", 10_000, side.calls)), sent, false)
				}
				if err := subject.measure(ctx, r, publish, func(int) {}); err != nil {
					return err
				}
				results[i] = append(results[i], r)
				return o.record(r)
			})
			if err != nil {
				fmt.Fprintf(os.Stderr, "bench: %s is left out: %v\n", side.name, err)
			}
		}
	}
	printResults(out, "spans of 10 KB over HTTP", results...)
	return nil
}

// conventional returns w with bodies as the semantic conventions have them in the attributes of messages.
func conventional(w load.Workload) load.Workload {
	calls := w.Calls
	convert := func(messages ...message) (all []load.Object) {
		for _, m := range messages {
			all = append(all, load.Object{"role": m.Role, "parts": []load.Object{{"type": "text", "content": m.Content}}})
		}
		return all
	}
	w.Calls = func(yield func(*load.Call) bool) (err error) {
		var request struct{ Messages []message }
		var response struct{ Choices []struct{ Message message } }
		return errors.Join(calls(func(c *load.Call) bool {
			if err = errors.Join(json.Unmarshal(c.Request, &request), json.Unmarshal(c.Response, &response)); err != nil {
				return false
			}
			c.Request, c.Response = load.Marshal(convert(request.Messages...)), load.Marshal(convert(response.Choices[0].Message))
			return yield(c)
		}), err)
	}
	return w
}

// A message is one of single calls.
type message struct{ Role, Content string }

// httpExporter sends spans to url as an exporter of OpenTelemetry does: again, if it is told to wait.
func httpExporter(url string) exporter {
	return func(ctx context.Context, spans ptraceotlp.ExportRequest) error {
		body, err := spans.MarshalProto()
		for ; err == nil; time.Sleep(time.Second) {
			q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
			if err != nil {
				return err
			}
			q.Header.Set("Content-Type", "application/x-protobuf")
			q.Header.Set("X-Mlflow-Experiment-Id", "0") // the default one
			res, err := http.DefaultClient.Do(q)
			if err != nil {
				return err
			}
			answer, err := io.ReadAll(res.Body)
			_ = res.Body.Close() // read to its end
			switch {
			case err != nil || res.StatusCode == http.StatusOK:
				return err
			case res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable:
				return fmt.Errorf("%s: %s: %.300s", url, res.Status, answer)
			}
		}
		return err
	}
}

func startReceive(ctx context.Context, s *site) (subject, func(), error) {
	config := filepath.Join(s.dir, "full.yaml")
	if err := os.WriteFile(config, []byte("receive: {otlp_capture: full}\n"), 0o600); err != nil {
		return subject{}, nil, err
	}
	t := target{flags: []string{"--config", config, "--receive-listen", s.addr}}
	err := t.startSingle(ctx, s.options, s.dir)
	if err != nil {
		t.close()
	}
	return t.subject(""), t.close, err
}

func startPhoenix(ctx context.Context, s *site) (subject, func(), error) {
	env := []string{"PHOENIX_WORKING_DIR=" + s.dir, "PHOENIX_HOST=" + s.host, "PHOENIX_PORT=" + s.port, "PHOENIX_GRPC_PORT=0", "PHOENIX_TELEMETRY_ENABLED=false"}
	return s.startPython(ctx, phoenix, "phoenix", env, "serve")
}

func startMLflow(ctx context.Context, s *site) (subject, func(), error) {
	env := []string{"MLFLOW_DISABLE_TELEMETRY=true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false"} // its jobs need CPU even if there are none
	return s.startPython(ctx, mlflow, "mlflow", env, "server", "--host", s.host, "--port", s.port, "--workers", "1",
		"--backend-store-uri", "sqlite:///"+filepath.Join(s.dir, "mlflow.db"), "--default-artifact-root", filepath.Join(s.dir, "artifacts"))
}

// startPython starts a program of a Python package that stores spans in an SQLite database.
func (s *site) startPython(ctx context.Context, pkg, program string, env []string, args ...string) (subject, func(), error) {
	bin, err := s.python(ctx, pkg)
	if err != nil {
		return subject{}, nil, err
	}
	g, stop, err := s.start(ctx, &gateway{name: program}, env, filepath.Join(bin, program), args...)
	if err != nil {
		return subject{}, nil, err
	}
	process.Idle(ctx, g.processes, time.Minute)
	return subject{
		processes: g.processes, sqlite: []string{filepath.Join(bin, "python"), filepath.Join(s.dir, program+".db")},
		poll: "SELECT count(*) FROM spans", stored: "SELECT count(*) FROM spans", double: "SELECT count(*) - count(DISTINCT span_id) FROM spans",
	}, stop, nil
}
