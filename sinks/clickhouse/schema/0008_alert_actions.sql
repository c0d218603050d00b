-- One row is one action of a person on alerts: an acknowledgement, a silence or its end, also if it was refused.
CREATE TABLE IF NOT EXISTS alert_actions
(
    id         String CODEC(ZSTD(1)),
    at         DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    action     LowCardinality(String) COMMENT 'acknowledge, unacknowledge, silence, change_silence, unsilence, show_query',
    refused    Bool COMMENT 'it was not done; the comment says why',
    name       LowCardinality(String) COMMENT 'rule of the group; empty if the action is on no group',
    service    LowCardinality(String) COMMENT 'of the group or of the matchers; empty if it is not one service',
    group_key  String COMMENT 'rule and labels of the group; empty if the action is on no group' CODEC(ZSTD(1)),
    incident   Nullable(DateTime64(9, 'UTC')) COMMENT 'start of the acknowledged incident' CODEC(Delta(8), ZSTD(1)),
    silence_id String CODEC(ZSTD(1)),
    matchers   String COMMENT 'of the silence' CODEC(ZSTD(1)),
    ends_at    Nullable(DateTime64(9, 'UTC')) COMMENT 'end of the silence' CODEC(Delta(8), ZSTD(1)),
    actor      String COMMENT 'a Slack user id, or the author that a command states' CODEC(ZSTD(1)),
    actor_name String CODEC(ZSTD(1)),
    via        LowCardinality(String) COMMENT 'slack, api',
    comment    String COMMENT 'of the silence, or the reason of a refusal' CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
ORDER BY (at, id);

CREATE VIEW IF NOT EXISTS alert_actions_final AS
SELECT * FROM alert_actions FINAL;

ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS silence_id String COMMENT 'the active silence, or the one at the end; empty if there is none' CODEC(ZSTD(1)),
    ADD COLUMN IF NOT EXISTS silenced_by LowCardinality(String) COMMENT 'author of the silence',
    ADD COLUMN IF NOT EXISTS inhibited_by String COMMENT 'alert_id of the alert that hides this one' CODEC(ZSTD(1));

CREATE OR REPLACE VIEW alerts_final AS
SELECT * FROM alerts FINAL SETTINGS do_not_merge_across_partitions_select_final = 1;
