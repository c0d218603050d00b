-- What became of the provider's prompt cache in a call.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS cache_written_tokens Nullable(Int64) COMMENT 'input tokens written to the prompt cache; NULL if the answer does not say what was read from it' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_hour_tokens Nullable(Int64) COMMENT 'of cache_written_tokens, those held for an hour' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_reusable_tokens Nullable(Int64) COMMENT 'input tokens that the provider could have read from its cache' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_missed_tokens Nullable(Int64) COMMENT 'of cache_reusable_tokens, those that it did not read' CODEC(T64, ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_break LowCardinality(String) COMMENT 'why tokens were missed, such as system_changed; empty if none were',
    ADD COLUMN IF NOT EXISTS cache_element String COMMENT 'what broke the prefix, such as tools[3], system or messages[4]' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_detail String COMMENT 'what changed, as far as it is known, such as time or the name of a tool' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS cache_confidence LowCardinality(String) COMMENT 'certain or likely; empty if no tokens were missed';

-- How an answer ended.
ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS ended LowCardinality(String) COMMENT 'how the answer of a call that did not fail ended: normal, or limit, empty, refused, filtered; empty if it is not known';

CREATE OR REPLACE VIEW exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
