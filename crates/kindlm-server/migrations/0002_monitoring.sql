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

-- The detectors of falls, one for each assertion of an agent and version of its set.
CREATE TABLE detectors (
    agent TEXT NOT NULL,
    assertion TEXT NOT NULL,
    assertion_set TEXT NOT NULL,
    reference_size BIGINT NOT NULL,
    reference_passed BIGINT NOT NULL,
    reference_total BIGINT NOT NULL,
    -- The evidence: a list of numbers in JSON.
    evidence TEXT NOT NULL,
    -- The newest results since the reference was complete, or since the alarm; the newest is last. `p` passed, `f` failed.
    recent TEXT NOT NULL,
    PRIMARY KEY (agent, assertion, assertion_set)
);

CREATE TABLE alerts (
    id TEXT NOT NULL PRIMARY KEY,
    agent TEXT NOT NULL,
    assertion TEXT NOT NULL,
    assertion_set TEXT NOT NULL,
    version TEXT NOT NULL,
    -- The kind of check that asked a judge; empty if no judge was asked.
    judged TEXT NOT NULL,
    since BIGINT NOT NULL,
    from_passed BIGINT NOT NULL,
    from_total BIGINT NOT NULL,
    to_passed BIGINT NOT NULL,
    to_total BIGINT NOT NULL,
    evidence DOUBLE PRECISION NOT NULL,
    ended BIGINT,
    -- `recovered` or `other-set`; empty while the alert stands.
    end_reason TEXT NOT NULL DEFAULT ''
);

CREATE UNIQUE INDEX standing_alerts ON alerts (agent, assertion) WHERE ended IS NULL;
CREATE INDEX alerts_by_time ON alerts (since);

-- The messages about alerts. `event` is `alert` or `end`, and `destination` is the digest of an address.
CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    alert_id TEXT NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    event TEXT NOT NULL,
    destination TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    due_at BIGINT NOT NULL DEFAULT 0,
    delivered_at BIGINT
);

CREATE INDEX deliveries_by_alert ON deliveries (alert_id);
CREATE INDEX open_deliveries ON deliveries (destination, due_at) WHERE delivered_at IS NULL;
