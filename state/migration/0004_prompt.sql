-- The hash of the prompt that a thread was given last, empty for threads of earlier versions.
ALTER TABLE threads ADD COLUMN told_prompt TEXT NOT NULL DEFAULT '';

-- Why after_run failed, empty where it did not. It does not change the outcome of a run.
ALTER TABLE runs ADD COLUMN after_run_error TEXT NOT NULL DEFAULT '';
