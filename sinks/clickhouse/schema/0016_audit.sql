-- One row is what somebody did: read texts, ran SQL, exported, erased, or changed a silence, a problem, a token or the configuration.
CREATE TABLE IF NOT EXISTS audit
(
    id       String CODEC(ZSTD(1)),
    at       DateTime64(9, 'UTC') CODEC(Delta(8), ZSTD(1)),
    person   String COMMENT 'name of the session, of the token, or of the user of the operating system; anyone if that is not known' CODEC(ZSTD(1)),
    verified Bool COMMENT 'the person has logged in, or sent a token of their own; otherwise the name is what the client says',
    subject  String COMMENT 'id of the person at the provider of OpenID Connect, or of the token' CODEC(ZSTD(1)),
    role     LowCardinality(String) COMMENT 'viewer, responder, admin; public for a log-in',
    action   LowCardinality(String) COMMENT 'read_texts, run_sql, export, read_audit, change_alert, change_silence, change_problem, change_view, change_token, log_in, log_out, erase, configure',
    target   String COMMENT 'id of a conversation, call, alert, silence, problem, token or user label' CODEC(ZSTD(1)),
    detail   String COMMENT 'the statement, cut at 4 KiB, or what was done' CODEC(ZSTD(3)),
    route    LowCardinality(String) COMMENT 'method and pattern of the path; the command if it was none',
    via      LowCardinality(String) COMMENT 'pages, api, mcp, command, collector',
    address  String COMMENT 'host of the client, and for whom it says that it asks' CODEC(ZSTD(1)),
    outcome  LowCardinality(String) COMMENT 'done, refused, failed, started',
    status   UInt16 COMMENT 'of HTTP; 0 if it was none'
)
ENGINE = ReplacingMergeTree
ORDER BY (at, id);

CREATE VIEW IF NOT EXISTS audit_final AS
SELECT * FROM audit FINAL;
