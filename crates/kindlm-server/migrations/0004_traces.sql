-- The traces that are received in parts. Their parts are deleted an hour after the last part.
CREATE TABLE traces (
    id TEXT NOT NULL PRIMARY KEY,
    -- 1 if a sample was made of the trace.
    has_sample BIGINT NOT NULL DEFAULT 0,
    -- 1 if a root span has arrived.
    has_root BIGINT NOT NULL DEFAULT 0,
    -- The reason why spans are missing.
    lost TEXT,
    -- The time of the last part.
    received_at BIGINT NOT NULL
);

CREATE INDEX traces_by_time ON traces (received_at);

-- The spans of a trace in one request, as OTLP JSON. The digest finds repeated requests.
CREATE TABLE trace_parts (
    trace_id TEXT NOT NULL REFERENCES traces (id) ON DELETE CASCADE,
    digest TEXT NOT NULL,
    -- The number of the part in its trace.
    position BIGINT NOT NULL,
    spans TEXT NOT NULL,
    PRIMARY KEY (trace_id, digest)
);
