-- The budget of an agent for each day in UTC; below 0 for no limit.
ALTER TABLE agents ADD COLUMN evaluations_per_day BIGINT NOT NULL DEFAULT -1;
ALTER TABLE agents ADD COLUMN usd_per_day DOUBLE PRECISION NOT NULL DEFAULT -1;

-- The evaluations of the samples of an agent. `day` is the number of days since 1970.
CREATE TABLE spending (
    agent TEXT NOT NULL,
    day BIGINT NOT NULL,
    evaluations BIGINT NOT NULL,
    usd DOUBLE PRECISION NOT NULL,
    -- The number of evaluations whose cost is not known.
    unknown_costs BIGINT NOT NULL,
    PRIMARY KEY (agent, day)
);
