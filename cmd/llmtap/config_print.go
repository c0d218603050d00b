package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const configHelp = `Print the configuration in effect, as YAML: each key with its value and where that comes from. Secrets are masked.
A key a.b_c is set by the file, by LLMTAP_A_B_C in the environment and, some, by a flag; the latter wins. A value in the
file may hold ${NAME}, a variable of the environment.

  llmtap config
  llmtap config --config llmtap.yaml
  llmtap config --check llmtap.yaml

Exit code: 0 if the configuration is right, 2 if not; then every mistake is told with its line.`

func runConfig(_ context.Context, c *cli) error {
	fs := c.flags("config", configHelp)
	args := c.configFlags(fs)
	check := fs.Bool("check", false, "print nothing but mistakes; a file may follow")
	if err := c.parse(fs); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 1 || fs.NArg() == 1 && !*check:
		return &exitError{exitBadInput, fmt.Errorf("%q is left over; see llmtap config --help", fs.Arg(fs.NArg()-1))}
	case fs.NArg() == 1:
		*args.file = fs.Arg(0)
	}
	s, err := args.read()
	if err != nil {
		return err
	}
	if *check {
		fmt.Fprintf(c.stdout, "%s: the configuration is right\n", s.source())
		return nil
	}
	return s.print(c.stdout)
}

// source names the configuration file, or says that there is none.
func (s *settings) source() string {
	if s.file == "" {
		return "no configuration file"
	}
	return s.file
}

// commentColumn is where the comments stand unless a value is longer.
const commentColumn = 48

// print writes the configuration as YAML.
func (s *settings) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "# %s\n", s.source()); err != nil {
		return err
	}
	var sections []string
	for _, k := range configKeys(reflect.ValueOf(&s.Config).Elem(), "") {
		parts := strings.Split(k.path, ".")
		name := parts[len(parts)-1]
		for i, section := range parts[:len(parts)-1] {
			if i < len(sections) && sections[i] == section {
				continue
			}
			sections = append(sections[:i:i], section)
			fmt.Fprintf(w, "%s%s:\n", strings.Repeat("  ", i), section)
		}
		sections = sections[:len(parts)-1]
		text := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), name, yamlText(k.value, k.tag))
		if _, err := fmt.Fprintf(w, "%-*s # %s\n", commentColumn, text, s.origins[k.path]); err != nil {
			return err
		}
	}
	return nil
}

// plainText is the value of k as a flag would give it.
func plainText(k configKey) string {
	if k.value.Kind() != reflect.Slice {
		return strings.Trim(yamlText(k.value, k.tag), `"`)
	}
	var items []string
	for i := range k.value.Len() {
		items = append(items, fmt.Sprint(k.value.Index(i)))
	}
	return strings.Join(items, ",")
}

// yamlText is v as YAML on one line, without its secrets.
func yamlText(v reflect.Value, tag reflect.StructTag) string {
	switch {
	case v.Type() == durationType:
		return formatDuration(time.Duration(v.Int()))
	case v.Kind() == reflect.String:
		return quoted(masked(v.String(), tag.Get("secret")))
	case v.CanInt() && tag.Get("unit") == "bytes":
		return formatSize(v.Int())
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = yamlText(v.Index(i), tag)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case v.Kind() == reflect.Map:
		var items []string
		names := map[string]reflect.Value{}
		for _, k := range v.MapKeys() {
			names[k.String()] = v.MapIndex(k)
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			items = append(items, quoted(name)+": "+yamlText(names[name], tag))
		}
		return "{" + strings.Join(items, ", ") + "}"
	case v.Kind() == reflect.Struct:
		var items []string
		for _, k := range configKeys(v, "") {
			items = append(items, k.path+": "+yamlText(k.value, k.tag))
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

var plainScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*$`)

// quoted writes s so that YAML reads it as this text.
func quoted(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return strconv.Quote(s)
	}
	if plainScalar.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

const mask = "********"

// masked hides what is secret in s: all of it, or passwords in URLs separated by commas.
func masked(s, secret string) string {
	switch {
	case s == "" || secret == "":
		return s
	case secret != "url":
		return mask
	}
	urls := strings.Split(s, ",")
	for i, raw := range urls {
		u, err := url.Parse(strings.TrimSpace(raw))
		if err != nil {
			return mask
		}
		secrets := u.RawQuery
		u.RawQuery, u.Fragment = "", ""
		user := u.User
		u.User = nil
		urls[i] = u.String()
		if user != nil {
			name := mask + "@" // without a password, NATS takes the name as a token
			if _, ok := user.Password(); ok {
				name = user.Username() + ":" + name
			}
			urls[i] = strings.Replace(urls[i], "://", "://"+name, 1)
		}
		for j, option := range strings.Split(secrets, "&") {
			if name, _, ok := strings.Cut(option, "="); ok && strings.Contains(strings.ToLower(name), "password") {
				option = name + "=" + mask
			}
			if secrets != "" {
				urls[i] += string("?&"[min(j, 1)]) + option
			}
		}
	}
	return strings.Join(urls, ",")
}
