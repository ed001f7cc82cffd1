-- The place in the queue for a slot, and 0 if the issue does not wait for one.
ALTER TABLE skips ADD COLUMN place INTEGER NOT NULL DEFAULT 0;
