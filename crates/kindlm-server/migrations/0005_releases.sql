-- The time at which the first sample of each version of an agent was received.
CREATE TABLE releases (
    agent TEXT NOT NULL,
    version TEXT NOT NULL,
    since BIGINT NOT NULL,
    PRIMARY KEY (agent, version)
);

CREATE INDEX releases_by_time ON releases (since);

INSERT INTO releases (agent, version, since)
SELECT agent, version, min(received_at) FROM samples WHERE version <> '' GROUP BY agent, version;
