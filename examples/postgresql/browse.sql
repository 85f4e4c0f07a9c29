-- A customer: two short queries in a transaction; between them the application works for 12 ms and holds the connection.
\set aid random(1, 299999)
BEGIN;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\sleep 12 ms
SELECT abalance FROM pgbench_accounts WHERE aid = :aid + 1;
END;
