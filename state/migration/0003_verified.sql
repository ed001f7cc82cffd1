-- The commit on which verify.command passed last; empty for none.
ALTER TABLE releases ADD COLUMN verified TEXT NOT NULL DEFAULT '';
