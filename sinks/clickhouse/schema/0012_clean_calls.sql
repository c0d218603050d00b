-- How many calls the last clean version made: two calls without a defect prove nothing.
ALTER TABLE findings ADD COLUMN IF NOT EXISTS clean_calls UInt32 COMMENT 'a lower bound of the calls of last_clean_version that were accepted before; 0 if it is unknown' CODEC(T64, ZSTD(1));

CREATE OR REPLACE VIEW findings_final AS
SELECT * FROM findings FINAL;
