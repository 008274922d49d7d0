-- The jobs of samples are rows in the tables of apalis, which the server creates before this migration.
-- The samples that wait become jobs after it: each database needs other statements for that.
CREATE TABLE unqueued_samples (
    id TEXT NOT NULL PRIMARY KEY,
    received_at BIGINT NOT NULL,
    due BIGINT NOT NULL,
    attempts BIGINT NOT NULL
);

INSERT INTO unqueued_samples (id, received_at, due, attempts)
SELECT id, received_at, leased_until, attempts FROM samples WHERE state = 'pending';

DROP INDEX samples_by_state;
ALTER TABLE samples DROP COLUMN leased_until;
ALTER TABLE samples DROP COLUMN attempts;
CREATE INDEX samples_by_state ON samples (state, received_at);
