package config

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// SystemFile is read if no other file is configured, so that an on-call engineer need not know its path. A file in the
// working directory is never read implicitly, because anyone may have put it there. Only tests change it.
var SystemFile = "/etc/llmtap/llmtap.yaml"

// Effective is a configuration with the origin of each value.
type Effective struct {
	Config
	File    string            // "" if no file was read
	origins map[string]string // origins by key: file:line, variable or flag; keys with default values are absent
}

// Origin returns the origin of the value of key: file:line, an environment variable, a flag, or default.
func (e *Effective) Origin(key string) string { return cmp.Or(e.origins[key], "default") }

// Source names the configuration file.
func (e *Effective) Source() string { return cmp.Or(e.File, "no configuration file") }

// An InvalidError contains all errors in the configuration, or the error of reading its file.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }
func (e *InvalidError) Unwrap() error { return e.Err }

// A valueError is one error in the configuration.
type valueError struct {
	origin string
	err    error
}

func (e *valueError) Error() string { return strings.TrimPrefix(e.origin+": "+e.err.Error(), ": ") }

// keyFlags contains the flags that set configuration keys, by key. Other keys have only an environment variable.
var keyFlags = map[string]struct{ name, usage string }{
	"data_dir":                 {"data-dir", "`directory` of the embedded NATS and ClickHouse"},
	"roles":                    {"roles", "`roles` of this process, separated by commas"},
	"partitions":               {"partitions", "`number` of event stream partitions; must be the same in all processes"},
	"listen":                   {"listen", "`address` of health, metrics and queries; if not loopback, LLMTAP_HTTP_TOKEN is required"},
	"nats.url":                 {"nats-url", "`url`: URL of NATS; empty: the embedded server; or LLMTAP_COLLECTOR_NATS_URL"},
	"nats_server.port":         {"nats-port", "`port` of the embedded NATS server; -1: a free port"},
	"proxy.listen":             {"proxy-listen", "`address` of the proxy; if not loopback, LLMTAP_PROXY_TOKEN is required"},
	"proxy.capture":            {"proxy-capture", "`mode`: what the proxy records of bodies: shape, full, none; error bodies always up to 4 KiB"},
	"proxy.upstreams":          {"proxy-upstream", "`name=url`: upstream besides the known providers; may be repeated"},
	"receive.grpc_listen":      {"receive-grpc-listen", "`address` of the listener for OpenTelemetry over gRPC; empty for none; if not loopback, LLMTAP_RECEIVE_TOKEN is required"},
	"receive.listen":           {"receive-listen", "`address` of the listener for events over HTTP; if not loopback, LLMTAP_RECEIVE_TOKEN is required"},
	"clickhouse.dsn":           {"clickhouse-dsn", "`dsn`: DSN of ClickHouse; empty: the embedded engine"},
	"clickhouse.password_file": {"clickhouse-password-file", "`file` with the ClickHouse password"},
	"slack.token_file":         {"slack-token-file", "`file` with a Slack bot token (chat:write); or LLMTAP_SLACK_TOKEN"},
	"slack.channel":            {"slack-channel", "Slack `channel` for alerts"},
	"ui.listen":                {"ui-listen", "`address` of the web pages; if not loopback, LLMTAP_UI_TOKEN is required"},
	"log_format":               {"log-format", "`format`: log format: text, json"},
}

// collectorNATS is the environment variable for nats.url. LLMTAP_NATS_URL is a variable of the hooks: a collector that read
// it would not start its embedded server.
const collectorNATS = "LLMTAP_COLLECTOR_NATS_URL"

