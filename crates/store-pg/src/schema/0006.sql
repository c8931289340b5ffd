-- Activity numbers without a row that writers wait for: a number is the tenant's base plus the next value of one sequence.
-- Drawing a value locks no row and is not undone by a rollback, so it can happen in the transaction of an append.

-- Shared by all tenants, because numbers only need to grow within each. All that a tenant could learn from it is how many
-- numbers the others drew. An import with high numbers raises the base of its own tenant only.
CREATE SEQUENCE workrail.activity_sequence AS bigint MINVALUE 0;
-- Its last value is then always the last one that was drawn.
SELECT setval('workrail.activity_sequence', 0);

-- So far the last number of the tenant, so the first number from the sequence is above it. A program of the previous schema
-- that still runs does not find the column and is refused a number.
ALTER TABLE workrail.activity RENAME COLUMN number TO base;
