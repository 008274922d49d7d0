-- The share of the samples of which the rate chose this one, in millionths. 0 if the rate did not choose it.
ALTER TABLE samples ADD COLUMN share BIGINT NOT NULL DEFAULT 1000000;
ALTER TABLE results ADD COLUMN share BIGINT NOT NULL DEFAULT 1000000;

-- The score of the assertion; absent if nothing was measured.
ALTER TABLE results ADD COLUMN score DOUBLE PRECISION;
UPDATE results SET score = CASE WHEN status = 'passed' THEN 1.0 ELSE 0.0 END WHERE status IN ('passed', 'failed');

-- The rates by a property of the sample, as JSON; empty if there are none.
ALTER TABLE agents ADD COLUMN strata TEXT NOT NULL DEFAULT '';

-- The time of the first evaluation with the version of the set; -1 if it is not known.
ALTER TABLE assertion_sets ADD COLUMN first_verdict_at BIGINT;
UPDATE assertion_sets SET first_verdict_at = -1;

-- The evaluations that people started on pages. `day` is the number of days since 1970.
CREATE TABLE page_evaluations (
    day BIGINT NOT NULL,
    -- `playground`, `set` or `panel`.
    page TEXT NOT NULL,
    -- The time from the request to the verdict, rounded up.
    seconds BIGINT NOT NULL,
    evaluations BIGINT NOT NULL,
    PRIMARY KEY (day, page, seconds)
);
