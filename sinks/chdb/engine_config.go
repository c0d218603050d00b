package chdb

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// configXML is the configuration of the engine. The library does not open any ports. Pools and caches are sized for a
// machine that also runs everything else. Because background_pool_size is below its default, the three merge thresholds
// after it must be set as well.
var configXML = template.Must(template.New("config.xml").Funcs(xmlFuncs).Parse(`<clickhouse>
  <!-- Written at every start. -->
  <timezone>UTC</timezone>
  <users_config>{{xml .UsersFile}}</users_config>
  <max_server_memory_usage>{{.MemoryLimit}}</max_server_memory_usage>
  <mark_cache_size>{{.CacheSize}}</mark_cache_size>
  <index_mark_cache_size>{{.CacheSize}}</index_mark_cache_size>
  <uncompressed_cache_size>0</uncompressed_cache_size>
  <background_pool_size>4</background_pool_size>
  <background_schedule_pool_size>16</background_schedule_pool_size>
  <!-- By default 128 threads, each with three open files, delete merged parts. -->
  <max_parts_cleaning_thread_pool_size>4</max_parts_cleaning_thread_pool_size>
  <merge_tree>
    <min_free_disk_bytes_to_perform_insert>{{.MinFreeDisk}}</min_free_disk_bytes_to_perform_insert>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>2</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>2</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>2</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`))

// usersXML defines the only user, who has all rights on tables, but no rights on sources (files, URLs, other servers)
// and access management.
var usersXML = template.Must(template.New("users.xml").Funcs(xmlFuncs).Parse(`<clickhouse>
  <!-- Written at every start. The password is checked before the engine sees a statement. -->
  <profiles>
    <default>
      <max_memory_usage>{{.QueryMemory}}</max_memory_usage>
      <!-- Otherwise every statement runs on one thread: by default, a second one requires gigabytes of free memory. -->
      <max_threads_min_free_memory_per_thread>0</max_threads_min_free_memory_per_thread>
      <max_insert_threads_min_free_memory_per_thread>0</max_insert_threads_min_free_memory_per_thread>
    </default>
  </profiles>
  <quotas><default></default></quotas>
  <users>
    <default>
      <password></password>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>
{{range .Grants}}
        <query>GRANT {{xml .}} ON *.*</query>{{end}}
      </grants>
    </default>
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

// writeEngineConfig writes config.xml and users.xml into the directory and returns the path of config.xml.
func writeEngineConfig(cfg childConfig) (string, error) {
	values := struct {
		UsersFile                                        string
		MemoryLimit, QueryMemory, CacheSize, MinFreeDisk int64
		Grants                                           []string
	}{
		UsersFile:   filepath.Join(cfg.Dir, "users.xml"),
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