// FlagEnv returns the environment variable for the flag with this name.
func FlagEnv(name string) string {
	if name == keyFlags["nats.url"].name {
		return collectorNATS
	}
	return "LLMTAP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// A keyFlag records the arguments of a flag; Load applies them.
type keyFlag struct {
	text string // text of the default value
	args []string
}

func (f *keyFlag) String() string     { return f.text }
func (f *keyFlag) Set(v string) error { f.args = append(f.args, v); return nil }

// Flags are the configuration flags of a command.
type Flags struct {
	File   string // set by --config
	getenv func(string) string
	flags  map[string]*keyFlag // flags by name
}

// AddFlags adds --config and the flags of keys (of all keys if none are given) to fs. After ReadEnv and fs.Parse, call
// Load.
func AddFlags(fs *flag.FlagSet, getenv func(string) string, keys ...string) *Flags {
	cfg := Default()
	cfg.DataDir = defaultDataDir(getenv)
	f := &Flags{getenv: getenv, flags: map[string]*keyFlag{}}
	fs.StringVar(&f.File, "config", "", "configuration `file`; default "+SystemFile+" if it exists")
	for _, k := range cfg.Keys() {
		if kf, ok := keyFlags[k.Path]; ok && (len(keys) == 0 || slices.Contains(keys, k.Path)) {
			f.flags[kf.name] = &keyFlag{text: k.flagText()}
			fs.Var(f.flags[kf.name], kf.name, kf.usage)
		}
	}
	return f
}

// Implicit reports whether no configuration file is named, so that Load reads SystemFile if it exists.
func (f *Flags) Implicit() bool { return cmp.Or(f.File, f.getenv(FlagEnv("config"))) == "" }

// ReadEnv sets the flags of fs, except those of keys, from the environment (LLMTAP_<FLAG>).
func ReadEnv(fs *flag.FlagSet, getenv func(string) string) error {
	var errs []error
	fs.VisitAll(func(f *flag.Flag) {
		v := getenv(FlagEnv(f.Name))
		if _, ok := f.Value.(*keyFlag); ok || v == "" {
			return // Load reads the environment variables of keys
		}
		if err := fs.Set(f.Name, v); err != nil {
			errs = append(errs, fmt.Errorf("invalid value %q for %s: %w", v, FlagEnv(f.Name), err))
		}
	})
	return errors.Join(errs...)
}

// Load reads the configuration for a command without configuration flags. If file is empty, LLMTAP_CONFIG or SystemFile is
// used.
func Load(file string, getenv func(string) string) (*Effective, error) {
	return (&Flags{File: file, getenv: getenv}).Load()
}

// Load reads the configuration: flags override the environment, which overrides the file, which overrides the defaults. The
// error is an *InvalidError, which contains a *PermissionError if the user may not read the file; the configuration is then
// that without the file. Files that contain secrets are not read.
func (f *Flags) Load() (*Effective, error) {
	e := &Effective{Config: Default(), File: cmp.Or(f.File, f.getenv(FlagEnv("config"))), origins: map[string]string{}}
	if e.File == "" {
		if _, err := os.Stat(SystemFile); !errors.Is(err, fs.ErrNotExist) {
			e.File = SystemFile
		}
	}
	var errs []error
	if e.File != "" {
		data, err := os.ReadFile(e.File)
		err = Denied(e.File, err)
		switch _, denied := errors.AsType[*PermissionError](err); {
		case denied:
			errs = []error{err}
		case err != nil:
			return nil, &InvalidError{fmt.Errorf("read configuration: %w", err)}
		default:
			errs = decodeYAML(e.File, data, &e.Config, f.getenv, e.origins)
		}
	}
	for _, k := range e.Keys() {
		errs = append(errs, f.override(e, &k)...)
	}
	if e.DataDir == "" {
		e.DataDir = defaultDataDir(f.getenv)
	}
	for _, err := range flatten(e.Validate()) {
		errs = append(errs, &valueError{e.originOf(err.Error()), err})
	}
	if err := join(errs); err != nil {
		return e, &InvalidError{err}
	}
	return e, nil
}

// override sets k from its environment variable, then from the variable of its flag, then from the flag.
func (f *Flags) override(e *Effective, k *Key) (errs []error) {
	set := func(origin, text string) {
		if err := setText(k.value, k.tag, text); err != nil {
			errs = append(errs, &valueError{origin, fmt.Errorf("%s: %w", k.Path, err)})
		}
		e.origins[k.Path] = origin
	}
	name := keyFlags[k.Path].name
	for _, variable := range []string{k.env(), FlagEnv(name)} {
		if v := f.getenv(variable); v != "" && e.origins[k.Path] != variable {
			set(variable, v)
		}
	}
	if kf := f.flags[name]; kf != nil && len(kf.args) > 0 {
		text := kf.args[len(kf.args)-1]
		if k.value.Kind() == reflect.Map { // the flag of a map may be repeated
			text = strings.Join(kf.args, ",")
		}
		set("--"+name, text)
	}
	return errs
}

var itemIndex = regexp.MustCompile(`\[\d+\]$`)

// originOf returns the origin of the value that a validation error is about. text begins with one key or several
// comma-separated keys and a colon; the first key that is set determines the origin.
func (e *Effective) originOf(text string) string {
	keys, _, _ := strings.Cut(text, ": ")
	section, _, _ := strings.Cut(keys, ",")
	section = section[:strings.LastIndexByte(section, '.')+1]
	for key := range strings.SplitSeq(keys, ", ") {
		if !strings.HasPrefix(key, section) {
			key = section + key // such as "nats.user, token"
		}
		for {
			if o, ok := e.origins[key]; ok {
				return o
			}
			shorter := itemIndex.ReplaceAllString(key, "")
			if shorter == key {
				break
			}
			key = shorter
		}
	}
	return e.origins[strings.TrimSuffix(section, ".")] // a required key of the section is missing
}

// join joins errs in the order of their lines in the file.
func join(errs []error) error {
	slices.SortStableFunc(errs, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%d configuration errors\n%w", len(errs), errors.Join(errs...))
}

// line returns the line of err in the file; errors in other places sort last.
func line(err error) int {
	if ve, ok := errors.AsType[*valueError](err); ok {
		if n, err := strconv.Atoi(ve.origin[strings.LastIndexByte(ve.origin, ':')+1:]); err == nil {
			return n
		}
	}
	return math.MaxInt
}
