-- Effects that happen once by what they are about and not by the event that asks for them: the same payment announced by
-- two different events. Placeholders as in 0001 and 0003.

-- Kept for ever, unless somebody calls once_prune().
create table {schema}.once (
  scope      text        not null collate "C",
  key        text        not null collate "C",
  claimed_at timestamptz not null default clock_timestamp(),
  primary key (scope, key)
);

-- True for the first that asks, false ever after. A transaction that meets an open one with the same key waits for its
-- end: false when it commits, true when it rolls back. Asked twice in one transaction it is true once, because a consumer
-- applies many events in one.
create function {schema}.ensure_once(scope text, key text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.check_text('scope', ensure_once.scope, 255, true),
          {schema}.check_text('key', ensure_once.key, 1024, true);
  insert into {schema}.once (scope, key) values (ensure_once.scope, ensure_once.key)
  on conflict on constraint once_pkey do nothing;
  return found;
end
$$;

-- Forgets keys of the scope that were claimed before that time, at most row_max; returns how many. From then on such a key
-- is new again: only for scopes whose keys surely do not come back.
create function {schema}.once_prune(scope text, before timestamptz, row_max bigint) returns bigint
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  with gone as (
    delete from {schema}.once o where o.ctid = any (array(
      select old.ctid from {schema}.once old
       where old.scope = once_prune.scope and old.claimed_at < before limit row_max for update skip locked))
    returning 1
  )
  select count(*) from gone
$$;

revoke execute on function {schema}.ensure_once, {schema}.once_prune from public;
do $$
begin
  if {create_roles} then
    grant execute on function {schema}.ensure_once to {writer}, {consumer};
    grant execute on function {schema}.once_prune to {operator};
  end if;
end
$$;
