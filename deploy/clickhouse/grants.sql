-- The user of llmtap, for clickhouse-client --multiquery. verify.sh grants prints it for other names, or for one server.
CREATE USER IF NOT EXISTS llmtap ON CLUSTER 'main' IDENTIFIED WITH sha256_password BY 'CHANGE ME';

-- llmtap up: rows, and the tables that it creates and migrates at start.
GRANT ON CLUSTER 'main' SELECT, INSERT, ALTER TABLE, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW ON llmtap.* TO llmtap;
-- llmtap schema verify: the same in a database that it creates and drops.
GRANT ON CLUSTER 'main' SELECT, INSERT, ALTER TABLE, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP VIEW, DROP TABLE, DROP DATABASE ON llmtap_verify.* TO llmtap;
-- Statements ON CLUSTER and Distributed tables. schema verify also reads a table of every server.
GRANT ON CLUSTER 'main' CLUSTER, REMOTE, CREATE TEMPORARY TABLE ON *.* TO llmtap;
GRANT ON CLUSTER 'main' SELECT ON system.clusters TO llmtap;
GRANT ON CLUSTER 'main' SELECT ON system.macros TO llmtap;
GRANT ON CLUSTER 'main' SELECT ON system.zookeeper TO llmtap;
-- llmtap doctor: free disk space.
GRANT ON CLUSTER 'main' SELECT ON system.disks TO llmtap;
