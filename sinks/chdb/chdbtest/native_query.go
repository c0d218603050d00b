package chdbtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	chproto "github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

var insertStatement = regexp.MustCompile(`(?is)^\s*(INSERT\s+INTO\s+(?:TABLE\s+)?([^\s(]+)\s*\(([^)]*)\))\s*(?:SETTINGS\s.*?)?\s*(?:FORMAT\s+Native|VALUES)?\s*$`)

// query reads and answers a query.
func (c *nativeConn) query() error {
	q, err := c.readQuery()
	if err != nil {
		return err
	}
	c.compress = q.Compression == proto.CompressionEnabled
	for { // tables of the client; none are supported
		block, err := c.data()
		if err != nil {
			return err
		}
		if len(block.Columns) == 0 {
			break
		}
	}
	params := url.Values{}
	if q.Info.Query != proto.ClientQuerySecondary { // the settings of the engine that sends it apply there
		for _, s := range q.Settings {
			params.Set(s.Key, s.Value)
		}
	}
	for _, p := range q.Parameters {
		params.Set("param_"+p.Key, unquote(p.Value))
	}
	if m := insertStatement.FindStringSubmatch(q.Body); m != nil {
		err = c.insert(m[1], m[2], strings.Split(m[3], ","), params)
	} else {
		err = c.selectRows(q.Body, params)
	}
	if err != nil {
		return c.exception(err)
	}
	var b proto.Buffer
	proto.ServerCodeEndOfStream.Encode(&b)
	return c.send(&b)
}

// readQuery reads a query packet after its code. Unlike Query.DecodeAware, it knows clients other than those over TCP, such as the
// engine.
func (c *nativeConn) readQuery() (q proto.Query, err error) {
	str := func() (s string) {
		if err == nil {
			s, err = c.r.Str()
		}
		return s
	}
	number := func() (n uint64) {
		if err == nil {
			n, err = c.r.UVarInt()
		}
		return n
	}
	raw := func(n int) []byte {
		b := make([]byte, n)
		if err == nil {
			err = c.r.ReadFull(b)
		}
		return b
	}
	q.ID = str()
	q.Info.Query = proto.ClientQueryKind(raw(1)[0])
	q.Info.InitialUser, q.Info.InitialQueryID, q.Info.InitialAddress = str(), str(), str()
	raw(8) // the time of the query
	q.Info.Interface = proto.Interface(raw(1)[0])
	if q.Info.Interface == proto.InterfaceTCP {
		q.Info.OSUser, q.Info.ClientHostname, q.Info.ClientName = str(), str(), str()
		number() // major version
		number() // minor version
		number() // revision
	}
	q.Info.QuotaKey = str()
	number() // depth of Distributed tables
	if q.Info.Interface == proto.InterfaceTCP {
		number() // patch version
	}
	if raw(1)[0] != 0 { // a trace: ids, state, flags
		raw(16 + 8)
		str()
		raw(1)
	}
	for range 3 { // parallel replicas
		number()
	}
	for more := true; more && err == nil; {
		var s proto.Setting
		err = s.Decode(c.r)
		if more = s.Key != ""; more {
			q.Settings = append(q.Settings, s)
		}
	}
	q.Secret = str()
	q.Stage, q.Compression = proto.Stage(number()), proto.Compression(number())
	q.Body = str()
	for more := true; more && err == nil; {
		var p proto.Parameter
		err = p.Decode(c.r)
		if more = p.Key != ""; more {
			q.Parameters = append(q.Parameters, p)
		}
	}
	return q, err
}

