-- A signal is a row of findings whose rule_id is a signal's and whose severity is signal. One of them, latent_violation,
-- says who would reject what was accepted. A view keeps the columns it was made with, so it is made again.
ALTER TABLE findings
    ADD COLUMN IF NOT EXISTS rejected_by Array(LowCardinality(String)) COMMENT 'dialect/variant of the targets that would reject what was accepted' AFTER severity;

CREATE OR REPLACE VIEW findings_final AS
SELECT * FROM findings FINAL;
