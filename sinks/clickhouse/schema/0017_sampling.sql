-- Texts are stored of a share of the conversations of a service, or up to a quota. Rows of calls are always stored, so counts are exact.
ALTER TABLE exchanges
    ADD COLUMN IF NOT EXISTS texts_dropped LowCardinality(String) COMMENT 'why the texts of the call were not stored with it: sampled, quota; a later call of the conversation may have stored them',
    ADD COLUMN IF NOT EXISTS texts_share Float32 DEFAULT 1 COMMENT 'share of the conversations of the service whose texts are stored';

CREATE OR REPLACE VIEW exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
