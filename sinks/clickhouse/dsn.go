package clickhouse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/ingest/secret"
)

// defaultPorts maps a scheme to ClickHouse's default ports without and with TLS.
var defaultPorts = map[string][2]string{"clickhouse": {"9000", "9440"}, "http": {"8123", "8443"}, "https": {"8123", "8443"}}

// enumOptions maps the DSN options for which clickhouse-go ignores unknown values to their valid values.
var enumOptions = map[string][]string{
	"connection_open_strategy": {"in_order", "round_robin", "random"},
	"compress":                 {"true", "false", "1", "0", "none", "lz4", "lz4hc", "zstd", "gzip", "deflate", "br"},
}

// A dsn is a parsed DSN: the options of clickhouse-go, and llmtap's own options.
type dsn struct {
	*clickhouse.Options
	caFile, certFile, keyFile string
}

// options returns the options for clickhouse-go. It parses the DSN and reads the password and certificate files.
func (c Config) options() (*clickhouse.Options, error) {
	d, err := c.parseDSN()
	if err != nil {
		return nil, err
	}
	if c.PasswordFile != "" {
		if d.Auth.Password, err = secret.Read("", "password_file", c.PasswordFile); err != nil {
			return nil, err
		}
	}
	if d.caFile != "" {
		pem, err := os.ReadFile(d.caFile)
		if err != nil {
			return nil, fmt.Errorf("read ca_file: %w", err)
		}
		d.TLS.RootCAs = x509.NewCertPool()
		if !d.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca_file: %s contains no PEM certificate", d.caFile)
		}
	}
	if d.certFile != "" {
		cert, err := tls.LoadX509KeyPair(d.certFile, d.keyFile)
		if err != nil {
			return nil, fmt.Errorf("read cert_file and key_file: %w", err)
		}
		d.TLS.Certificates = []tls.Certificate{cert}
	}
	return d.Options, nil
}

// parseDSN parses the DSN without opening files. Its errors do not contain the password.
func (c Config) parseDSN() (d dsn, err error) {
	if c.DSN == "" {
		return d, errors.New("is empty; examples are http://user:password@host:8123/llmtap and clickhouse://user:password@host:9000/llmtap")
	}
	scheme, _, ok := strings.Cut(c.DSN, "://")
	if !ok {
		return d, errors.New("has no scheme: begin with http://, https:// or clickhouse://")
	}
	if _, ok := defaultPorts[scheme]; !ok { // the client treats any other scheme as the native protocol
		return d, fmt.Errorf("scheme is %q, not clickhouse, http or https", scheme)
	}
	text, query, _ := strings.Cut(c.DSN, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return d, errors.New("parse options: percent-encode the text after the question mark")
	}
	take := func(name string) string {
		v := q.Get(name)
		q.Del(name)
		return v
	}
	d.caFile, d.certFile, d.keyFile = take("ca_file"), take("cert_file"), take("key_file")
	if scheme == "https" && !q.Has("secure") {
		q.Set("secure", "true")
	}
	for name, values := range enumOptions {
		if v := q.Get(name); q.Has(name) && !slices.Contains(values, v) {
			return d, fmt.Errorf("%s: %q is not one of %s", name, v, strings.Join(values, ", "))
		}
	}
	for name, v := range q {
		if len(v) > 1 {
			return d, fmt.Errorf("option %s is given twice", name)
		}
	}
	on, err := strconv.ParseBool(q.Get("secure"))
	secure := q.Has("secure") && (on || err != nil) // secure without a value also counts; ParseDSN rejects an invalid value
	switch {
	case scheme == "http" && secure:
		return d, errors.New("http with secure=true: use https://")
	case scheme == "https" && !secure:
		return d, errors.New("https with secure=false: use http://")
	case !secure && (d.caFile != "" || d.certFile != "" || d.keyFile != ""):
		return d, errors.New("ca_file, cert_file and key_file require TLS: use https://, or secure=true with clickhouse://")
	case (d.certFile == "") != (d.keyFile == ""):
		return d, errors.New("cert_file and key_file must both be set")
	}
	if len(q) > 0 {
		text += "?" + q.Encode()
	}
	if d.Options, err = clickhouse.ParseDSN(text); err != nil {
		// An error of url.Parse quotes the whole DSN, including the password.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return d, fmt.Errorf("parse: %w", err)
	}
	if d.TLS != nil && d.TLS.InsecureSkipVerify && !c.AllowSkipVerify {
		return d, errors.New("skip_verify=true allows a man in the middle to read and change rows: use ca_file=FILE, or set clickhouse.allow_skip_verify")
	}
	for i, addr := range d.Addr {
		if d.Addr[i], err = address(addr, scheme, secure); err != nil {
			return d, err
		}
	}
	if d.MaxOpenConns == 0 {
		d.MaxOpenConns, d.MaxIdleConns = 8, 2
	}
	d.DialStrategy = dialEvenly
	return d, nil
}

// address validates an address in the DSN and returns it with a port.
func address(addr, scheme string, secure bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil && !strings.Contains(strings.Trim(addr, "[]"), ":") || strings.HasSuffix(addr, "]") {
		host, port, err = strings.Trim(addr, "[]"), defaultPorts[scheme][0], nil
		if secure {
			port = defaultPorts[scheme][1]
		}
	}
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || convErr != nil || n == 0 {
		return "", fmt.Errorf("address %q does not have the form host:port or [::1]:port", addr)
	}
	return net.JoinHostPort(host, port), nil
}

// dialEvenly dials with the client's default strategy, but gives each address an equal share of the remaining time.
// Otherwise, a first address that drops packets would use up the time, and the other addresses would never be dialled.
func dialEvenly(ctx context.Context, id int, o *clickhouse.Options, dial clickhouse.Dial) (clickhouse.DialResult, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(o.DialTimeout)
	}
	left := len(o.Addr)
	return clickhouse.DefaultDialStrategy(ctx, id, o, func(ctx context.Context, addr string, o *clickhouse.Options) (clickhouse.DialResult, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(max(left, 1)))
		defer cancel()
		left--
		// The native protocol uses the timeout in the options, not the deadline of the context.
		one := *o
		if at, ok := ctx.Deadline(); ok && left > 0 {
			one.DialTimeout = min(one.DialTimeout, time.Until(at))
		}
		return dial(ctx, addr, &one)
	})
}
