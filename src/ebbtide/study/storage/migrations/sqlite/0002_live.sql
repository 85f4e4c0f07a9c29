-- What each trial is for, and evaluations that were called off.
ALTER TABLE asks ADD COLUMN kind TEXT NOT NULL DEFAULT 'explore';
ALTER TABLE tells ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0;  -- 1: called off, so it neither failed nor has a value
CREATE INDEX asks_of_a_kind ON asks (study, kind) WHERE kind <> 'explore';
