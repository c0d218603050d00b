-- The retention of findings and tool calls starts when they are stored: those of imported traffic may be years old.
ALTER TABLE findings ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(first_seen, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

CREATE OR REPLACE VIEW findings_final AS
SELECT * FROM findings FINAL;

ALTER TABLE tool_calls ADD COLUMN IF NOT EXISTS stored_at DateTime('UTC') DEFAULT toDateTime(asked_at, 'UTC') COMMENT 'stream time of this version' CODEC(Delta(4), ZSTD(1));

CREATE OR REPLACE VIEW tool_calls_final AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
