package clickhouse

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// testedVersion is the version of ClickHouse that the tests use.
const testedVersion = "26.7"

// connection connects with the protocol of the DSN.
func (v *verifier) connection(ctx context.Context) outcome {
	o := *v.options
	o.Auth.Database = "default" // the database of the DSN may be missing
	conn, err := dialOptions(ctx, &o)
	if err != nil {
		return v.fail("connect to "+list(o.Addr), err)
	}
	v.admin = conn
	var timezone string
	if err := conn.QueryRow(ctx, "SELECT version(), timezone()").Scan(&v.result.Version, &timezone); err != nil {
		return v.fail("read the version", err)
	}
	text := fmt.Sprintf("ClickHouse %s over %s", v.result.Version, protocolName(v.options.Protocol))
	if !strings.HasPrefix(v.result.Version, testedVersion+".") {
		text += "; the tests of llmtap use " + testedVersion
	}
	return okf("%s", text)
}

// names returns the values of a query with a single column.
func (v *verifier) names(ctx context.Context, sql string, args ...any) ([]string, error) {
	return (&Sink{conn: v.admin}).strings(ctx, sql, args...)
}

// Privileges that llmtap needs in its database, and that Verify needs in the scratch database.
var (
	rowPrivileges     = []string{"SELECT", "INSERT"}
	schemaPrivileges  = []string{"CREATE DATABASE", "CREATE TABLE", "CREATE VIEW", "DROP VIEW", "ALTER TABLE"}
	dropPrivileges    = []string{"DROP DATABASE", "DROP TABLE"}
	scratchPrivileges = slices.Concat(rowPrivileges, schemaPrivileges, dropPrivileges)
	clusterPrivileges = []string{"CLUSTER", "REMOTE"}
)

// Privileges that llmtap does not need, and that a user of its own should not have.
var dangerousPrivileges = []string{"CREATE USER", "SYSTEM SHUTDOWN", "FILE", "URL", "S3", "DROP DATABASE"}

// missing returns the privileges that the user does not have. known is false if the server cannot tell.
func (v *verifier) missing(ctx context.Context, privileges []string, on string) (missing []string, known bool, err error) {
	for _, p := range privileges {
		var granted uint8
		err := v.admin.QueryRow(ctx, "CHECK GRANT "+p+" ON "+on).Scan(&granted)
		switch {
		case code(err) == proto.ErrSyntaxError, code(err) == proto.ErrUnknownTypeOfQuery:
			return nil, false, nil
		case err != nil:
			return nil, false, err
		case granted == 0:
			missing = append(missing, p)
		}
	}
	return missing, true, nil
}

// privileges checks the grants of the user.
func (v *verifier) privileges(ctx context.Context) outcome {
	database := v.options.Auth.Database
	if database == "" {
		database = "default"
	}
	llmtap, scratch := sqltext.QuoteName(database)+".*", sqltext.QuoteName(v.result.Database)+".*"
	needed := []struct {
		privileges []string
		on         string
	}{
		{rowPrivileges, llmtap},
		{schemaPrivileges, llmtap},
		{scratchPrivileges, scratch},
		{clusterPrivileges, "*.*"},
	}
	if v.cfg.Cluster == "" {
		needed = needed[:3]
	}
	var texts, grants []string
	onlySchema := true
	for i, n := range needed {
		missing, known, err := v.missing(ctx, n.privileges, n.on)
		switch {
		case err != nil:
			return v.fail("read the grants of "+v.userName(), err)
		case !known:
			return skipf("this version of ClickHouse has no CHECK GRANT; the next steps show what is missing")
		case len(missing) == 0:
			continue
		}
		onlySchema = onlySchema && i == 1
		texts = append(texts, list(missing)+" on "+n.on)
		grants = append(grants, fmt.Sprintf("GRANT %s ON %s TO %s", list(missing), n.on, v.userName()))
	}
	switch {
	case len(texts) == 0:
		return okf("user %s has those that llmtap needs", v.userName())
	case onlySchema:
		return warnf(grants[0]+", or apply migrations with another user: llmtap schema migrate", "user %s lacks %s", v.userName(), texts[0])
	}
	return failf(strings.Join(grants, "; "), "user %s lacks %s", v.userName(), strings.Join(texts, "; "))
}

// user warns of a user with more rights than llmtap needs, and of an unprotected password.
func (v *verifier) user(ctx context.Context) outcome {
	var problems, fixes []string
	lacks, known, err := v.missing(ctx, dangerousPrivileges, "*.*")
	switch {
	case err != nil:
		return v.fail("read the grants of "+v.userName(), err)
	case known && len(lacks) < len(dangerousPrivileges):
		var has []string
		for _, p := range dangerousPrivileges {
			if !slices.Contains(lacks, p) {
				has = append(has, p)
			}
		}
		problems = append(problems, fmt.Sprintf("user %s may also %s", v.userName(), list(has)))
		fixes = append(fixes, "create a user for llmtap with the grants in deploy/clickhouse/grants.sql")
	}
	if v.options.Auth.Password == "" && (v.options.TLS == nil || len(v.options.TLS.Certificates) == 0) {
		problems = append(problems, "there is no password")
		fixes = append(fixes, "set a password")
	}
	if host := v.remoteHost(); host != "" && v.options.TLS == nil {
		problems = append(problems, "the connection to "+host+" is not encrypted")
		fixes = append(fixes, "use https://, or secure=true with clickhouse://, unless the network is trusted")
	}
	if len(problems) > 0 {
		return warnf(strings.Join(fixes, "; "), "%s", strings.Join(problems, "; "))
	}
	return okf("%s, without rights that llmtap does not need", v.userName())
}

// remoteHost returns a host of the DSN that is not this machine, or "".
func (v *verifier) remoteHost() string {
	for _, addr := range v.options.Addr {
		host, _, _ := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return host
		}
	}
	return ""
}
