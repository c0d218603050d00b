package nodetest

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmtap/llmtap/ingest/sdk/go/must"
)

// TestTypeScriptHook builds the TypeScript hook and runs its tests.
func TestTypeScriptHook(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and TypeScript is not checked for races")
	}
	hook := Hook(t)
	Watch(t, "../test")
	Watch(t, "../../testdata")
	helper := filepath.Join(t.TempDir(), "testhelper")
	must.Do(t, run(t, ".", "go", "build", "-o", helper, "../../testhelper"))
	files, err := filepath.Glob("../test/*.test.cjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "node", "--test", file)
			cmd.Env = append(os.Environ(), "LLMTAP_PACKAGE="+hook, "LLMTAP_TESTHELPER="+helper)
			out, err := cmd.CombinedOutput()
			must.Do(t, err, string(out))
		})
	}
}

// TestTypeScriptPackage installs the archive that npm pack makes, and loads it as a program does, as ESM and as CommonJS.
func TestTypeScriptPackage(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("slow, and TypeScript is not checked for races")
	}
	hook, dir := Hook(t), t.TempDir()
	out, err := exec.CommandContext(t.Context(), "npm", "pack", "--json", "--ignore-scripts", "--pack-destination", dir, hook).Output() // it is built
	must.Do(t, err)
	var packed []struct {
		Filename string
		Files    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &packed); err != nil || len(packed) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	files := map[string]bool{}
	for _, f := range packed[0].Files {
		files[f.Path] = true
		if dir, _, ok := strings.Cut(f.Path, "/"); ok && dir != "dist" {
			t.Errorf("the package contains %s", f.Path)
		}
	}
	for _, name := range []string{"dist/index.js", "dist/index.d.ts", "index.mjs", "index.d.mts", "README.md", "package.json"} {
		if !files[name] {
			t.Errorf("the package has no %s, only %q", name, slices.Sorted(maps.Keys(files)))
		}
	}
	for name, text := range map[string]string{
		"package.json": "{}", "esm.mjs": `import { instrument } from "llmtap"; if (typeof instrument !== "function") process.exit(1)`,
		// The hook is there before the program, and gives way to its own.
		"own.cjs": `
const { hookOf } = require(__dirname + "/node_modules/llmtap/dist/patch.js");
if (hookOf()?.automatic !== true) process.exit(1);
require("llmtap").instrument({ service: "own", url: "nats://127.0.0.1:1" });
if (hookOf().automatic || hookOf().config.service !== "own") process.exit(2);
process.exit(0);`,
		"cjs.cjs": `if (typeof require("llmtap").instrument !== "function") process.exit(1)`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if err := run(t, dir, "npm", "install", "--no-audit", "--no-fund", "./"+packed[0].Filename); err != nil {
		giveUp(t, err)
	}
	for _, args := range [][]string{{"esm.mjs"}, {"cjs.cjs"}, {"--require", "llmtap/register", "own.cjs"}, {"--require=./node_modules/llmtap/dist/register.js", "own.cjs"}} {
		must.Do(t, run(t, dir, "node", args...))
	}
	// Node.js 18 before 18.18 has no --import.
	if err := run(t, dir, "node", "--import", "data:text/javascript,", "cjs.cjs"); err == nil {
		must.Do(t, run(t, dir, "node", "--import", "llmtap/register", "own.cjs"))
	}
}
