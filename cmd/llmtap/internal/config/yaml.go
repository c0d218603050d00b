package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/llmtap/llmtap/ingest/nearest"
)

// removedKeys contains the remedies for keys of earlier versions, by key.
var removedKeys = map[string]string{
	"alerts.tsdb_dir": "no longer exists, because the samples of alert rules are kept in memory; remove the key",
}

// A yamlDecoder decodes a file into a struct, strictly. It reports every error and leaves invalid values unchanged. The
// YAML library is used as a parser only: its decoder stops at the first error and does not record the lines of keys.
type yamlDecoder struct {
	file    string
	getenv  func(string) string
	origins map[string]string
	errs    []error
}

// decodeYAML decodes data into the struct that v points to and adds the line of each key to origins.
func decodeYAML(file string, data []byte, v any, getenv func(string) string, origins map[string]string) []error {
	d := &yamlDecoder{file: file, getenv: getenv, origins: origins}
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // duplicate keys are reported below, with both lines
	if err != nil {
		if se, ok := errors.AsType[*yaml.SyntaxError](err); ok && se.Token != nil && se.Token.Position != nil {
			return []error{&valueError{d.at(se.Token.Position.Line), errors.New(strings.ReplaceAll(se.Message, "\t", `\t`))}}
		}
		return []error{fmt.Errorf("%s: %w", file, err)}
	}
	if len(f.Docs) > 1 {
		for _, doc := range f.Docs[1:] {
			if doc.Body != nil {
				d.fail(doc.Body, "second YAML document (---); a file may contain only one")
			}
		}
	}
	if len(f.Docs) > 0 && f.Docs[0].Body != nil {
		d.value("", f.Docs[0].Body, reflect.ValueOf(v).Elem(), "")
	}
	return d.errs
}

func (d *yamlDecoder) at(line int) string { return fmt.Sprintf("%s:%d", d.file, line) }

func (d *yamlDecoder) fail(n ast.Node, format string, args ...any) {
	d.errs = append(d.errs, &valueError{d.at(n.GetToken().Position.Line), fmt.Errorf(format, args...)})
}

// value decodes n into v, the value of the key path. tag is the tag of the struct field.
func (d *yamlDecoder) value(path string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.fail(n, "%s: anchors, aliases and tags are not supported; write the value", path)
		return
	case *ast.CommentGroupNode: // a file that contains only comments
		return
	case *ast.NullNode:
		if v.Kind() != reflect.Struct { // all keys of a section may be commented out
			d.fail(n, "%s: has no value; remove the key to use the default", path)
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.section(path, n, v)
	case reflect.Map:
		d.table(path, n, v, tag)
	case reflect.Slice:
		d.list(path, n, v, tag)
	default:
		text, ok := scalar(n)
		if !ok {
			d.fail(n, "%s: is %s, not %s", path, nodeName(n), kindName(v.Type(), tag))
			return
		}
		text, err := expand(text, d.getenv)
		if err == nil {
			err = setScalar(v, tag, text)
		}
		for _, err := range flatten(err) {
			d.fail(n, "%s: %w", path, err)
		}
	}
}

func (d *yamlDecoder) section(path string, n ast.Node, v reflect.Value) {
	fields := map[string]int{}
	for i := range v.NumField() {
		if name := yamlName(v.Type().Field(i)); name != "" {
			fields[name] = i
		}
	}
	d.pairs(path, n, func(key, name string, kv *ast.MappingValueNode) {
		if i, ok := fields[name]; ok {
			d.value(key, kv.Value, v.Field(i), v.Type().Field(i).Tag)
			return
		}
		known := slices.Sorted(maps.Keys(fields))
		if remedy, ok := removedKeys[key]; ok {
			d.fail(kv.Key, "%s: %s", key, remedy)
		} else if near := nearest.Name(name, known); near != "" {
			d.fail(kv.Key, "unknown key %s; did you mean %s?", key, joinPath(path, near))
		} else if elsewhere := keysNamed(name); len(elsewhere) > 0 {
			d.fail(kv.Key, "unknown key %s; did you mean %s?", key, strings.Join(elsewhere, " or "))
		} else {
			d.fail(kv.Key, "unknown key %s; known keys: %s", key, strings.Join(known, ", "))
		}
	})
}

// table decodes a map with arbitrary keys.
func (d *yamlDecoder) table(path string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	m := reflect.MakeMap(v.Type())
	d.pairs(path, n, func(key, name string, kv *ast.MappingValueNode) {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(key, kv.Value, e, tag)
		m.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), e)
	})
	v.Set(m)
}

func (d *yamlDecoder) list(path string, n ast.Node, v reflect.Value, tag reflect.StructTag) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, "%s: is %s, not a list; write [%s]", path, nodeName(n), n)
		return
	}
	before := len(d.errs)
	items := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		key := fmt.Sprintf("%s[%d]", path, i)
		d.origins[key] = d.at(item.GetToken().Position.Line)
		if e, ok := reflect.TypeAssert[interface{ SetDefaults() }](items.Index(i).Addr()); ok {
			e.SetDefaults()
		}
		d.value(key, item, items.Index(i), tag)
	}
	if len(d.errs) == before {
		v.Set(items)
	}
}

// pairs calls fn for each key of the mapping n. It reports duplicate keys, and nodes that are not mappings.
func (d *yamlDecoder) pairs(path string, n ast.Node, fn func(key, name string, kv *ast.MappingValueNode)) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		where := path + ": is"
		if path == "" {
			where = "the file is"
		}
		d.fail(n, "%s %s, not a section with keys", where, nodeName(n))
		return
	}
	lines := map[string]int{}
	for _, kv := range values {
		name, ok := scalar(kv.Key)
		if !ok {
			d.fail(kv.Key, "%s: anchors, aliases and tags are not supported; write the keys", joinPath(path, kv.Key.String()))
			continue
		}
		key := joinPath(path, name)
		if first, twice := lines[name]; twice {
			d.fail(kv.Key, "%s: is already set in line %d", key, first)
			continue
		}
		lines[name] = kv.Key.GetToken().Position.Line
		d.origins[key] = d.at(lines[name])
		fn(key, name, kv)
	}
}

// scalar returns the text of n as written, without quotes.
func scalar(n ast.Node) (text string, ok bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func nodeName(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a section with keys"
	case *ast.SequenceNode:
		return "a list"
	}
	return "a value"
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// keysNamed returns the keys whose last part is name, as suggestions for a key in the wrong section.
func keysNamed(name string) []string {
	var found []string
	cfg := Default()
	for _, k := range cfg.Keys() {
		if strings.HasSuffix(k.Path, "."+name) || k.Path == name {
			found = append(found, k.Path)
		}
	}
	return found
}
