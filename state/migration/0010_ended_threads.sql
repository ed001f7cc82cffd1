-- Whether an operator has asked for a new thread since, so that no run resumes this one.
ALTER TABLE threads ADD COLUMN ended INTEGER NOT NULL DEFAULT 0;
