-- The text of the file of a suite, when a run of it started or the server changed it.
CREATE TABLE suite_versions (
    suite TEXT NOT NULL,
    version BIGINT NOT NULL,
    digest TEXT NOT NULL,
    author TEXT NOT NULL,
    content TEXT NOT NULL,
    diff TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (suite, version)
);

-- The version of the suite of a run.
CREATE TABLE run_versions (
    run TEXT NOT NULL PRIMARY KEY,
    suite TEXT NOT NULL,
    version BIGINT NOT NULL,
    started_at BIGINT NOT NULL
);

CREATE INDEX run_versions_by_time ON run_versions (started_at);

-- The last version of a deleted set, so that a new set with its name has other versions.
CREATE TABLE deleted_sets (
    name TEXT NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

-- The tags of the sample, each between two line breaks; empty without tags.
ALTER TABLE samples ADD COLUMN tags TEXT NOT NULL DEFAULT '';
