package config

import (
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

// commentColumn is the column at which origins begin, unless a value is longer.
const commentColumn = 48

// Print writes the configuration as YAML, with the origin of each value and with secrets masked.
func (e *Effective) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", e.Source())
	var sections []string
	for _, k := range e.Keys() {
		parts := strings.Split(k.Path, ".")
		name := parts[len(parts)-1]
		for i, section := range parts[:len(parts)-1] {
			if i < len(sections) && sections[i] == section {
				continue
			}
			sections = append(sections[:i:i], section)
			fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), section)
		}
		sections = sections[:len(parts)-1]
		text := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), name, k)
		fmt.Fprintf(&b, "%-*s # %s\n", commentColumn, text, e.Origin(k.Path))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flagText returns the value of k in the syntax of its flag; "" for a map, because its flag adds entries.
func (k Key) flagText() string {
	switch k.value.Kind() {
	case reflect.Map:
		return ""
	case reflect.Slice:
		items := make([]string, k.value.Len())
		for i := range items {
			items[i] = fmt.Sprint(k.value.Index(i))
		}
		return strings.Join(items, ",")
	default:
		return strings.Trim(k.String(), `"`)
	}
}

// String returns the value of k as YAML on one line, with secrets masked.
func (k Key) String() string { return yamlText(k.value, k.tag) }

func yamlText(v reflect.Value, tag reflect.StructTag) string {
	switch {
	case v.Type() == durationType:
		return FormatDuration(time.Duration(v.Int()))
	case v.Kind() == reflect.String:
		return quoted(masked(v.String(), tag.Get("secret")))
	case v.CanInt() && tag.Get("unit") == "bytes":
		return FormatSize(v.Int())
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = yamlText(v.Index(i), tag)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case v.Kind() == reflect.Map:
		values := map[string]string{}
		for name, e := range v.Seq2() {
			values[name.String()] = yamlText(e, tag)
		}
		var items []string
		for _, name := range slices.Sorted(maps.Keys(values)) {
			items = append(items, quoted(name)+": "+values[name])
		}
		return "{" + strings.Join(items, ", ") + "}"
	case v.Kind() == reflect.Struct:
		var items []string
		for _, k := range keys(v, "") {
			items = append(items, k.Path+": "+k.String())
		}
		return "{" + strings.Join(items, ", ") + "}"
	}
	return fmt.Sprint(v.Interface())
}

var plainScalar = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*$`)

// quoted returns s as a YAML scalar, in quotes if necessary.
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

// In a URL, a lone user name is a token of NATS.
var (
	urlLogin    = regexp.MustCompile(`(://(?:[^:@/]*:)?)[^/?]+@`)
	urlPassword = regexp.MustCompile(`(?i)([?&][^=&]*password[^=&]*=)[^&]*`)
)

// MaskURL masks the passwords and tokens in s, a list of comma-separated URLs.
func MaskURL(s string) string {
	urls := strings.Split(s, ",")
	for i, raw := range urls {
		if _, err := url.Parse(strings.TrimSpace(raw)); err != nil {
			return mask
		}
		urls[i] = urlPassword.ReplaceAllString(urlLogin.ReplaceAllString(raw, "${1}"+mask+"@"), "${1}"+mask)
	}
	return strings.Join(urls, ",")
}

// masked returns s for output, masked according to the secret tag of its field.
func masked(s, secret string) string {
	switch {
	case s == "" || secret == "":
		return s
	case secret == "url":
		return MaskURL(s)
	}
	return mask
}
