package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// A Key is a configuration key with a value: a scalar, a list or a map.
type Key struct {
	Path  string // such as nats.max_bytes
	value reflect.Value
	tag   reflect.StructTag
}

// Keys returns all keys of the configuration, in order.
func (c *Config) Keys() []Key { return keys(reflect.ValueOf(c).Elem(), "") }

// keys returns the keys of the struct v, in order.
func keys(v reflect.Value, prefix string) []Key {
	var all []Key
	for i := range v.NumField() {
		name, tag := yamlName(v.Type().Field(i)), v.Type().Field(i).Tag
		switch {
		case name == "":
		case v.Field(i).Kind() == reflect.Struct:
			all = append(all, keys(v.Field(i), prefix+name+".")...)
		default:
			all = append(all, Key{prefix + name, v.Field(i), tag})
		}
	}
	return all
}

// yamlName returns the YAML key of the field f, or "".
func yamlName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// env returns the environment variable that sets k.
func (k *Key) env() string {
	if k.Path == "nats.url" {
		return collectorNATS
	}
	return "LLMTAP_" + strings.ToUpper(strings.ReplaceAll(k.Path, ".", "_"))
}

// File returns the path in k if k is the key of a file; else "".
func (k *Key) File() string {
	if !strings.HasSuffix(k.Path, "_file") {
		return ""
	}
	return k.value.String()
}

var durationType = reflect.TypeFor[time.Duration]()

// setText sets v from the text of an environment variable or a flag: a scalar, or comma-separated items, which are
// name=value for a map.
func setText(v reflect.Value, tag reflect.StructTag, text string) error {
	kind := v.Kind()
	if kind != reflect.Map && kind != reflect.Slice {
		return setScalar(v, tag, text)
	}
	items := reflect.New(v.Type()).Elem()
	if kind == reflect.Map {
		items.Set(reflect.MakeMap(v.Type()))
	}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		name, value, ok := strings.Cut(item, "=")
		if kind == reflect.Slice {
			value = item
		} else if !ok {
			return fmt.Errorf("%q is not name=value", item)
		}
		e := reflect.New(v.Type().Elem()).Elem()
		if err := setScalar(e, tag, value); err != nil {
			return err
		}
		if kind == reflect.Slice {
			items = reflect.Append(items, e)
		} else {
			items.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), e)
		}
	}
	v.Set(items)
	return nil
}

func setScalar(v reflect.Value, tag reflect.StructTag, text string) error {
	wrong := fmt.Errorf("%q is not %s", text, kindName(v.Type(), tag))
	switch {
	case v.Type() == durationType:
		d, err := parseDuration(text)
		if err != nil {
			return err
		}
		v.SetInt(int64(d))
	case v.Kind() == reflect.String:
		v.SetString(text)
	case v.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return wrong
		}
		v.SetBool(text == "true")
	case v.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil && tag.Get("unit") == "bytes" {
			n, err = parseSize(text)
		}
		if err != nil || v.OverflowInt(n) {
			return wrong
		}
		v.SetInt(n)
	case v.CanFloat():
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return wrong
		}
		v.SetFloat(f)
	default:
		return errors.New("can only be set in the configuration file")
	}
	return nil
}

// kindName describes the values of type t.
func kindName(t reflect.Type, tag reflect.StructTag) string {
	switch {
	case t == durationType:
		return "a duration such as 90s, 15m or 24h"
	case tag.Get("unit") == "bytes":
		return "a size such as 512MiB or 2GiB"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "a section with keys"
	default:
		return "a whole number"
	}
}

// parseDuration parses Go durations, and days, weeks and years in Prometheus's format.
func parseDuration(text string) (time.Duration, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return d, nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("%s has no unit; write %[1]ss, %[1]sm or %[1]sh", text)
	}
	return 0, fmt.Errorf("%q is not %s", text, kindName(durationType, ""))
}

// FormatDuration formats d without zero units: 15m, not 15m0s.
func FormatDuration(d time.Duration) string {
	if d >= 48*time.Hour && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeUnits is in descending order, because FormatSize uses the first unit that divides a size.
var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"KB", 1e3},
	{"B", 1},
}

var errSize = errors.New("not a size")

func parseSize(text string) (int64, error) {
	for _, u := range sizeUnits {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || math.IsNaN(f) || math.Abs(f*u.bytes) >= 1<<62 {
			return 0, errSize
		}
		return int64(f * u.bytes), nil
	}
	return 0, errSize
}

// FormatSize formats n in the largest binary unit that divides n.
func FormatSize(n int64) string {
	for _, u := range sizeUnits[:4] {
		if b := int64(u.bytes); n >= b && n%b == 0 {
			return fmt.Sprintf("%d%s", n/b, u.name)
		}
	}
	return strconv.FormatInt(n, 10)
}

// FormatBytes formats n with three digits, in the largest binary unit that is at most n.
func FormatBytes(n uint64) string {
	for _, u := range sizeUnits[:4] {
		if f := float64(n) / u.bytes; f >= 1 {
			return fmt.Sprintf("%.3g %s", f, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

var variable = regexp.MustCompile(`\$?\$\{([^}]*)\}?`)

// expand replaces each ${NAME} in text with the value of the environment variable, and $${ with ${.
func expand(text string, getenv func(string) string) (string, error) {
	var errs []error
	out := variable.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := strings.TrimSuffix(strings.TrimPrefix(m, "${"), "}")
		value := ""
		switch {
		case !strings.HasSuffix(m, "}") || name == "":
			errs = append(errs, fmt.Errorf("%s is not ${NAME}; write $${ for a literal ${", m))
		default:
			if value = getenv(name); value == "" {
				errs = append(errs, fmt.Errorf("environment variable %s is not set", name))
			}
		}
		return value
	})
	return out, errors.Join(errs...)
}
