-- Where in the agent's own code a call is made: core/agent.py:145 Agent.run, '' if the hook does not know it.
ALTER TABLE exchanges ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent the call was made: file:line function';

CREATE OR REPLACE VIEW exchanges_final AS
SELECT * FROM exchanges FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;

ALTER TABLE findings ADD COLUMN IF NOT EXISTS code LowCardinality(String) COMMENT 'where in the code of the agent exchange_id was made: file:line function';
ALTER TABLE findings ADD COLUMN IF NOT EXISTS answer_code LowCardinality(String) COMMENT 'the same of the call whose answer was not kept as it was';

CREATE OR REPLACE VIEW findings_final AS
SELECT * FROM findings FINAL;
