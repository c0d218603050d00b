-- Which trace and span of the agent's own tracing a call belongs to, so that calls of nested agents can be shown as one picture.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS trace_id String COMMENT 'trace in which the call was made, 32 hex digits; empty if the agent sends no traceparent' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS parent_span_id String COMMENT 'span in which the call was made, 16 hex digits' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
