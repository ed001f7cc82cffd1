-- The account whose user hands an issue over without verify, by the command deliver; empty for other commands.
ALTER TABLE commands ADD COLUMN unverified TEXT NOT NULL DEFAULT '';
