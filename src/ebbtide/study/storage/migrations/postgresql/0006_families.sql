-- Which studies are siblings.
ALTER TABLE studies ADD COLUMN family text COLLATE "C";
CREATE INDEX siblings ON studies (family, study) WHERE family IS NOT NULL;
