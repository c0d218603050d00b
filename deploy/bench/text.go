package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A corpus hands out text.
type corpus struct {
	text      string
	start, at int
}

// readCorpus reads the sources of Go's standard library.
func readCorpus(ctx context.Context) (*corpus, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's sources: %w", err)
	}
	var b strings.Builder
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := os.ReadFile(path)
		b.Write(file)
		return err
	})
	if err == nil && b.Len() < 10<<20 {
		err = errors.New("the sources of Go are missing")
	}
	return &corpus{text: strings.ToValidUTF8(b.String(), "?")}, err
}

// next returns the next n bytes. After the end of the text it begins again, elsewhere, so that all cuts differ from those before:
// cuts at ends of lines would soon be the same ones.
func (c *corpus) next(n int) string {
	if c.at+n > len(c.text) {
		c.start += 97
		c.at = c.start
	}
	s := strings.ToValidUTF8(c.text[c.at:c.at+n], "?")
	c.at += n
	return s
}
