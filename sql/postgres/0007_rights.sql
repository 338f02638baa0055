-- Who may do what, and the proof of who did it. Placeholders as in 0004, and {role_prefix}, what the names of the roles
-- begin with.
--
-- 1. An operator changes nothing in a table: functions make the change and record it in the same statement, with the
--    login that the server knows and not only the name that was given.
-- 2. A consumer's functions work for the roles that were granted that consumer, and for no others.
-- 3. A writer cannot store a lane, a hash or a topic that the event does not have.
-- 4. A schema has roles of its own: a writer of one database is not a writer of another one on the same server.

-- ---------------------------------------------------------------------------------------------------------------------
-- The audit trail. actor is what the caller says; the other three are what the server knows. They are null in records
-- from before this migration; client_addr is null for a connection through a local socket, too. As defaults, so that every
-- function that writes a record writes them.
alter table {schema}.audit
  add column login            text,
  add column client_addr      inet,
  add column application_name text;
alter table {schema}.audit
  alter column login set default session_user,
  alter column client_addr set default inet_client_addr(),
  alter column application_name set default current_setting('application_name');

-- Records a change, for functions with the owner's rights that make it; no role may call this by itself. Returns the
-- record's id, so that a query can count what it recorded.
create function {schema}.note_audit(action text, target text, actor text, reason text) returns bigint
  language sql volatile as $$
  insert into {schema}.audit (actor, action, target, reason)
  values (note_audit.actor, note_audit.action, note_audit.target, note_audit.reason) returning id
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- What an operator changes. Every function takes the actor and the reason last, refuses empty ones, and writes one audit
-- record for each row that it changes. A null filter means any. The plans are made for the filters that were given.

-- action: retry, discard or skip. With an event id whatever state allows the action; without, only FAILED and DEAD ones,
-- or those of the given state. Locked in one order, so that two operators do not wait for each other in a circle.
create function {schema}.operator_dead(
  action text, event_id uuid, route text, tenant text, topic text, key text, error_code text, state text, row_max bigint,
  actor text, reason text)
  returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan as $$
declare
  changed_rows bigint;
begin
  if coalesce(action not in ('retry', 'discard', 'skip'), true) then
    raise exception 'action is retry, discard or skip, not "%"', action using errcode = 'invalid_parameter_value';
  end if;
  with chosen as (
    select p.route, p.seq from {schema}.parked p
     where (operator_dead.event_id is null or p.event_id = operator_dead.event_id)
       and (operator_dead.event_id is not null or operator_dead.state is not null or p.state in ('FAILED', 'DEAD'))
       and (operator_dead.route is null or p.route = operator_dead.route)
       and (operator_dead.tenant is null or p.tenant = operator_dead.tenant)
       and (operator_dead.topic is null or p.topic = operator_dead.topic)
       and (operator_dead.key is null or p.key = operator_dead.key)
       and (operator_dead.error_code is null or p.error_code = operator_dead.error_code)
       and (operator_dead.state is null or p.state = operator_dead.state)
       and case operator_dead.action
             when 'retry' then p.state in ('FAILED', 'DEAD')
             when 'discard' then p.state <> 'DISCARDED'
             else p.state = 'DEAD' and not p.skipped end
     order by p.first_failed_at nulls last, p.seq, p.route limit operator_dead.row_max for update
  ), changed as (
    update {schema}.parked p
       set state = case operator_dead.action when 'retry' then 'FAILED' when 'discard' then 'DISCARDED' else p.state end,
           attempts = case operator_dead.action when 'retry' then 0 else p.attempts end,
           next_attempt_at = case operator_dead.action when 'retry' then clock_timestamp()
                                                       when 'discard' then null else p.next_attempt_at end,
           skipped = case operator_dead.action when 'retry' then false when 'skip' then true else p.skipped end
      from chosen c where p.route = c.route and p.seq = c.seq
    returning p.route, p.event_id
  )
  select count({schema}.note_audit('dead.' || operator_dead.action, c.event_id::text || ' on ' || c.route,
                                   operator_dead.actor, operator_dead.reason))
    into changed_rows from changed c;
  return changed_rows;
