package chdb

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/llmtap/llmtap/sinks/chdb/httpd"
)

// configXML is the configuration of the engine. The library does not open any ports; the program opens one. Pools and caches are sized for a
// machine that also runs everything else. Because background_pool_size is below its default, the three merge thresholds
// after it must be set as well.
var configXML = template.Must(template.New("config.xml").Funcs(xmlFuncs).Parse(`<clickhouse>
  <!-- Written at every start. -->
  <timezone>UTC</timezone>
  <users_config>{{xml .UsersFile}}</users_config>
{{- if .Port}}
  <listen_host>127.0.0.1</listen_host>
  <http_port>{{.Port}}</http_port>
  <path>{{xml .Data}}/</path>
  <tmp_path>{{xml .Data}}/tmp/</tmp_path>
  <user_files_path>{{xml .Data}}/user_files/</user_files_path>
  <format_schema_path>{{xml .Data}}/format_schemas/</format_schema_path>
  <logger><level>warning</level><console>1</console></logger>
  <max_concurrent_queries>{{.MaxConcurrentQueries}}</max_concurrent_queries>
  <shutdown_wait_unfinished>{{.Grace}}</shutdown_wait_unfinished>
{{- end}}
  <max_server_memory_usage>{{.MemoryLimit}}</max_server_memory_usage>
  <mark_cache_size>{{.CacheSize}}</mark_cache_size>
  <index_mark_cache_size>{{.CacheSize}}</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <background_pool_size>4</background_pool_size>
  <background_schedule_pool_size>16</background_schedule_pool_size>
  <!-- By default 128 threads, each with three open files, delete merged parts. -->
  <max_parts_cleaning_thread_pool_size>4</max_parts_cleaning_thread_pool_size>
  <!-- Columns without a codec, of tables that set default_compression_codec to the empty string: inserts do not compress them, merges do.
       The macro says so to those who create tables. Other tables have LZ4, as by default. -->
  <compression>
    <case><min_part_size>0</min_part_size><min_part_size_ratio>0</min_part_size_ratio><method>none</method></case>
    <case><min_part_size>1</min_part_size><min_part_size_ratio>0</min_part_size_ratio><method>zstd</method><level>2</level></case>
  </compression>
  <macros><llmtap_codec>Default</llmtap_codec></macros>
  <merge_tree>
    <default_compression_codec>LZ4</default_compression_codec>
    <min_free_disk_bytes_to_perform_insert>{{.MinFreeDisk}}</min_free_disk_bytes_to_perform_insert>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`))

// usersXML defines the user who has all rights on tables, but no rights on sources (files, URLs, other servers) and access
// management. Package httpd checks the passwords before the library sees a statement; the program checks them itself, and knows the
// user who may only read. Older programs do not know the settings of threads.
var usersXML = template.Must(template.New("users.xml").Funcs(xmlFuncs).Parse(`<clickhouse>
  <!-- Written at every start. -->
  <profiles>
    <default>
      <max_memory_usage>{{.QueryMemory}}</max_memory_usage>
{{- if not .Port}}
      <!-- Otherwise every statement runs on one thread: by default, a second one requires gigabytes of free memory. -->
      <max_threads_min_free_memory_per_thread>0</max_threads_min_free_memory_per_thread>
      <max_insert_threads_min_free_memory_per_thread>0</max_insert_threads_min_free_memory_per_thread>
{{- end}}
    </default>
{{- if .Port}}
    <{{.Reader}}><readonly>2</readonly></{{.Reader}}>
{{- end}}
  </profiles>
  <quotas><default></default></quotas>
  <users>
    <default>
{{- if .Port}}
      <password_sha256_hex>{{.PasswordHash}}</password_sha256_hex>
{{- else}}
      <password></password>
{{- end}}
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
{{range .Grants}}
        <query>GRANT {{xml .}} ON *.*</query>{{end}}
      </grants>
    </default>
{{- if .Port}}
    <{{.Reader}}>
      <password_sha256_hex>{{.ReaderHash}}</password_sha256_hex>
      <networks><ip>::/0</ip></networks>
      <profile>{{.Reader}}</profile>
      <quota>default</quota>
      <grants><query>GRANT SHOW, SELECT ON *.*</query></grants>
    </{{.Reader}}>
{{- end}}
  </users>
</clickhouse>
`))

var grants = []string{
	"SHOW", "SELECT", "INSERT", "ALTER", "CREATE DATABASE", "CREATE TABLE", "CREATE VIEW", "CREATE TEMPORARY TABLE",
	"DROP", "TRUNCATE", "OPTIMIZE", "KILL QUERY", "SYSTEM MERGES", "SYSTEM TTL MERGES", "SYSTEM VIEWS", "SYSTEM FLUSH", "SYSTEM DROP CACHE",
}

var xmlFuncs = template.FuncMap{"xml": func(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}}

// writeEngineConfig writes config.xml and users.xml into the directory and returns the path of config.xml. port is that of the
// program; 0: for the library.
func writeEngineConfig(cfg childConfig, port int) (string, error) {
	values := struct {
		UsersFile, Data, Reader, PasswordHash, ReaderHash string
		MemoryLimit, QueryMemory, CacheSize, MinFreeDisk  int64
		Port, MaxConcurrentQueries, Grace                 int
		Grants                                            []string
	}{
		UsersFile: filepath.Join(cfg.Dir, "users.xml"), Data: filepath.Join(cfg.Dir, "data"), Port: port,
		Reader: httpd.Reader, PasswordHash: passwordHash(cfg.Password), ReaderHash: passwordHash(cfg.ReaderPassword),
		MaxConcurrentQueries: cfg.MaxConcurrentQueries, Grace: int((childGrace / 2).Seconds()),
		MemoryLimit: cfg.MemoryLimit,
		QueryMemory: cfg.MemoryLimit / 4 * 3, // a single statement must leave room for merges
		CacheSize:   cfg.MemoryLimit / 16,
		MinFreeDisk: cfg.MinFreeDisk,
		Grants:      grants,
	}
	file := filepath.Join(cfg.Dir, "config.xml")
	for path, t := range map[string]*template.Template{file: configXML, values.UsersFile: usersXML} {
		var b strings.Builder
		if err := t.Execute(&b, values); err != nil {
			return "", fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			return "", fmt.Errorf("write ClickHouse configuration: %w", err)
		}
	}
	return file, nil
}

// passwordHash returns the value of password_sha256_hex.
func passwordHash(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}
