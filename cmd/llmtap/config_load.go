package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// systemConfig is read when no other file is named, so that whoever is on call need not know where it is. A file in
// the working directory is never read unasked: it may be anyone's.
const systemConfig = "/etc/llmtap/llmtap.yaml"

// Where a value comes from.
const (
	fromDefault = "default"
	fromFile    = "file"
	fromEnv     = "env"
	fromFlag    = "flag"
)

// An origin is where a value comes from: a kind of source, and the place in it.
type origin struct{ kind, at string }

func (o origin) String() string {
	if o.at == "" {
		return fromDefault
	}
	return o.at
}

// A configError is a mistake in the configuration and where it stands.
type configError struct {
	origin origin
	err    error
}

func (e *configError) Error() string {
	if e.origin.at == "" {
		return e.err.Error()
	}
	return e.origin.at + ": " + e.err.Error()
}

func (e *configError) Unwrap() error { return e.err }

// settings are a configuration and where each of its values comes from.
type settings struct {
	Config
	file    string            // "" when there is none
	origins map[string]origin // by key; a key that has none has its default
}

// keyFlags are the flags that set a key of the configuration. Every other key has its environment variable only.
var keyFlags = []struct{ name, key, usage string }{
	{"data-dir", "data_dir", "`directory` of the embedded NATS and ClickHouse"},
	{"roles", "roles", "`roles` of this process"},
	{"partitions", "partitions", "`number` of partitions of the stream that analyzers share, the same for all processes"},
	{"listen", "listen", "`address` of /healthz, /readyz and /metrics"},
	{"nats-url", "nats.url", "NATS `url`; empty: an embedded server"},
	{"nats-port", "nats_server.port", "`port` of the embedded NATS server, -1: a free one"},
	{"proxy-listen", "proxy.listen", "`address` of the proxy; other than loopback it needs LLMTAP_PROXY_TOKEN"},
	{"proxy-capture", "proxy.capture", "what the proxy records of bodies: `shape|full|none`; of error answers at least the first 4 KiB"},
	{"proxy-upstream", "proxy.upstreams", "`name=url` that the proxy reaches beside the known providers; may be repeated"},
	{"clickhouse-dsn", "clickhouse.dsn", "ClickHouse `dsn`; empty: an embedded engine"},
	{"slack-token-file", "slack.token_file", "`file` with a Slack bot token (chat:write); or LLMTAP_SLACK_TOKEN"},
	{"slack-channel", "slack.channel", "Slack `channel` that alerts go to"},
	{"log-format", "log_format", "logs as `text|json`"},
}

