package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// ruleFilesEvery is how often the rule files are looked at.
const ruleFilesEvery = 5 * time.Second

// ruleFiles has the alert engines read the rule files again: soon after one of them changed, and at once on SIGHUP.
type ruleFiles struct {
	files  []string // none: the shipped rules, which do not change
	reload []func(context.Context) error
	asked  <-chan os.Signal // nil: nobody asks
	logger *slog.Logger

	loaded  [sha256.Size]byte // what the files held when they were read last
	changed [sha256.Size]byte // at the last look
}

// watchRuleFiles notes what the files hold. It is called before they are read first.
func watchRuleFiles(files []string, asked <-chan os.Signal, logger *slog.Logger) *ruleFiles {
	w := &ruleFiles{files: files, asked: asked, logger: logger}
	w.loaded = w.look()
	w.changed = w.loaded
	return w
}

// run looks until ctx ends. It returns nil.
func (w *ruleFiles) run(ctx context.Context) error {
	tick := time.NewTicker(ruleFilesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.asked:
			w.read(ctx, w.look())
		case <-tick.C:
			// What changed since the last look may be half written still.
			if now := w.look(); now != w.changed {
				w.changed = now
			} else if now != w.loaded {
				w.read(ctx, now)
			}
		}
	}
}

// look is a hash of what the files hold, or of why they cannot be read.
func (w *ruleFiles) look() (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, f := range w.files {
		text, err := os.ReadFile(f)
		fmt.Fprintf(h, "%d %v\n%s", len(text), err, text)
	}
	h.Sum(sum[:0])
	return sum
}

// read has the engines read the files, which hold now.
func (w *ruleFiles) read(ctx context.Context, now [sha256.Size]byte) {
	w.loaded, w.changed = now, now
	if len(w.files) == 0 {
		w.logger.Info("no rule files are configured; the shipped alert rules stay")
		return
	}
	var first error // the engines say the same of the same file
	for _, reload := range w.reload {
		if err := reload(ctx); err != nil && first == nil {
			first = err
		}
	}
	if first != nil {
		w.logger.Error("rule files have mistakes; the alert rules stay as they were", "err", first, "files", w.files)
		return
	}
	w.logger.Info("alert rules read again", "files", w.files)
}
