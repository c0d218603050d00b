-- Whether the reply to a tool call reports an error, by the protocol or by its text.
ALTER TABLE tool_calls ADD COLUMN IF NOT EXISTS reply_error LowCardinality(String) COMMENT 'certain or likely if the reply reports an error, else empty';

CREATE OR REPLACE VIEW tool_calls_final AS
SELECT * FROM tool_calls FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
