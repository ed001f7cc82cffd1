-- What an issue was released with: its labels, what its last agent has said last, and how many commits it has delivered.
ALTER TABLE releases ADD COLUMN labels  TEXT    NOT NULL DEFAULT '[]'; -- JSON
ALTER TABLE releases ADD COLUMN words   TEXT    NOT NULL DEFAULT '';
ALTER TABLE releases ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;

-- What the agent has said last: its result, what it needs from a person, or the first line of its last message.
ALTER TABLE runs ADD COLUMN words TEXT GENERATED ALWAYS AS
  (coalesce(nullif(delivery, '') ->> '$.handover.summary', nullif(delivery, '') ->> '$.handover.blocked', nullif(activity, ''), last_message)) VIRTUAL;
ALTER TABLE runs ADD COLUMN labels TEXT GENERATED ALWAYS AS (coalesce(issue ->> '$.labels', '[]')) VIRTUAL;
-- What a search for text reaches.
ALTER TABLE runs ADD COLUMN found TEXT GENERATED ALWAYS AS (identifier || char(10) || coalesce(issue ->> '$.title', '') || char(10) ||
  coalesce(outcome, '') || ': ' || error_code || ': ' || error_text || char(10) || coalesce(nullif(delivery, '') ->> '$.code', '') || ': ' ||
  coalesce(nullif(delivery, '') ->> '$.message', '') || char(10) || words) VIRTUAL;

UPDATE releases SET (labels, words, commits) = (SELECT labels, words, coalesce(nullif(delivery, '') ->> '$.commits', 0) FROM runs
    WHERE runs.issue_id = releases.issue_id AND started_at BETWEEN claimed_at AND released_at AND kind = 'agent' ORDER BY id DESC LIMIT 1)
  WHERE EXISTS (SELECT 1 FROM runs WHERE runs.issue_id = releases.issue_id AND started_at BETWEEN claimed_at AND released_at AND kind = 'agent');

CREATE INDEX releases_by_issue ON releases (issue_id, id);
-- A search reads only this index, the newest runs first.
CREATE INDEX runs_found ON runs (id DESC, found, labels) WHERE settled = 1;

-- The outcomes by day are read from the index alone.
DROP INDEX runs_by_end;
CREATE INDEX runs_by_end ON runs (ended_at, outcome, runtime_ms) WHERE kind = 'agent';

ALTER TABLE skips ADD COLUMN labels TEXT NOT NULL DEFAULT '[]'; -- JSON
