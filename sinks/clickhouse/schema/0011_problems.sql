-- An alert names its problem, so that links to it lead there after it is over.
ALTER TABLE alerts ADD COLUMN IF NOT EXISTS problem String COMMENT 'id of the problem that the alert is about; empty if it is about none' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW alerts_final AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
