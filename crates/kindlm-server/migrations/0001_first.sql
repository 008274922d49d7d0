-- The same statements run on SQLite and on PostgreSQL. Times are milliseconds since 1970 in UTC.

CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    revoked_at BIGINT
);

CREATE TABLE assertion_sets (
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    digest TEXT NOT NULL,
    author TEXT NOT NULL,
    content TEXT NOT NULL,
    diff TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE samples (
    id TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    received_at BIGINT NOT NULL
);

CREATE INDEX samples_by_agent ON samples (agent, received_at);
CREATE INDEX samples_by_subject ON samples (subject);
CREATE INDEX samples_by_time ON samples (received_at);

CREATE TABLE feedback (
    id TEXT NOT NULL PRIMARY KEY,
    sample_id TEXT NOT NULL REFERENCES samples (id) ON DELETE CASCADE,
    value TEXT NOT NULL,
    note TEXT NOT NULL,
    author TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE INDEX feedback_by_sample ON feedback (sample_id);

CREATE TABLE idempotency_keys (
    owner TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_digest TEXT NOT NULL,
    response TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (owner, idempotency_key)
);

CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);