end
$$;

-- False: there is no such route.
create function {schema}.operator_set_paused(route text, paused boolean, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.route r set paused = operator_set_paused.paused where r.name = operator_set_paused.route;
  if not found then
    return false;
  end if;
  perform {schema}.note_audit(case when paused then 'route.pause' else 'route.resume' end, route, actor, reason);
  return true;
end
$$;

-- Replaces the rule of a tenant. False: there is no such route. The route is locked, so that changes of its rules follow
-- one another.
create function {schema}.operator_set_tenant(
  route text, tenant text, paused boolean, rate_max bigint, weight integer, actor text, reason text)
  returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  was_paused boolean;
begin
  perform from {schema}.route r where r.name = operator_set_tenant.route for no key update;
  if not found then
    return false;
  end if;
  was_paused := coalesce((select t.paused from {schema}.tenant_rule t
                           where t.route = operator_set_tenant.route and t.tenant = operator_set_tenant.tenant), false);
  insert into {schema}.tenant_rule (route, tenant, paused, rate_max, weight)
  values (operator_set_tenant.route, operator_set_tenant.tenant, operator_set_tenant.paused, operator_set_tenant.rate_max,
          operator_set_tenant.weight)
  on conflict on constraint tenant_rule_pkey do update
    set paused = excluded.paused, rate_max = excluded.rate_max, weight = excluded.weight;
  perform {schema}.note_audit(case when was_paused = paused then 'tenant.change'
                                   when paused then 'tenant.pause' else 'tenant.resume' end,
                              tenant || ' on ' || route, actor, reason);
  return true;
end
$$;

-- Makes FAILED, DEAD and GAP events due now, attempts counted from zero again. What a consumer is at is waited for, and
-- read again afterwards. One descent per receipt, however many the table has.
create function {schema}.operator_inbox_retry(
  consumer text, event_id uuid, unit text, topic text, error_code text, state text, row_max bigint,
  actor text, reason text)
  returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan
  set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off as $$
declare
  changed_rows bigint;
begin
  with chosen as materialized (
    select p.place, p.consumer, p.event_id, p.filed_at, p.payload_hash
      from {schema}.inbox_parked p
     where (operator_inbox_retry.consumer is null or p.consumer = operator_inbox_retry.consumer)
       and (operator_inbox_retry.event_id is null or p.event_id = operator_inbox_retry.event_id)
       and (operator_inbox_retry.unit is null or p.unit = operator_inbox_retry.unit)
       and (operator_inbox_retry.topic is null or p.topic = operator_inbox_retry.topic)
       and (operator_inbox_retry.error_code is null or p.error_code = operator_inbox_retry.error_code)
       and (operator_inbox_retry.state is null or p.state = operator_inbox_retry.state)
       and p.state in ('FAILED', 'DEAD', 'GAP')
     order by p.parked_at, p.place limit operator_inbox_retry.row_max for update
  ), changed as (
    update {schema}.inbox_parked p
       set attempts = 0, next_attempt_at = clock_timestamp(), claimed_until = null,
           state = case p.state when 'GAP' then 'GAP' else 'FAILED' end
      from chosen c where p.place = c.place
  ), receipts as (
    update {schema}.inbox r set state = 'FAILED'
      from chosen c
     where r.consumer = c.consumer and r.event_id = c.event_id and r.filed_at = c.filed_at
       and r.payload_hash = c.payload_hash and r.state = 'DEAD'
  )
  select count({schema}.note_audit('inbox.retry', c.event_id::text || ' on ' || c.consumer,
                                   operator_inbox_retry.actor, operator_inbox_retry.reason))
    into changed_rows from chosen c;
  return changed_rows;
end
$$;

-- Gives a parked event up: it counts as seen, its version too, and what waited for it is woken.
create function {schema}.operator_inbox_skip(consumer text, event_id uuid, actor text, reason text) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  it      record;
  seen    bigint;
  skipped bigint := 0;
begin
  -- Versions before messages, as every consumer locks them. A row that is missing is added first, so that there is one
  -- to lock.
  for it in select distinct coalesce(p.tenant, '') as tenant, coalesce(p.aggregate_type, '') as type, p.aggregate_id as id
              from {schema}.inbox_parked p
             where p.consumer = operator_inbox_skip.consumer and p.event_id = operator_inbox_skip.event_id
               and p.state <> 'SKIPPED' and p.aggregate_version is not null and p.aggregate_id <> ''
             order by 1, 2, 3 loop
    insert into {schema}.inbox_version (consumer, tenant, aggregate_type, aggregate_id, version)
      values (operator_inbox_skip.consumer, it.tenant, it.type, it.id, 0) on conflict do nothing;
    perform from {schema}.inbox_version v
      where v.consumer = operator_inbox_skip.consumer and v.tenant = it.tenant and v.aggregate_type = it.type
        and v.aggregate_id = it.id for update;
  end loop;
  -- Waits for a consumer that is at it; what it leaves is what is read below.
  perform from {schema}.inbox_parked p
    where p.consumer = operator_inbox_skip.consumer and p.event_id = operator_inbox_skip.event_id and p.state <> 'SKIPPED'
    order by p.place for update;
  for it in select p.place, p.consumer, p.event_id, p.filed_at, p.payload_hash, p.unit, p.state, p.aggregate_version,
                   coalesce(p.tenant, '') as tenant, coalesce(p.aggregate_type, '') as type, p.aggregate_id as id
              from {schema}.inbox_parked p
             where p.consumer = operator_inbox_skip.consumer and p.event_id = operator_inbox_skip.event_id
               and p.state <> 'SKIPPED'
             order by p.place loop
    update {schema}.inbox_parked p
       set state = 'SKIPPED', next_attempt_at = null, gap_until = null, claimed_until = null
     where p.place = it.place;
    update {schema}.inbox r set state = 'SKIPPED', finished_at = clock_timestamp()
     where r.consumer = it.consumer and r.event_id = it.event_id and r.filed_at = it.filed_at
       and r.payload_hash = it.payload_hash;
    if it.aggregate_version is not null and it.id <> '' then
      -- Of one that is dead the time to wait for what is missing is over; before that the missing one may still come,
      -- and must not be taken for stale.
      select v.version into seen from {schema}.inbox_version v
       where v.consumer = it.consumer and v.tenant = it.tenant and v.aggregate_type = it.type and v.aggregate_id = it.id;
      if it.aggregate_version > seen and (it.aggregate_version = seen + 1 or it.state = 'DEAD') then
        update {schema}.inbox_version v set version = it.aggregate_version
         where v.consumer = it.consumer and v.tenant = it.tenant and v.aggregate_type = it.type and v.aggregate_id = it.id;
      end if;
    end if;
    -- What waits for a gap may have waited for this one: as inbox_wake(), which is for consumers.
    update {schema}.inbox_parked g set next_attempt_at = clock_timestamp()
      from (select n.place from {schema}.inbox_head(it.consumer, it.unit, false) n
            union
            select n.place from {schema}.inbox_head(it.consumer, it.unit, true) n) head
     where g.place = head.place and g.state = 'GAP';
    perform {schema}.note_audit('inbox.skip', it.event_id::text || ' on ' || it.consumer, actor, reason);
    skipped := skipped + 1;
  end loop;
  return skipped;
end
$$;

-- Makes FAILED and DEAD tasks due now, tries counted from zero again. Locked in one order, so that two operators do not
-- wait for each other in a circle. An operator that asks for another attempt has checked the earlier ones.
create function {schema}.operator_task_retry(
  id uuid, state text, target text, operation text, tenant text, idempotency_key text, error_code text, row_max bigint,
  actor text, reason text)
  returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp
  set plan_cache_mode = force_custom_plan as $$
declare
  changed_rows bigint;
begin
  with chosen as materialized (
    select t.place, t.id, t.target from {schema}.task t
     where (operator_task_retry.id is null or t.id = operator_task_retry.id)
       and (operator_task_retry.state is null or t.state = operator_task_retry.state)
       and (operator_task_retry.target is null or t.target = operator_task_retry.target)
       and (operator_task_retry.operation is null or t.operation = operator_task_retry.operation)
       and (operator_task_retry.tenant is null or t.tenant = operator_task_retry.tenant)
       and (operator_task_retry.idempotency_key is null or t.idempotency_key = operator_task_retry.idempotency_key)
       and (operator_task_retry.error_code is null or coalesce(t.code, '') = operator_task_retry.error_code)
       and t.state in ('FAILED', 'DEAD')
     order by t.place limit operator_task_retry.row_max for no key update
  ), changed as (
    update {schema}.task t
       set state = 'FAILED', tries = 0, in_doubt = false, due_at = clock_timestamp(), ended_at = null
      from chosen c where t.place = c.place
  )
  select count({schema}.note_audit('task.retry', c.id::text || ' on ' || c.target, operator_task_retry.actor,
                                   operator_task_retry.reason))
    into changed_rows from chosen c;
  return changed_rows;
end
$$;

-- Gives up a task that is not being sent; returns how many, 0 or 1.
create function {schema}.operator_task_discard(id uuid, actor text, reason text) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  target text := {schema}.task_discard(operator_task_discard.id);
begin
  if target is null then
    return 0;
  end if;
  perform {schema}.note_audit('task.discard', id::text || ' on ' || target, actor, reason);
  return 1;
end
$$;

-- As before, with an audit record when keys were forgotten: from then on such a key is new again.
create or replace function {schema}.once_prune(scope text, before timestamptz, row_max bigint) returns bigint
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  gone bigint;
begin
  delete from {schema}.once o where o.ctid = any (array(
    select old.ctid from {schema}.once old
     where old.scope = once_prune.scope and old.claimed_at < once_prune.before
     limit once_prune.row_max for update skip locked));
  get diagnostics gone = row_count;
  if gone > 0 then
    perform {schema}.note_audit('once.prune', once_prune.scope, session_user,
                                format('%s keys claimed before %s', gone, once_prune.before));
  end if;
  return gone;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Which roles may work as a consumer. The right to call a consumer's functions is not enough: they are called with the
-- name of a consumer, and without this any consumer could read, move and prune any other. Roles are kept by name, so that
-- a restored dump means the same roles. A grant may come before the consumer, and outlives it: a name that was in use is
-- not free for others because its consumer was removed.
create table {schema}.consumer_grant (
  consumer   text        not null collate "C" check (consumer <> ''),
  role       name        not null,
  granted_at timestamptz not null default clock_timestamp(),
  primary key (consumer, role)
);

-- Consumers from before keep working: they are granted to the roles that could use them until now. docs/operate/rights.md
-- says how to narrow that down.
insert into {schema}.consumer_grant (consumer, role)
  select c.name, r.rolname
    from {schema}.inbox_consumer c
   cross join (select distinct a.grantee from pg_proc p, aclexplode(p.proacl) a
                where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'inbox_file'
                  and a.grantee <> p.proowner) f
    join pg_roles r on r.oid = f.grantee;

-- Passes for logins that are, or are members of, a role that was granted the consumer, and for the schema's owner. Runs
-- in functions with the owner's rights, so current_user is the owner and session_user the login, whatever role the
-- session has set.
create function {schema}.require_consumer(consumer text) returns void language plpgsql stable as $$
begin
  if exists (select from {schema}.consumer_grant g
              where g.consumer = require_consumer.consumer
                and pg_has_role(session_user, to_regrole(quote_ident(g.role))::oid, 'member'))
     or pg_has_role(session_user, current_user, 'member') then
    return;
  end if;
  raise exception 'login "%" is not granted consumer "%"', session_user, consumer
    using errcode = 'insufficient_privilege',
          hint = format('an operator grants it with: sealane inbox grant --consumer %s --role %s --reason TEXT',
                        consumer, session_user);
end
$$;

-- Grants a consumer that does not exist yet, and was never granted, to the login that opens it first; otherwise as
-- require_consumer(). Of two logins that open it at once the second finds the grant of the first.
create function {schema}.claim_consumer(consumer text) returns void language plpgsql as $$
begin
  if not exists (select from {schema}.inbox_consumer c where c.name = claim_consumer.consumer) then
    perform pg_advisory_xact_lock(hashtextextended('sealane.consumer.' || consumer,
                                                   '{schema}.consumer_grant'::regclass::oid::bigint));
    if not exists (select from {schema}.inbox_consumer c where c.name = claim_consumer.consumer)
       and not exists (select from {schema}.consumer_grant g where g.consumer = claim_consumer.consumer) then
      insert into {schema}.consumer_grant (consumer, role) values (claim_consumer.consumer, session_user);
      return;
    end if;
  end if;
  perform {schema}.require_consumer(consumer);
end
$$;

-- Puts that check in front of every function that works for a consumer with the owner's rights, whatever its body is by
-- now: a copy of two dozen functions here would undo changes that were made to them since. Those that take an actor are
-- for operators. A function that a later migration makes or replaces begins with the call itself;
-- PostgresRights.AnotherConsumerIsOutOfReach finds one that does not.
do $$
declare
  it      record;
  before  text;
  after   text;
  check_  text;
begin
  for it in select p.oid, p.proname, l.lanname
              from pg_proc p join pg_language l on l.oid = p.prolang
             where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname like 'inbox\_%'
               and p.prosecdef and p.proargnames[1] = 'consumer' and 'actor' <> all (p.proargnames) loop
    before := pg_get_functiondef(it.oid);
    check_ := format('{schema}.%s(%I.consumer);',
                     case it.proname when 'inbox_add_consumer' then 'claim_consumer' else 'require_consumer' end,
                     it.proname);
    if it.lanname = 'plpgsql' then
      after := regexp_replace(before, '\nbegin\n', E'\nbegin\n  perform ' || check_ || E'\n');
    else
      after := regexp_replace(before, 'AS \$function\$\n', E'AS $function$\n  select ' || check_ || E'\n');
    end if;
    if after = before then
      raise exception 'function % has no place for the check of its consumer', it.oid::regprocedure;
    end if;
    execute after;
  end loop;
end
$$;

-- False: it was granted, or not granted, already.
create function {schema}.operator_grant_consumer(consumer text, role text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if to_regrole(quote_ident(role)) is null then
    raise exception 'there is no role "%"', role
      using errcode = 'undefined_object', constraint = 'sealane_unknown_role', column = 'role',
            hint = 'create the role first, or check its name';
  end if;
  insert into {schema}.consumer_grant (consumer, role) values (operator_grant_consumer.consumer, operator_grant_consumer.role)
  on conflict do nothing;
  if not found then
    return false;
  end if;
  perform {schema}.note_audit('consumer.grant', role || ' on ' || consumer, actor, reason);
  return true;
end
$$;

create function {schema}.operator_revoke_consumer(consumer text, role text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from {schema}.consumer_grant g
   where g.consumer = operator_revoke_consumer.consumer and g.role = operator_revoke_consumer.role;
  if not found then
    return false;
  end if;
  perform {schema}.note_audit('consumer.revoke', role || ' on ' || consumer, actor, reason);
  return true;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Appending: as in 0001, and the lane, the hash and the texts are compared with the event that they come with. A writer
-- that goes around the library could break the order of a key with a wrong lane, or make every consumer take an event for
-- damaged with a wrong hash.
create or replace function {schema}.append_batch(
  event_ids uuid[], lane_hashes integer[], tenants text[], kinds text[], topics text[], keys text[], types text[],
  schema_versions integer[], aggregate_types text[], aggregate_ids text[], aggregate_versions bigint[],
  correlation_ids text[], causation_ids text[], traceparents text[], tracestates text[], producers text[],
  schema_ids text[], content_types text[], headers json[], occurred_ats timestamptz[], available_ats timestamptz[],
  payloads bytea[], payload_hashes bytea[],
  unique_entries integer[] default null, unique_kinds text[] default null, unique_fingerprints uuid[] default null)
  returns table (entry integer, event_id uuid)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  skipped   integer[];  -- entries left out, because their dedup key was used before
  first_ids uuid[];     -- and the events that used it
  clash     record;
begin
  if not kinds <@ array['event', 'command'] or '' = any (topics) or '.' = any (topics) or '..' = any (topics)
     -- All names in one look; an empty one was refused above.
     or array_to_string(topics, '') !~ '^[A-Za-z0-9._-]*$' or '' = any (content_types) 
     or '' = any (keys) or '' = any (types)
     or 1 > any (schema_versions) or 1 > any (aggregate_versions)
     or 0 > any (lane_hashes) or 65535 < any (lane_hashes)
     or '1970-01-01T00:00:00Z' > any (occurred_ats) or '9999-12-31T23:59:59.999999Z' < any (occurred_ats)
     or '1970-01-01T00:00:00Z' > any (available_ats) or '9999-12-31T23:59:59.999999Z' < any (available_ats)
     -- Looks at each only when all together could hold one that is too large.
     or (pg_column_size(payloads) > 16777216
         and exists (select from unnest(payloads) as p(payload) where octet_length(p.payload) > 16777216)) then
    perform {schema}.refuse_entry();
  end if;
  if unique_fingerprints is not null then
    -- Sorted by fingerprint, so that two batches with the same keys wait for each other instead of deadlocking.
    with asked as (
      select distinct on (a.fingerprint) a.fingerprint, a.entry
        from unnest(unique_entries, unique_kinds, unique_fingerprints) as a(entry, kind, fingerprint)
       where a.kind = 'd' order by a.fingerprint, a.entry
    ), claimed as (
      insert into {schema}.outbox_unique (fingerprint, kind, event_id)
      select asked.fingerprint, 'd', event_ids[asked.entry] from asked order by asked.fingerprint
      on conflict do nothing returning outbox_unique.event_id
    )
    select array_agg(a.entry) into skipped
      from unnest(unique_entries, unique_kinds) as a(entry, kind)
     where a.kind = 'd' and not exists (select from claimed where claimed.event_id = event_ids[a.entry]);

    if skipped is not null then
      -- Locked first, so that the clean-up of old keys cannot forget one between here and the end.
      perform from {schema}.outbox_unique k
        where k.fingerprint = any (unique_fingerprints) and k.kind = 'd' for key share;
      select array_agg(a.entry), array_agg(k.event_id) into skipped, first_ids
        from unnest(unique_entries, unique_kinds, unique_fingerprints) as a(entry, kind, fingerprint)
        left join {schema}.outbox_unique k on k.fingerprint = a.fingerprint
       where a.kind = 'd' and a.entry = any (skipped);
      if array_position(first_ids, null) is not null then
        raise exception 'a dedup key was forgotten at this very moment; run the transaction again'
          using errcode = 'serialization_failure';
      end if;
    end if;

    with asked as (
      select a.entry, a.kind, a.fingerprint
        from unnest(unique_entries, unique_kinds, unique_fingerprints) as a(entry, kind, fingerprint)
       where a.kind <> 'd' and (skipped is null or a.entry <> all (skipped))
    ), claimed as (
      insert into {schema}.outbox_unique (fingerprint, kind, event_id)
      select asked.fingerprint, asked.kind::"char", event_ids[asked.entry] from asked order by asked.fingerprint
      on conflict do nothing returning outbox_unique.fingerprint, outbox_unique.event_id
    )
    select asked.entry, asked.kind into clash from asked
     where not exists (select from claimed
                        where claimed.fingerprint = asked.fingerprint and claimed.event_id = event_ids[asked.entry])
        or (select count(*) from asked again where again.fingerprint = asked.fingerprint) > 1
     order by asked.entry limit 1;
    if found then
      if clash.kind = 'i' then
        raise exception 'event id % exists already', event_ids[clash.entry]
          using errcode = 'unique_violation', constraint = 'sealane_duplicate_event_id', column = 'id',
                detail = format('code: duplicate_event_id, entry: %s', clash.entry);
      end if;
      raise exception 'there is a % event for % % version % of tenant "%" already', types[clash.entry],
          aggregate_types[clash.entry], aggregate_ids[clash.entry], aggregate_versions[clash.entry], tenants[clash.entry]
        using errcode = 'unique_violation', constraint = 'sealane_duplicate_version', column = 'aggregate_version',
              detail = format('code: duplicate_version, entry: %s', clash.entry);
    end if;
  end if;

  -- What is wrong becomes null on the way, which the table refuses: headers that readers could not read, a hash that is
  -- not the payload's, a lane that is not the key's, and the id of an event with a text that is too long. A look of its
  -- own at every row would cost more than the rest of these checks together.
  insert into {schema}.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers, occurred_at,
     available_at, payload_size, payload, payload_hash)
  select case when octet_length(u.topic) <= 249 and greatest(octet_length(u.key), octet_length(u.aggregate_id)) <= 1024
                   and greatest(octet_length(u.type), octet_length(u.tenant), octet_length(u.content_type),
                                octet_length(u.aggregate_type), octet_length(u.producer), octet_length(u.schema_id)) <= 255
                   and greatest(octet_length(u.correlation_id), octet_length(u.causation_id),
                                octet_length(u.traceparent), octet_length(u.tracestate), 0) <= 512 then u.event_id end,
         case when int4send(u.lane_hash) = '\x0000' || substring(sha256(convert_to(u.key, 'UTF8')) for 2)
              then u.lane_hash % {lanes} end,
         u.tenant, u.kind, u.topic, u.key, u.type, u.schema_version,
         u.aggregate_type, u.aggregate_id, u.aggregate_version, u.correlation_id, u.causation_id, u.traceparent,
         u.tracestate, u.producer, u.schema_id, u.content_type,
         case when u.headers::text = '{}' or not {schema}.bad_headers(u.headers) then u.headers end,
         u.occurred_at, u.available_at, octet_length(u.payload), u.payload,
         case when u.payload_hash = sha256(u.payload) then u.payload_hash end
    from unnest(event_ids, lane_hashes, tenants, kinds, topics, keys, types, schema_versions, aggregate_types,
                aggregate_ids, aggregate_versions, correlation_ids, causation_ids, traceparents, tracestates, producers,
                schema_ids, content_types, headers, occurred_ats, available_ats, payloads, payload_hashes)
         with ordinality
         as u(event_id, lane_hash, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
              aggregate_version, correlation_id, causation_id, traceparent, tracestate, producer, schema_id,
              content_type, headers, occurred_at, available_at, payload, payload_hash, place)
   where skipped is null or u.place <> all (skipped);

  if skipped is not null then
    return query select s.entry, s.id from unnest(skipped, first_ids) as s(entry, id);
  end if;
end
$$;

create or replace function {schema}.append_one(
  event_id uuid, lane_hash integer, tenant text, kind text, topic text, key text, type text, schema_version integer,
  aggregate_type text, aggregate_id text, aggregate_version bigint, correlation_id text, causation_id text,
  traceparent text, tracestate text, producer text, schema_id text, content_type text, headers json,
  occurred_at timestamptz, available_at timestamptz, payload bytea, payload_hash bytea)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if kind not in ('event', 'command') or key = '' or type = '' or schema_version < 1
     or aggregate_version < 1
     or payload_hash <> sha256(payload) or octet_length(payload) > 16777216
     or int4send(lane_hash) <> '\x0000' || substring(sha256(convert_to(key, 'UTF8')) for 2)
     or topic !~ '^[A-Za-z0-9._-]+$' or topic in ('.', '..') or octet_length(topic) > 249 or content_type = ''
     or greatest(octet_length(key), octet_length(aggregate_id)) > 1024
     or greatest(octet_length(type), octet_length(tenant), octet_length(content_type), octet_length(aggregate_type),
                 octet_length(producer), octet_length(schema_id)) > 255
     or greatest(octet_length(correlation_id), octet_length(causation_id), octet_length(traceparent),
                 octet_length(tracestate)) > 512
     or occurred_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z'
     or available_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z'
     or (headers::text <> '{}' and {schema}.bad_headers(headers)) then
    perform {schema}.refuse_entry();
  end if;
  insert into {schema}.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers, occurred_at,
     available_at, payload_size, payload, payload_hash)
  values
    (event_id, lane_hash % {lanes}, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
     aggregate_version, correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers,
     occurred_at, available_at, octet_length(payload), payload, payload_hash);
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Roles belong to the whole server, so their names have to say which database they are for. A new schema gets such names;
-- one from before keeps the names that it has until its owner calls move_roles().
insert into {schema}.setting values
  ('role_prefix', '{role_prefix}', 'What the names of the roles begin with; move_roles() changes it, not an update')
on conflict do nothing;

-- For the owner: gives every right that a role of this schema has to the role of the same kind with the new prefix, which
-- is made when it is missing, and takes it from the old one. Members stay where they are: grant the new roles first, then
-- move, then revoke the old ones. Members are told by the returned text.
create function {schema}.move_roles(prefix text) returns text
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  before constant text := (select value from {schema}.setting where name = 'role_prefix');
  kind    text;
  old     oid;
  new     text;
  command record;
  members text;
begin
  if coalesce(prefix !~ '^[a-z_][a-z0-9_]{0,51}$', true) then
    raise exception '"%" cannot begin the names of roles', prefix
      using errcode = 'invalid_parameter_value', hint = 'use at most 52 of the characters a-z, 0-9 and _';
  end if;
  if prefix = before then
    return 'nothing to do';
  end if;
  foreach kind in array array['writer', 'relay', 'consumer', 'dispatcher', 'operator'] loop
    new := prefix || '_' || kind;
    if to_regrole(new) is null then
      execute format('create role %I nologin', new);
    end if;
    old := to_regrole(quote_ident(before || '_' || kind));
    continue when old is null;
    for command in
      select a.privilege_type || c.columns as privilege, c.what from (
        select n.nspacl as acl, '' as columns, format('schema %I', n.nspname) as what
          from pg_namespace n where n.oid = trim(both '"' from '{schema}')::regnamespace
        union all
        select c.relacl, '', case c.relkind when 'S' then 'sequence ' else 'table ' end || c.oid::regclass
          from pg_class c where c.relnamespace = trim(both '"' from '{schema}')::regnamespace
        union all
        select a.attacl, format(' (%I)', a.attname), 'table ' || c.oid::regclass
          from pg_class c join pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = trim(both '"' from '{schema}')::regnamespace
        union all
        select p.proacl, '', 'function ' || p.oid::regprocedure
          from pg_proc p where p.pronamespace = trim(both '"' from '{schema}')::regnamespace) c
       cross join lateral aclexplode(c.acl) a
       where a.grantee = old
    loop
      execute format('grant %s on %s to %I', command.privilege, command.what, new);
      execute format('revoke %s on %s from %s', command.privilege, command.what, old::regrole);
    end loop;
    insert into {schema}.consumer_grant (consumer, role)
      select g.consumer, new from {schema}.consumer_grant g where g.role = (before || '_' || kind) on conflict do nothing;
    delete from {schema}.consumer_grant g where g.role = (before || '_' || kind);
    members := nullif(concat_ws('; ', members, (
      select format('%s of %s', string_agg(m.member::regrole::text, ', ' order by m.member::regrole::text), old::regrole)
        from pg_auth_members m where m.roleid = old having count(*) > 0)), '');
  end loop;
  update {schema}.setting set value = prefix where name = 'role_prefix';
  perform {schema}.note_audit('roles.move', prefix, session_user, 'from ' || before);
  return coalesce('members of the old roles: ' || members, 'the old roles have no members');
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: an operator reads tables and calls functions.
do $$
declare
  name text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and (p.proname like 'operator\_%'
                      or p.proname in ('note_audit', 'require_consumer', 'claim_consumer', 'move_roles')) loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  if not {create_roles} then
    return;
  end if;
  -- Takes the rights on single columns with it.
  revoke insert, update, delete, truncate on all tables in schema {schema} from {operator};
  revoke execute on function {schema}.inbox_wake, {schema}.task_discard from {operator};
  grant select on {schema}.consumer_grant to {operator};
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname like 'operator\_%' loop
    execute format('grant execute on function %s to {operator}', name);
  end loop;
end
$$;
