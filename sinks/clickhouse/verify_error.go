package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/llmtap/llmtap/sinks/sqltext"
)

// Error codes of ClickHouse that ch-go does not name, or names differently.
const (
	codeNoElementsInConfig = 139 // a section of the configuration is missing, such as zookeeper
	codeUnknownCluster     = 170
	codeClusterDoesntExist = 701
	codeNoRemoteShard      = 519
)

var (
	missingGrant    = regexp.MustCompile(`grant ((?:[A-Z]+[A-Z ]*(?:\([^)]*\))?(?:, )?)+ ON [^\s(]+)`)
	exceptionPrefix = regexp.MustCompile(`^(?:Code: \d+\. )?(?:DB::Exception: )+`)
	serverVersion   = regexp.MustCompile(`\s*\(version [^()]*(?:\([^()]*\))?\)`)
)

// fail returns the result of a step whose action returned err.
func (v *verifier) fail(action string, err error) VerifyStep {
	return failf(v.fix(err), "%s: %s", action, reason(err))
}

// maxReason is the maximum length of an error text in a report. An error of a cluster repeats itself for each server.
const maxReason = 400

// reason returns the text of err without the steps of the client and the version of the server.
func reason(err error) string {
	ex, ok := errors.AsType[*clickhouse.Exception](err)
	if !ok {
		return withoutRequest(err).Error()
	}
	text := serverVersion.ReplaceAllString(ex.Message, "")
	text = strings.Join(strings.Fields(exceptionPrefix.ReplaceAllString(text, "")), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return fmt.Sprintf("code %d: %s", ex.Code, text)
}

// fix returns what an operator can do about err, or "".
func (v *verifier) fix(err error) string {
	c := code(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "see system.distributed_ddl_queue and the log of the servers for what they wait for"
	case slices.Contains(loginCodes, c):
		return "correct the user and the password in the DSN, or clickhouse.password_file"
	case c == proto.ErrAccessDenied:
		if m := missingGrant.FindStringSubmatch(reason(err)); m != nil {
			return "GRANT " + strings.TrimSuffix(m[1], ".") + " TO " + v.userName()
		}
		return "grant the missing privilege to " + v.userName()
	case c == proto.ErrReadonly:
		return "set readonly = 0 in the profile of " + v.userName()
	case c == proto.ErrDatabaseAccessDenied:
		return "allow the database in allow_databases of " + v.userName()
	case c == proto.ErrSettingConstraintViolation:
		return "remove the constraint from the profile of " + v.userName()
	case c == proto.ErrUnknownSetting:
		return "use a newer ClickHouse: this one does not know a setting that llmtap needs"
	case c == codeNoElementsInConfig && strings.Contains(strings.ToLower(err.Error()), "zookeeper"), c == proto.ErrNoZookeeper,
		c == proto.ErrUnknownTable && strings.Contains(err.Error(), "system.zookeeper"):
		return "configure a Keeper on every server: a cluster needs it for ON CLUSTER and for replication"
	case c == codeNoElementsInConfig && strings.Contains(err.Error(), "macro"):
		return "define the macros shard and replica on every server"
	case c == codeUnknownCluster, c == codeClusterDoesntExist:
		return "SELECT DISTINCT cluster FROM system.clusters lists the clusters of this server"
	case c == proto.ErrAllConnectionTriesFailed, c == codeNoRemoteShard:
		return "the servers cannot reach or log in to each other: check host, port, user and secret in remote_servers"
	case faultOf(err) == faultServer:
		return "start the server, or correct host and port in the DSN; check firewalls"
	}
	return ""
}

// userName returns the name of the user for a GRANT statement.
func (v *verifier) userName() string {
	return sqltext.QuoteName(cmp.Or(v.options.Auth.Username, "default"))
}
