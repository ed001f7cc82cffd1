-- Issues that were handed over wait for a person's review until somebody moves them on.
ALTER TABLE releases ADD COLUMN in_review INTEGER NOT NULL DEFAULT 0; -- 1 while the issue waits so

CREATE INDEX releases_in_review ON releases (issue_id) WHERE in_review = 1;
