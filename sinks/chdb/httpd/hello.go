package httpd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ClickHouse/ch-go/proto"
)

// isHello reports whether text is the first query of a clickhouse-go connection.
func isHello(text, format string) bool {
	return format == "Native" && strings.TrimSpace(text) == "SELECT displayName(), version(), revision(), timezone()"
}

// hello responds to it at the revision of the client, with revision 0 for all later queries.
func (h *Handler) hello(req *request, res *response) error {
	revision := 0
	if v := req.url.Get("client_protocol_version"); v != "" {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return exceptionf(codeSyntaxError, "SYNTAX_ERROR", "client_protocol_version is not a number: %q", v)
		}
		revision = int(n)
	}
	var name, version, timezone proto.ColStr
	name.Append(h.cfg.Server.DisplayName)
	version.Append(h.cfg.Server.Version)
	timezone.Append(h.cfg.Server.Timezone)
	block := proto.Block{Columns: 4, Rows: 1}
	var buf proto.Buffer
	if proto.FeatureBlockInfo.In(revision) {
		block.Info.BucketNum = -1
	}
	err := block.EncodeBlock(&buf, revision, []proto.InputColumn{
		{Name: "displayName()", Data: name},
		{Name: "version()", Data: version},
		{Name: "revision()", Data: proto.ColUInt32{0}},
		{Name: "timezone()", Data: timezone},
	})
	if err != nil {
		return fmt.Errorf("encode hello: %w", err)
	}
	res.format("Native")
	_, err = res.Write(buf.Buf)
	return err
}
