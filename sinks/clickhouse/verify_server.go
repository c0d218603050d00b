package clickhouse

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// testedVersion is the version of ClickHouse that the tests use.
const testedVersion = "26.7"

// connection connects with the protocol of the DSN.
func (v *verifier) connection(ctx context.Context) VerifyStep {
	o := *v.options
	o.Auth.Database = "default" // the database of the DSN may be missing
	conn, err := dialOptions(ctx, &o)
	if err != nil {
		return v.fail("connect to "+list(o.Addr), err)
	}
	v.admin = conn
	var version string
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		return v.fail("read the version", err)
	}
	text := "ClickHouse " + version
	if !strings.HasPrefix(version, testedVersion+".") {
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
	scratchPrivileges = slices.Concat(rowPrivileges, schemaPrivileges, []string{"DROP DATABASE", "DROP TABLE"})
	clusterPrivileges = []string{"CLUSTER", "REMOTE"}
)

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
func (v *verifier) privileges(ctx context.Context) VerifyStep {
	llmtap, scratch := sqltext.QuoteName(v.options.Auth.Database)+".*", sqltext.QuoteName(v.database)+".*"
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
			return okf("not checked: this version of ClickHouse has no CHECK GRANT; the next steps show what is missing")
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
