-- The version of the agent, for comparing versions.
ALTER TABLE samples ADD COLUMN version TEXT NOT NULL DEFAULT '';

-- The queue: `pending` samples wait for their evaluation. The others are `done`, `failed` or `skipped`.
ALTER TABLE samples ADD COLUMN state TEXT NOT NULL DEFAULT 'skipped';
ALTER TABLE samples ADD COLUMN leased_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE samples ADD COLUMN attempts BIGINT NOT NULL DEFAULT 0;
-- The evaluation, or an object with `error`; empty if there is none.
ALTER TABLE samples ADD COLUMN evaluation TEXT NOT NULL DEFAULT '';

-- A lease takes the first entry whose lease has ended, without sorting.
CREATE INDEX samples_by_state ON samples (state, received_at, id, leased_until);

-- An author has one opinion about a sample, the last one. Opinions without an author are all counted.
DELETE FROM feedback WHERE author <> '' AND EXISTS (
    SELECT 1 FROM feedback AS later WHERE later.sample_id = feedback.sample_id AND later.author = feedback.author
    AND (later.created_at > feedback.created_at OR later.created_at = feedback.created_at AND later.id > feedback.id)
);
CREATE UNIQUE INDEX feedback_by_author ON feedback (sample_id, author) WHERE author <> '';

-- The set of each agent, and the share of its samples that is evaluated, in millionths.
CREATE TABLE agents (
    name TEXT NOT NULL PRIMARY KEY,
    assertion_set TEXT NOT NULL,
    rate BIGINT NOT NULL,
    author TEXT NOT NULL,
    changed_at BIGINT NOT NULL
);

CREATE TABLE results (
    sample_id TEXT NOT NULL REFERENCES samples (id) ON DELETE CASCADE,
    position BIGINT NOT NULL,
    agent TEXT NOT NULL,
    version TEXT NOT NULL,
    assertion_set TEXT NOT NULL,
    assertion TEXT NOT NULL,
    status TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    PRIMARY KEY (sample_id, position)
);

CREATE INDEX results_by_time ON results (agent, received_at);
CREATE INDEX results_by_status ON results (status, received_at);
