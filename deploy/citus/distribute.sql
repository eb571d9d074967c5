-- Distributes the tables of calls over the workers of a Citus cluster, by shard.
--
-- Run it once on the coordinator, in the database of the service, as the owner of the tables:
-- `psql --single-transaction --file deploy/citus/distribute.sql URL`. The service has created its tables at its first start, and no
-- other may run meanwhile. docs/operations/scale.md has all steps.

-- The tables that a commit writes. Rows of one shard are on one worker.
SELECT create_distributed_table('event_clock', 'shard', colocate_with => 'none');
SELECT create_distributed_table('tool_calls', 'shard', colocate_with => 'event_clock');
SELECT create_distributed_table('call_events', 'shard', colocate_with => 'event_clock');
SELECT create_distributed_table('callbacks', 'shard', colocate_with => 'event_clock');
SELECT create_distributed_table('commits', 'shard', colocate_with => 'event_clock');
SELECT create_distributed_table('inbox', 'shard', colocate_with => 'event_clock');

-- Keys are unique for a tenant, whatever the shard of the call is.
SELECT create_distributed_table('idempotency_keys', 'tenant', colocate_with => 'none');

-- A commit runs as a whole on the worker of its shard.
SELECT create_distributed_function('journal_update(
    smallint, text, bigint, uuid[], bigint[], text[], text[]
)');
SELECT create_distributed_function('journal_commit(
    smallint, bigint, text, uuid, bigint, bytea, text, uuid[], text[], text[], uuid[], text[], bigint[], text[],
    text[], uuid[], bigint[], text[], text[], uuid[], integer[], integer[], text[], text[], uuid[], text[], text[],
    uuid[]
)', distribution_arg_name => 'in_shard', colocate_with => 'event_clock', force_delegation => true);
SELECT create_distributed_function('journal_commit_insert(
    smallint, bigint, text, uuid, bigint, text, uuid, text, text, uuid, text, smallint, integer, integer, bigint,
    integer, integer, integer, text, text, smallint, smallint, bigint
)', distribution_arg_name => 'in_shard', colocate_with => 'event_clock', force_delegation => true);
SELECT create_distributed_function('journal_commit_update(
    smallint, bigint, text, uuid, bigint, text, uuid, smallint, integer, integer, integer, integer, text, text, smallint,
    smallint, bigint
)', distribution_arg_name => 'in_shard', colocate_with => 'event_clock', force_delegation => true);
