/*
Package hooked prepares the environment in which Python and Node.js programs, and what they start, load the hook without a change of
their code.

	PYTHONPATH      the directory of sitecustomize.py, before what is there; it runs the sitecustomize that it hides
	NODE_OPTIONS    --require preload.cjs, after what is there
	LLMTAP_SERVICE  the name in pyproject.toml or package.json, else of the directory
	LLMTAP_SERVICE_VERSION  git describe --always --dirty

Both files load the package llmtap of the program, if it is installed; else they say so on standard error, once, and the program runs as
without them. The files are in a directory that stays, because a program that runs longer than llmtap starts others later.
*/
package hooked

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
	"github.com/llmtap/llmtap/ingest/sdk/python"
)

//go:embed preload.cjs
var preload []byte

// gitTimeout is the time after which a version is unknown.
const gitTimeout = 2 * time.Second

// An Env is the environment of a program.
type Env []string

// Get returns the value of a variable, "" if it is unset.
func (e Env) Get(key string) string {
	for _, pair := range e {
		if value, ok := strings.CutPrefix(pair, key+"="); ok {
			return value
		}
	}
	return ""
}

// Set sets a variable, unless value is empty.
func (e *Env) Set(key, value string) {
	if value != "" {
		*e = append(slices.DeleteFunc(*e, func(pair string) bool { return strings.HasPrefix(pair, key+"=") }), key+"="+value)
	}
}

// Load makes Python and Node.js load the hook.
func (e *Env) Load() error {
	dir, err := files()
	if err != nil {
		return err
	}
	path := dir
	if old := e.Get("PYTHONPATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	e.Set("PYTHONPATH", path)
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(filepath.Join(dir, "preload.cjs"))
	e.Set("NODE_OPTIONS", strings.TrimSpace(e.Get("NODE_OPTIONS")+` --require="`+quoted+`"`))
	return nil
}

// Label sets the service and its version, unless the environment has those of OpenTelemetry or of llmtap. dir is the working
// directory of the program.
func (e *Env) Label(ctx context.Context, dir string) {
	resource := e.Get(event.EnvResourceAttributes)
	if e.Get(event.EnvService)+e.Get(event.EnvServiceName) == "" && !strings.Contains(resource, "service.name=") {
		e.Set(event.EnvService, project(dir))
	}
	if e.Get(event.EnvServiceVersion) == "" && !strings.Contains(resource, "service.version=") {
		ctx, cancel := context.WithTimeout(ctx, gitTimeout)
		defer cancel()
		// Without git or a repository, the hook looks for a version itself.
		if out, err := exec.CommandContext(ctx, "git", "-C", dir, "describe", "--always", "--dirty").Output(); err == nil {
			e.Set(event.EnvServiceVersion, strings.TrimSpace(string(out)))
		}
	}
}

// files returns the directory of the files, which it writes if they are not there.
func files() (dir string, err error) {
	all := map[string][]byte{"sitecustomize.py": python.SiteCustomize, "preload.cjs": preload}
	sum := sha256.Sum256(append(all["sitecustomize.py"], preload...))
	cache, err := os.UserCacheDir()
	if dir = filepath.Join(cache, "llmtap", "hooked-"+hex.EncodeToString(sum[:8])); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil { // such as a root file system that is read-only
		if dir, err = os.MkdirTemp("", "llmtap-hooked-"); err != nil {
			return "", fmt.Errorf("create a directory for the hook: %w", err)
		}
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) {
			continue
		}
		// Another llmtap run may be writing the file, and programs may be reading it.
		fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
		if err := os.WriteFile(fresh, text, 0o600); err != nil {
			return "", fmt.Errorf("write the hook: %w", err)
		}
		if err := os.Rename(fresh, path); err != nil {
			return "", fmt.Errorf("write the hook: %w", err)
		}
	}
	return dir, nil
}

// project returns the name of the project that dir is in: that of the nearest pyproject.toml or package.json with a name, else that of
// the directory.
func project(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if name := cmp.Or(pyproject(filepath.Join(at, "pyproject.toml")), packageJSON(filepath.Join(at, "package.json"))); name != "" {
			return name
		}
		if at == filepath.Dir(at) {
			return filepath.Base(dir)
		}
	}
}

var (
	tomlTable = regexp.MustCompile(`^\s*\[\s*([\w.-]+)\s*\]`)
	tomlName  = regexp.MustCompile(`^\s*name\s*=\s*["']([^"']+)["']`)
)

// pyproject returns the name in a pyproject.toml, which is one line of the table project or, with old versions of Poetry, of its own.
func pyproject(path string) string {
	text, _ := os.ReadFile(path) // a file that cannot be read has no name
	table := ""
	for line := range strings.Lines(string(text)) {
		if m := tomlTable.FindStringSubmatch(line); m != nil {
			table = m[1]
		} else if m := tomlName.FindStringSubmatch(line); m != nil && (table == "project" || table == "tool.poetry") {
			return m[1]
		}
	}
	return ""
}

func packageJSON(path string) string {
	text, _ := os.ReadFile(path)
	var p struct{ Name string }
	_ = json.Unmarshal(text, &p) // an invalid file has no name
	return p.Name
}