// unquote returns the value of a parameter, which the client sends as a quoted string.
func unquote(s string) string {
	return strings.NewReplacer(`\\`, `\`, `\'`, `'`).Replace(strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'"))
}

// data reads a data packet after its code.
func (c *nativeConn) data() (*chproto.Block, error) {
	code, err := c.r.UVarInt()
	if err != nil {
		return nil, err
	}
	switch proto.ClientCode(code) {
	case proto.ClientCodeData:
	case proto.ClientCodeCancel:
		return nil, io.EOF
	default:
		return nil, fmt.Errorf("packet %d instead of data", code)
	}
	if _, err := c.r.Str(); err != nil { // the name of the table
		return nil, err
	}
	if c.compress {
		c.r.EnableCompression()
		defer c.r.DisableCompression()
	}
	block := chproto.NewBlock()
	return block, block.Decode(c.r, uint64(c.revision))
}

// sendBlock sends a data packet.
func (c *nativeConn) sendBlock(block *chproto.Block) error {
	var head, b proto.Buffer
	proto.ServerCodeData.Encode(&head)
	head.PutString("")
	if err := c.encode(&b, block); err != nil {
		return err
	}
	if c.compress {
		w := compress.NewWriter(compress.LevelZero, compress.LZ4)
		if err := w.Compress(b.Buf); err != nil {
			return err
		}
		b.Buf = w.Data
	}
	head.Buf = append(head.Buf, b.Buf...)
	return c.send(&head)
}

// encode encodes block. The client does not encode blocks without rows as it decodes them.
func (c *nativeConn) encode(b *proto.Buffer, block *chproto.Block) error {
	if block.Rows() > 0 {
		return block.Encode(b, uint64(c.revision))
	}
	if err := block.EncodeHeader(b, uint64(c.revision)); err != nil {
		return err
	}
	for i, col := range block.Columns {
		b.PutString(block.ColumnsNames()[i])
		b.PutString(string(col.Type()))
		if c.revision >= chproto.DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION {
			b.PutBool(false)
		}
	}
	return nil
}

// selectRows runs a statement and sends its result.
func (c *nativeConn) selectRows(stmt string, params url.Values) error {
	body, err := c.post(stmt, nil, params)
	if err != nil {
		return err
	}
	defer body.Close()
	r := proto.NewReader(bufio.NewReader(body))
	for first := true; ; first = false {
		block := chproto.NewBlock()
		if err := block.Decode(r, 0); errors.Is(err, io.EOF) {
			if !first {
				return nil
			}
			// A server sends a block without rows. The engine does not tell its columns.
			if err := block.AddColumn("unknown", "String"); err != nil {
				return err
			}
			return c.sendBlock(block)
		} else if err != nil {
			return err
		}
		if err := c.sendBlock(block); err != nil {
			return err
		}
	}
}

// insert sends the types of the columns, reads the rows and inserts them.
func (c *nativeConn) insert(stmt, table string, columns []string, params url.Values) error {
	header, err := c.header(table, columns)
	if err != nil {
		return err
	}
	if err := c.sendBlock(header); err != nil {
		return err
	}
	var rows proto.Buffer
	for {
		block, err := c.data()
		if err != nil {
			return err
		}
		if refused := c.server.refused.Load(); refused != nil && *refused != "" && *refused == c.hello.Database {
			return io.ErrUnexpectedEOF
		}
		if block.Rows() == 0 {
			break
		}
		if err := block.Encode(&rows, 0); err != nil {
			return err
		}
	}
	body, err := c.post(stmt+" FORMAT Native", bytes.NewReader(rows.Buf), params)
	if err != nil {
		return err
	}
	return body.Close()
}

// header returns a block with the columns of a table, without rows.
func (c *nativeConn) header(table string, columns []string) (*chproto.Block, error) {
	body, err := c.post("DESCRIBE TABLE "+table+" FORMAT TSV", nil, url.Values{"describe_compact_output": {"1"}})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, typ, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		types[name] = unquote(typ)
	}
	block := chproto.NewBlock()
	for _, name := range columns {
		name = strings.Trim(strings.TrimSpace(name), "`")
		if types[name] == "" {
			return nil, &exception{16, "Code: 16. DB::Exception: No such column " + name + " in table " + table + ". (NO_SUCH_COLUMN_IN_TABLE)"}
		}
		if err := block.AddColumn(name, column.Type(types[name])); err != nil {
			return nil, err
		}
	}
	return block, nil
}
