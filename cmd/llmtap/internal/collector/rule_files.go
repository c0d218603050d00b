package collector

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/llmtap/llmtap/dashboards/access"
)

// ruleFilesInterval is the interval at which the rule files are checked for changes.
const ruleFilesInterval = 5 * time.Second

// ruleFiles reloads the rule files in the alert engines: soon after a file changes, and immediately on SIGHUP.
type ruleFiles struct {
	files   []string // empty: the shipped rules, which do not change
	reload  []func(context.Context) error
	hangups <-chan os.Signal // nil: no signals
	audit   func(access.Record)
	logger  *slog.Logger

	loaded [sha256.Size]byte // hash of the last loaded contents
	seen   [sha256.Size]byte // hash of the contents at the last check
}

// newRuleFiles returns the ruleFiles for files. It must be called before the engines first load the files.
func newRuleFiles(files []string, hangups <-chan os.Signal, audit func(access.Record), logger *slog.Logger) *ruleFiles {
	w := &ruleFiles{files: files, hangups: hangups, audit: audit, logger: logger}
	w.loaded = w.hash()
	w.seen = w.loaded
	return w
}

// run watches the files until ctx ends. It always returns nil.
func (w *ruleFiles) run(ctx context.Context) error {
	tick := time.NewTicker(ruleFilesInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.hangups:
			w.load(ctx, w.hash())
		case <-tick.C:
			// A file that changed since the last check may be only partly written.
			if now := w.hash(); now != w.seen {
				w.seen = now
			} else if now != w.loaded {
				w.load(ctx, now)
			}
		}
	}
}

// hash returns a hash of the contents of the files, or of the read errors.
func (w *ruleFiles) hash() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range w.files {
		text, err := os.ReadFile(f)
		fmt.Fprintf(h, "%d %v\n%s", len(text), err, text)
	}
	h.Sum(sum[:0])
	return sum
}

// load reloads the files in all engines; now is the current hash of the files.
func (w *ruleFiles) load(ctx context.Context, now [sha256.Size]byte) {
	w.loaded, w.seen = now, now
	if len(w.files) == 0 {
		w.logger.Info("no rule files configured; the shipped alert rules do not change")
		return
	}
	var first error // the other engines report the same errors
	for _, reload := range w.reload {
		if err := reload(ctx); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		w.logger.Error("invalid rule files; the previous alert rules stay in effect", "err", first, "files", w.files)
		return
	}
	w.logger.Info("alert rules reloaded", "files", w.files)
	w.audit(access.Record{
		Person: access.Anyone, Action: access.Configure, Via: viaCollector, Target: fmt.Sprintf("%x", now[:digestSize]), Detail: "rule files " + strings.Join(w.files, ", "), Outcome: access.Done,
	}.Complete(time.Now()))
}
