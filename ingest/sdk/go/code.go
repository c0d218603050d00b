package llmtap

import (
	"maps"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/llmtap/llmtap/ingest/sdk/go/event"
)

const (
	nearFrames = 24   // frames of most calls between the transport and the agent
	maxFrames  = 128  // frames that are searched for the agent's
	maxPlaces  = 8192 // places that are remembered; more are found again each time
)

// places finds the agent's own frame on a stack: the first of the main module or, without build information, the first of
// neither the standard library, nor a module's cache or vendor folder, nor the hook.
type places struct {
	main    string // path of the main module; "" if unknown
	program string // path of the main package

	mu    sync.Mutex                         // held to replace known
	known atomic.Pointer[map[uintptr]string] // by program counter: the agent's code, "" for a frame of others; immutable
}

// agentCode is shared by all hooks of the process.
var agentCode = sync.OnceValue(func() *places {
	p := new(places)
	if bi, ok := debug.ReadBuildInfo(); ok {
		p.main, p.program = bi.Main.Path, bi.Path
	}
	p.known.Store(new(map[uintptr]string))
	return p
})

// own is the package path of the hook.
var own = reflect.TypeFor[Hook]().PkgPath()

// caller returns the place in the agent's code that led to the current call, or "". It does not allocate if the frames are known.
func (p *places) caller() string {
	var near [nearFrames]uintptr
	n := runtime.Callers(2, near[:])
	code, found := p.first(near[:n])
	if found || n < nearFrames {
		return code
	}
	return p.farCaller()
}

// farCaller is caller for a stack of more than nearFrames frames.
func (p *places) farCaller() string {
	var far [maxFrames]uintptr
	code, _ := p.first(far[:runtime.Callers(3+nearFrames, far[:])])
	return code
}

// first returns the first place of the agent's code in pcs.
func (p *places) first(pcs []uintptr) (code string, found bool) {
	known := *p.known.Load()
	for _, pc := range pcs {
		code, ok := known[pc]
		if !ok {
			code = p.learn(pc)
		}
		if code != "" {
			return code, true
		}
	}
	return "", false
}

// learn returns the place of pc and remembers it.
func (p *places) learn(pc uintptr) string {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	code := p.place(&f)
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := *p.known.Load(); len(known) < maxPlaces {
		next := make(map[uintptr]string, len(known)+1)
		maps.Copy(next, known)
		next[pc] = code
		p.known.Store(&next)
	}
	return code
}

// place returns the place of a frame in the agent's code; "" if it belongs to others.
func (p *places) place(f *runtime.Frame) string {
	pkg, function := splitFunction(f.Function)
	dir, ok := p.dir(pkg, f.File)
	if !ok || f.Line <= 0 || pkg == own && !strings.HasSuffix(f.File, "_test.go") {
		return ""
	}
	function = strings.NewReplacer("(*", "", ")", "", "[...]", "").Replace(function)
	return event.Code{File: path.Join(dir, path.Base(f.File)), Line: f.Line, Function: function}.String()
}

// dir returns the folder of a package of the agent, relative to its module. The name of a file may contain the folders of the
// machine that built the program, or be relative to something else.
func (p *places) dir(pkg, file string) (string, bool) {
	if pkg == "main" && p.program != "" {
		pkg = p.program
	}
	pkg = strings.TrimSuffix(pkg, "_test") // the package of an external test is in the folder of the package
	switch {
	case p.main == "" || p.main == "command-line-arguments":
		first, _, _ := strings.Cut(pkg, "/")
		others := strings.Contains(file, "/pkg/mod/") || strings.Contains(file, "/vendor/") || strings.Contains(file, "@")
		if first != "main" && !strings.Contains(first, ".") || others { // of the standard library, whose paths have no host, or of a module
			return "", false
		}
		return strings.TrimPrefix(pkg, "main"), true
	case pkg == p.main:
		return "", true
	}
	return strings.CutPrefix(pkg, p.main+"/")
}

// splitFunction splits the name of a function, such as github.com/acme/agent/core.(*Agent).Run, after the path of its package.
func splitFunction(name string) (pkg, function string) {
	plain, _, _ := strings.Cut(name, "[") // type arguments may contain paths
	slash := strings.LastIndexByte(plain, '/')
	dot := strings.IndexByte(name[slash+1:], '.')
	if dot < 0 {
		return name, ""
	}
	dot += slash + 1
	return strings.ReplaceAll(name[:dot], "%2e", "."), name[dot+1:]
}
