// Package alertcheck checks alert rules and runs their unit tests.
package alertcheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmtap/llmtap/alerts/engine"
	"github.com/llmtap/llmtap/alerts/ruletest"
	"github.com/llmtap/llmtap/cmd/llmtap/internal/command"
	"github.com/llmtap/llmtap/ingest/quantity"
)

// Check lints the rules of cfg. It writes their errors to w and returns an error if there are any, or if a file has no
// rules.
func Check(ctx context.Context, w io.Writer, cfg engine.Config) error {
	rules, problems := cfg.Rules().Lint(ctx)
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintln(&b, p)
	}
	empty := 0
	for _, file := range cfg.RuleFiles {
		one := cfg
		one.RuleFiles = []string{file}
		if n, errs := one.Rules().Lint(ctx); n == 0 && len(errs) == 0 {
			empty++
			fmt.Fprintf(&b, "%s: no alert rules\n", file)
		}
	}
	if len(problems) == 0 {
		fmt.Fprintf(&b, "%s, no errors\n", quantity.Plural(rules, "alert rule"))
	}
	_, err := io.WriteString(w, b.String())
	switch {
	case err != nil:
		return err
	case len(problems) > 0:
		return errors.New(quantity.Plural(len(problems), "error"))
	case empty > 0:
		return &command.ExitError{Code: command.ExitNothing}
	}
	return nil
}

// Test runs the unit tests in files and writes the failures as text or json. It returns an error if a test fails.
func Test(ctx context.Context, w io.Writer, cfg engine.Config, files []string, format string) error {
	r, err := ruletest.Run(ctx, cfg.Rules(), files)
	if err != nil {
		return err
	}
	if format == command.JSON {
		err = command.WriteJSON(w, r)
	} else {
		var b strings.Builder
		for _, f := range r.Failures {
			fmt.Fprintln(&b, f)
		}
		fmt.Fprintf(&b, "%s of %s, %d failed\n", quantity.Plural(r.Tests, "test"), quantity.Plural(r.Files, "file"), r.Failed)
		_, err = io.WriteString(w, b.String())
	}
	if err == nil && r.Failed > 0 {
		err = fmt.Errorf("%d failed", r.Failed)
	}
	return err
}
