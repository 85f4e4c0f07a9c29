-- A report: 2,000 accounts without duplicates, some milliseconds of computing and about 250 kB of memory.
\set first random(1, 297000)
SELECT count(*) FROM (SELECT DISTINCT aid, filler FROM pgbench_accounts WHERE aid BETWEEN :first AND :first + 1999) AS accounts;
