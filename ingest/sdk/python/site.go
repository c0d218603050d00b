// Package python has the file that adds the Python hook to any program.
package python

import _ "embed"

// SiteCustomize is the text of sitecustomize.py, whose directory is put on PYTHONPATH.
//
//go:embed llmtap/_site/sitecustomize.py
var SiteCustomize []byte