// flagEnv is the variable that sets the flag of this name.
func flagEnv(name string) string {
	return "LLMTAP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// A keyFlag remembers what it is set to, in order: by the environment, then by the arguments.
type keyFlag struct {
	name, text string // text is the default
	values     []string
}

func (f *keyFlag) String() string     { return f.text }
func (f *keyFlag) Set(v string) error { f.values = append(f.values, v); return nil }

// configArgs are the flags of a command that loads the configuration.
type configArgs struct {
	c     *cli
	fs    *flag.FlagSet
	file  *string
	flags map[string]*keyFlag // by key
}

// configFlags adds the flags of the configuration to fs.
func (c *cli) configFlags(fs *flag.FlagSet) *configArgs {
	cfg := defaultConfig(c.getenv)
	a := &configArgs{c: c, fs: fs, flags: map[string]*keyFlag{}}
	a.file = fs.String("config", "", "configuration `file`; "+systemConfig+" when there is one")
	for _, k := range configKeys(reflect.ValueOf(&cfg).Elem(), "") {
		for _, f := range keyFlags {
			if f.key == k.path {
				a.flags[k.path] = &keyFlag{name: f.name, text: plainText(k)}
				fs.Var(a.flags[k.path], f.name, f.usage)
			}
		}
	}
	return a
}

// load parses the arguments and reads the configuration.
func (a *configArgs) load() (*settings, error) {
	if err := a.c.parse(a.fs); err != nil {
		return nil, err
	}
	return a.read()
}

// read reads the configuration after the arguments were parsed: flags win over the environment, that over the file, that
// over the defaults. Its error lists every mistake.
func (a *configArgs) read() (*settings, error) {
	s := &settings{Config: defaults(), file: *a.file, origins: map[string]origin{}}
	if s.file == "" {
		if _, err := os.Stat(systemConfig); err == nil {
			s.file = systemConfig
		}
	}
	var errs []error
	if s.file != "" {
		data, err := os.ReadFile(s.file)
		if err != nil {
			return nil, &exitError{exitBadInput, fmt.Errorf("read the configuration: %w", err)}
		}
		errs = decodeYAML(s.file, data, &s.Config, a.c.getenv, s.origins)
	}
	for _, k := range configKeys(reflect.ValueOf(&s.Config).Elem(), "") {
		errs = append(errs, a.override(s, &k)...)
	}
	if s.DataDir == "" {
		s.DataDir = defaultDataDir(a.c.getenv)
	}
	for _, err := range flatten(s.validate()) {
		errs = append(errs, &configError{s.origin(err.Error()), err})
	}
	return s, mistakes(errs)
}

// override sets k from its environment variable and its flag.
func (a *configArgs) override(s *settings, k *configKey) (errs []error) {
	set := func(o origin, text string) {
		if err := setText(k.value, k.tag, text); err != nil {
			errs = append(errs, &configError{o, fmt.Errorf("%s: %w", k.path, err)})
		}
		s.origins[k.path] = o
	}
	if v := a.c.getenv(k.env()); v != "" {
		set(origin{fromEnv, k.env()}, v)
	}
	f := a.flags[k.path]
	if f == nil {
		return errs
	}
	given := f.values
	if variable := flagEnv(f.name); a.c.getenv(variable) != "" { // parse has set the flag from it first
		if variable != k.env() {
			set(origin{fromEnv, variable}, given[0])
		}
		given = given[1:]
	}
	if len(given) == 0 {
		return errs
	}
	text := given[len(given)-1]
	if k.value.Kind() == reflect.Map { // its flag may be repeated
		text = strings.Join(given, ",")
	}
	set(origin{fromFlag, "--" + f.name}, text)
	return errs
}

var itemIndex = regexp.MustCompile(`\[\d+\]$`)

// origin finds where the mistake with this text stands. The text begins with a key, or several separated by commas,
// and a colon; the first that was set somewhere counts.
func (s *settings) origin(text string) origin {
	keys, _, _ := strings.Cut(text, ": ")
	section, _, _ := strings.Cut(keys, ",")
	section = section[:strings.LastIndexByte(section, '.')+1]
	for key := range strings.SplitSeq(keys, ", ") {
		if !strings.HasPrefix(key, section) {
			key = section + key // nats.user, token
		}
		for {
			if o, ok := s.origins[key]; ok {
				return o
			}
			shorter := itemIndex.ReplaceAllString(key, "")
			if shorter == key {
				break
			}
			key = shorter
		}
	}
	return s.origins[strings.TrimSuffix(section, ".")] // something is missing in it
}

// mistakes makes one error of all that is wrong, in the order of the lines.
func mistakes(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	err := errs[0]
	if len(errs) > 1 {
		err = fmt.Errorf("the configuration has %d mistakes\n%w", len(errs), errors.Join(errs...))
	}
	return &exitError{exitBadInput, err}
}

// line is the line of the file that err is about; what is not in a file comes last.
func line(err error) int {
	ce, ok := errors.AsType[*configError](err)
	if !ok || ce.origin.kind != fromFile {
		return 1 << 30
	}
	n := 0
	_, _ = fmt.Sscanf(ce.origin.at[strings.LastIndexByte(ce.origin.at, ':')+1:], "%d", &n)
	return n
}
