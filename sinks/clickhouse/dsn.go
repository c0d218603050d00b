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

// defaultPorts are ClickHouse's, by scheme; those of TLS second.
var defaultPorts = map[string][2]string{"clickhouse": {"9000", "9440"}, "http": {"8123", "8443"}, "https": {"8123", "8443"}}

// closedOptions are the DSN's options of which clickhouse-go passes over a value that it does not know.
var closedOptions = map[string][]string{
	"connection_open_strategy": {"in_order", "round_robin", "random"},
	"compress":                 {"true", "false", "1", "0", "none", "lz4", "lz4hc", "zstd", "gzip", "deflate", "br"},
}

// A dsn is what the DSN says beside clickhouse-go's options.
type dsn struct {
	*clickhouse.Options
	caFile, certFile, keyFile string
}

// options reads the DSN, the password and the certificates.
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
			return nil, fmt.Errorf("read ca_file: %s holds no certificate in PEM", d.caFile)
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

// parseDSN opens no file. Its errors hold no password.
func (c Config) parseDSN() (d dsn, err error) {
	if c.DSN == "" {
		return d, errors.New("is empty; it looks like http://user:password@host:8123/llmtap or clickhouse://user:password@host:9000/llmtap")
	}
	scheme, _, ok := strings.Cut(c.DSN, "://")
	if !ok {
		return d, errors.New("has no scheme: begin with http://, https:// or clickhouse://")
	}
	if _, ok := defaultPorts[scheme]; !ok { // the client takes any other as the native protocol
		return d, fmt.Errorf("scheme is %q, not clickhouse, http or https", scheme)
	}
	text, query, _ := strings.Cut(c.DSN, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return d, errors.New("parse options: percent-encode what stands after the question mark")
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
	for name, values := range closedOptions {
		if v := q.Get(name); q.Has(name) && !slices.Contains(values, v) {
			return d, fmt.Errorf("%s: %q is none of %s", name, v, strings.Join(values, ", "))
		}
	}
	for name, v := range q {
		if len(v) > 1 {
			return d, fmt.Errorf("option %s is given twice", name)
		}
	}
	on, err := strconv.ParseBool(q.Get("secure"))
	secure := q.Has("secure") && (on || err != nil) // also without a value; a wrong one fails below
	switch {
	case scheme == "http" && secure:
		return d, errors.New("http with secure=true: write https://")
	case scheme == "https" && !secure:
		return d, errors.New("https with secure=false: write http://")
	case !secure && (d.caFile != "" || d.certFile != "" || d.keyFile != ""):
		return d, errors.New("ca_file, cert_file and key_file are of TLS: write https://, or secure=true with clickhouse://")
	case (d.certFile == "") != (d.keyFile == ""):
		return d, errors.New("cert_file and key_file need each other")
	}
	if len(q) > 0 {
		text += "?" + q.Encode()
	}
	if d.Options, err = clickhouse.ParseDSN(text); err != nil {
		// An error of url.Parse quotes the whole DSN, password and all.
		if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return d, fmt.Errorf("parse: %w", err)
	}
	if d.TLS != nil && d.TLS.InsecureSkipVerify && !c.AllowSkipVerify {
		return d, errors.New("skip_verify=true lets whoever is on the way read and change rows: give ca_file=FILE, or set clickhouse.allow_skip_verify")
	}
	for i, addr := range d.Addr {
		if d.Addr[i], err = address(addr, scheme, secure); err != nil {
			return d, err
		}
	}
	if d.MaxOpenConns == 0 {
		d.MaxOpenConns, d.MaxIdleConns = 8, 2
	}
	d.DialStrategy = dialInTime
	return d, nil
}

// address checks one of the DSN's, and gives it a port when it has none.
func address(addr, scheme string, secure bool) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil && !strings.Contains(strings.Trim(addr, "[]"), ":") || strings.HasSuffix(addr, "]") {
		host, port, err = strings.Trim(addr, "[]"), defaultPorts[scheme][0], nil
		if secure {
			port = defaultPorts[scheme][1]
		}
	}
	if n, convErr := strconv.ParseUint(port, 10, 16); err != nil || host == "" || convErr != nil || n == 0 {
		return "", fmt.Errorf("address %q is not like host:port, or [::1]:port", addr)
	}
	return net.JoinHostPort(host, port), nil
}

// dialInTime is the client's way of going from address to address, but for its time: there the first address that
// swallows packets takes all of it, and the others are never asked.
func dialInTime(ctx context.Context, id int, o *clickhouse.Options, dial clickhouse.Dial) (clickhouse.DialResult, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(o.DialTimeout)
	}
	left := len(o.Addr)
	return clickhouse.DefaultDialStrategy(ctx, id, o, func(ctx context.Context, addr string, o *clickhouse.Options) (clickhouse.DialResult, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(max(left, 1)))
		defer cancel()
		left--
		// The native protocol asks the options, not the context.
		one := *o
		if at, ok := ctx.Deadline(); ok && left > 0 {
			one.DialTimeout = min(one.DialTimeout, time.Until(at))
		}
		return dial(ctx, addr, &one)
	})
}
