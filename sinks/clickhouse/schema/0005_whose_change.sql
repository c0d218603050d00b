-- A row of findings also says where exactly its violation was seen first, and since which version the defect is there.
-- Rows from before have none of it. A view keeps the columns it was made with, so it is made again.
ALTER TABLE findings
    ADD COLUMN IF NOT EXISTS exchange_version LowCardinality(String) COMMENT 'service version of exchange_id; that of the row may be newer' AFTER exchange_id,
    ADD COLUMN IF NOT EXISTS exchange_instance String COMMENT 'the process that sent exchange_id' CODEC(ZSTD(1)) AFTER exchange_version,
    ADD COLUMN IF NOT EXISTS exchange_messages UInt32 COMMENT 'in the request of exchange_id: how far the conversation was' CODEC(T64, ZSTD(1)) AFTER exchange_instance,
    ADD COLUMN IF NOT EXISTS first_version LowCardinality(String) COMMENT 'service version that showed the defect first, in any conversation' AFTER fingerprint,
    ADD COLUMN IF NOT EXISTS last_clean_version LowCardinality(String) COMMENT 'the newest other version of the stage that made calls before; empty when there was none' AFTER first_version;

CREATE OR REPLACE VIEW findings_final AS
SELECT * FROM findings FINAL;
