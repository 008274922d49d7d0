-- The version of the agent, for comparing versions.
ALTER TABLE samples ADD COLUMN version TEXT NOT NULL DEFAULT '';
