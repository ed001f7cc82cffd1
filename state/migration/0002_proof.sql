-- The changed files of what was delivered that its checks may run or obey, as Markdown; empty for none.
ALTER TABLE deliveries ADD COLUMN proof TEXT NOT NULL DEFAULT '';
