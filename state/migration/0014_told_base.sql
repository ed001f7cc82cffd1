-- The commit of the repository's base that the thread was last told of.
ALTER TABLE threads ADD COLUMN told_base TEXT NOT NULL DEFAULT '';
