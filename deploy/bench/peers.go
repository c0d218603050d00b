package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/llmtap/llmtap/deploy/bench/process"
)

// The peers that pip and npm install.
const (
	liteLLM = "litellm[proxy]==1.108.7"
	portkey = "@portkey-ai/gateway@1.15.2"
	phoenix = "arize-phoenix==20.26.1"
	mlflow  = "mlflow==3.17.2"

	// Every stream of this Portkey ends in "TypeError: immutable", because it adds headers to those of the provider's answer. With
	// this, it does not.
	portkeyStreams = `data:text/javascript,for(const m of["append","delete"]){const f=Headers.prototype[m];Headers.prototype[m]=function(...a){try{return f.apply(this,a)}catch{}}}`

	key = "sk-bench-7d1f4a0c9b3e4f5a8c6d2e1b0f9a8b7c" // of calls through proxies
)

// A site is where a program runs that is measured.
type site struct {
	*options
	cache, dir       string
	addr, host, port string // free on loopback, on which it listens
	upstream         string // URL of the provider, for proxies
}

// listen finds the address on which the program will listen.
func (s *site) listen(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	s.host, s.port, _ = net.SplitHostPort(s.addr) // an address of a listener is valid
	return l.Close()
}

// start starts a program, and waits until it listens.
func (s *site) start(ctx context.Context, g *gateway, env []string, name string, args ...string) (*gateway, func(), error) {
	log := filepath.Join(s.dir, "log")
	cmd, stop, err := process.Start(ctx, log, append(os.Environ(), env...), name, args...)
	if err != nil {
		return nil, nil, err
	}
	if err := listening(ctx, s.addr); err != nil {
		stop()
		return nil, nil, fmt.Errorf("%w; its log ends in %s", err, process.LastLines(log, 5))
	}
	g.processes = process.Tree(process.Process{Name: g.name, PID: cmd.Process.Pid})
	return g, stop, nil
}

// install installs a package into a directory of its own, unless it is there, with commands that run in it.
func (s *site) install(ctx context.Context, pkg string, commands ...[]string) (dir string, err error) {
	dir = filepath.Join(s.cache, filepath.Base(pkg))
	if _, err := os.Stat(filepath.Join(dir, "installed")); err == nil {
		return dir, nil
	}
	fmt.Fprintln(os.Stderr, "installing", pkg, "which may take minutes")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	for _, c := range commands {
		cmd := exec.CommandContext(ctx, c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", c, err, out)
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "installed"), nil, 0o600)
}

// python returns the directory of the programs of a Python package.
func (s *site) python(ctx context.Context, pkg string) (string, error) {
	dir, err := s.install(ctx, pkg, []string{"python3", "-m", "venv", "."}, []string{"bin/pip", "install", "-q", pkg})
	return filepath.Join(dir, "bin"), err
}

func startBare(ctx context.Context, s *site) (*gateway, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	return s.start(ctx, &gateway{name: "a bare Go ReverseProxy", base: "http://" + s.addr + "/v1"}, nil, self, "reverse-proxy", s.addr, s.upstream)
}

// startProxy starts llmtap's proxy with its embedded NATS.
func startProxy(ctx context.Context, s *site) (*gateway, func(), error) {
	return s.startLLMTap(ctx, "llmtap, role proxy", "--roles", "proxy")
}

// startUp starts llmtap with all roles, which analyzes and stores whole bodies.
func startUp(ctx context.Context, s *site) (*gateway, func(), error) {
	g, stop, err := s.startLLMTap(ctx, "llmtap, all roles, whole bodies", "--proxy-capture", "full")
	if err == nil {
		g.processes = process.Tree(g.processes[0]) // the engine too
	}
	return g, stop, err
}

func (s *site) startLLMTap(ctx context.Context, name string, flags ...string) (*gateway, func(), error) {
	flags = append(flags, "--proxy-listen", s.addr, "--proxy-upstream", "bench="+s.upstream)
	l, err := process.StartLLMTap(ctx, s.binary, name, s.dir, s.environment(), flags...)
	if err != nil {
		return nil, nil, err
	}
	header := http.Header{"X-Llmtap-Service": {"bench"}, "X-Llmtap-Environment": {"bench"}}
	return &gateway{name: name, base: "http://" + s.addr + "/bench/v1", header: header, processes: []process.Process{l.Process}}, l.Stop, nil
}

func startLiteLLM(ctx context.Context, s *site) (*gateway, func(), error) {
	bin, err := s.python(ctx, liteLLM)
	if err != nil {
		return nil, nil, err
	}
	config := filepath.Join(s.dir, "config.yaml")
	text := fmt.Sprintf("model_list: [{model_name: gpt-4.1, litellm_params: {model: openai/gpt-4.1, api_base: '%s/v1', api_key: none}}]\n", s.upstream)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, nil, err
	}
	env := []string{"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "LITELLM_MODE=PRODUCTION", "LITELLM_MASTER_KEY=" + key} // nothing is fetched
	return s.start(ctx, &gateway{name: liteLLM, base: "http://" + s.addr + "/v1"}, env,
		filepath.Join(bin, "litellm"), "--config", config, "--host", s.host, "--port", s.port, "--telemetry", "False")
}

func startPortkey(ctx context.Context, s *site) (*gateway, func(), error) {
	dir, err := s.install(ctx, portkey, []string{"npm", "install", "--prefix", ".", portkey})
	if err != nil {
		return nil, nil, err
	}
	g := &gateway{name: portkey, base: "http://" + s.addr + "/v1", header: http.Header{"X-Portkey-Provider": {"openai"}, "X-Portkey-Custom-Host": {s.upstream + "/v1"}}}
	return s.start(ctx, g, []string{"NODE_ENV=production"}, "node", "--import", portkeyStreams,
		filepath.Join(dir, "node_modules", "@portkey-ai", "gateway", "build", "start-server.js"), "--port="+s.port, "--headless")
}
