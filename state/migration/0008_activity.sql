-- What the agent does now: its last command or the first line of its last sentence.
ALTER TABLE runs ADD COLUMN activity TEXT NOT NULL DEFAULT '';
-- The issue of a skip, so that views can name it.
ALTER TABLE skips ADD COLUMN title TEXT NOT NULL DEFAULT '';
ALTER TABLE skips ADD COLUMN url   TEXT NOT NULL DEFAULT '';
