-- What agents say that their work has cost, in millionths of a US dollar; 0 if they do not say it.
ALTER TABLE runs ADD COLUMN tokens_paid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN base_paid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE issue_totals ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
ALTER TABLE model_totals ADD COLUMN paid INTEGER NOT NULL DEFAULT 0;
