-- Which order keys of a consumer wait, and when each may be tried, without looking at what is parked; consumers that hold or
-- are paused; and gaps that an operator accepts. Placeholders as in 0007.
--
-- 1. inbox_order_key has one row for each order key with a parked message. Triggers on inbox_parked keep it, so that every
--    statement that changes a parked message changes the order key with it, also those of members from before.
-- 2. A consumer that is paused, or whose members hold, says so in its row of inbox_consumer.

-- ---------------------------------------------------------------------------------------------------------------------
-- due_at: when the first message of the order key may be tried; null: it waits for a person, or for an event that it is told
-- by. due_by_version_at: the same where versions are guarded (see inbox_head()).
create table {schema}.inbox_order_key (
  consumer          text        not null collate "C" references {schema}.inbox_consumer (name) on delete cascade,
  unit              text        not null collate "C",
  due_at            timestamptz,
  due_by_version_at timestamptz,
  primary key (consumer, unit)
);
create index inbox_order_key_due on {schema}.inbox_order_key (consumer, due_at) where due_at is not null;
create index inbox_order_key_due_by_version on {schema}.inbox_order_key (consumer, due_by_version_at)
  where due_by_version_at is not null;

-- When the message may be tried, from the columns of inbox_head().
create function {schema}.inbox_head_due(state text, next_attempt_at timestamptz, parked_at timestamptz,
                                        claimed_until timestamptz) returns timestamptz
  language sql immutable parallel safe as $$
  select case when state in ('RECEIVED', 'FAILED', 'GAP') and coalesce(next_attempt_at < 'infinity', true)
              then greatest(coalesce(next_attempt_at, parked_at), claimed_until) end
$$;

-- Brings the rows of these order keys up to date. Each is locked first, in one order, and the messages are read by a later
-- statement: so that a member that removes the first message and another one that adds a follower at the same time leave
-- a row behind.
create function {schema}.refresh_order_keys(consumer text, units text[]) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  loop
    perform from {schema}.inbox_order_key k
      where k.consumer = refresh_order_keys.consumer and k.unit = any (refresh_order_keys.units)
      order by k.unit for update;
    perform from unnest(refresh_order_keys.units) as u(unit)
      where not exists (select from {schema}.inbox_order_key k
                         where k.consumer = refresh_order_keys.consumer and k.unit = u.unit collate "C")
        and exists (select from {schema}.inbox_parked p
                     where p.consumer = refresh_order_keys.consumer and p.unit = u.unit collate "C"
                       and p.state <> 'SKIPPED');
    exit when not found;
    insert into {schema}.inbox_order_key (consumer, unit)
      select distinct refresh_order_keys.consumer, u.unit collate "C"
        from unnest(refresh_order_keys.units) as u(unit)
       where exists (select from {schema}.inbox_parked p
                      where p.consumer = refresh_order_keys.consumer and p.unit = u.unit collate "C"
                        and p.state <> 'SKIPPED')
       order by 2
      on conflict do nothing;
  end loop;
  delete from {schema}.inbox_order_key k
   where k.consumer = refresh_order_keys.consumer and k.unit = any (refresh_order_keys.units)
     and not exists (select from {schema}.inbox_parked p
                      where p.consumer = k.consumer and p.unit = k.unit and p.state <> 'SKIPPED');
  update {schema}.inbox_order_key k set due_at = n.due_at, due_by_version_at = n.due_by_version_at
    from (select u.unit, {schema}.inbox_head_due(p.state, p.next_attempt_at, p.parked_at, p.claimed_until) as due_at,
                 {schema}.inbox_head_due(v.state, v.next_attempt_at, v.parked_at, v.claimed_until) as due_by_version_at
            from (select distinct a.unit collate "C" as unit from unnest(refresh_order_keys.units) as a(unit)) u
           cross join lateral {schema}.inbox_head(refresh_order_keys.consumer, u.unit, false) p
           cross join lateral {schema}.inbox_head(refresh_order_keys.consumer, u.unit, true) v) n
   where k.consumer = refresh_order_keys.consumer and k.unit = n.unit
     and (k.due_at is distinct from n.due_at or k.due_by_version_at is distinct from n.due_by_version_at);
end
$$;

create function {schema}.order_keys_changed() returns trigger
  language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  it record;
begin
  -- What is given up holds no order key up, unless it did so before.
  for it in select c.consumer, array_agg(distinct c.unit) as units from changed c
             where tg_op = 'UPDATE' or c.state <> 'SKIPPED' group by c.consumer order by 1 loop
    perform {schema}.refresh_order_keys(it.consumer, it.units);
  end loop;
  return null;
end
$$;

-- Nothing is parked, tried or decided about between the first look and the triggers.
lock table {schema}.inbox_parked in share row exclusive mode;
insert into {schema}.inbox_order_key (consumer, unit, due_at, due_by_version_at)
  select w.consumer, w.unit, {schema}.inbox_head_due(p.state, p.next_attempt_at, p.parked_at, p.claimed_until),
         {schema}.inbox_head_due(v.state, v.next_attempt_at, v.parked_at, v.claimed_until)
    from (select distinct a.consumer, a.unit from {schema}.inbox_parked a where a.state <> 'SKIPPED') w
   cross join lateral {schema}.inbox_head(w.consumer, w.unit, false) p
   cross join lateral {schema}.inbox_head(w.consumer, w.unit, true) v;
create trigger order_keys_insert after insert on {schema}.inbox_parked
  referencing new table as changed for each statement execute function {schema}.order_keys_changed();
create trigger order_keys_update after update on {schema}.inbox_parked
  referencing new table as changed for each statement execute function {schema}.order_keys_changed();
create trigger order_keys_delete after delete on {schema}.inbox_parked
  referencing old table as changed for each statement execute function {schema}.order_keys_changed();

-- An attempt changes no column that an index has.
alter table {schema}.inbox_parked set (fillfactor = 85);
-- What was given up is never looked at again, but by its age; what an operator decides about is found in the order in which
-- it waits.
drop index {schema}.inbox_parked_waiting;
drop index {schema}.inbox_parked_state;
create index inbox_parked_skipped on {schema}.inbox_parked (consumer, parked_at) where state = 'SKIPPED';
create index inbox_parked_counted on {schema}.inbox_parked (consumer, state) where state in ('DEAD', 'GAP');
create index inbox_parked_oldest on {schema}.inbox_parked (consumer, parked_at, place)
  where state in ('GAP', 'FAILED', 'DEAD');

create or replace function {schema}.inbox_clear_skipped(consumer text, horizon timestamptz, row_max bigint) returns void
  language sql as $$
  delete from {schema}.inbox_parked p
   where p.place = any (array(
           select s.place from {schema}.inbox_parked s
            where s.consumer = inbox_clear_skipped.consumer and s.state = 'SKIPPED'
              and s.parked_at < inbox_clear_skipped.horizon
            order by s.parked_at limit inbox_clear_skipped.row_max));
$$;

-- As in 0003, from the rows of the order keys.
create or replace function {schema}.inbox_due_units(consumer text, by_version boolean, unit_max bigint)
  returns table (unit text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now timestamptz := clock_timestamp();
begin
  perform {schema}.require_consumer(inbox_due_units.consumer);
  if by_version then
    return query
      select k.unit from {schema}.inbox_order_key k
       where k.consumer = inbox_due_units.consumer and k.due_by_version_at is not null and k.due_by_version_at <= now
       order by k.due_by_version_at limit unit_max;
  else
    return query
      select k.unit from {schema}.inbox_order_key k
       where k.consumer = inbox_due_units.consumer and k.due_at is not null and k.due_at <= now
       order by k.due_at limit unit_max;
  end if;
end
$$;

-- As in 0009, one descent into the order keys for each arrival, however many wait.
create or replace function {schema}.inbox_waits(consumer text, units text[], by_version boolean, tenants text[],
                                     aggregate_types text[], aggregate_ids text[], ids uuid[], hashes bytea[])
  returns table (entry integer, fact text, topic text, partition integer, place bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_waits.consumer);
  return query
    select u.entry::integer,
           case when h.state = 'GAP' and coalesce(h.tenant, '') = u.tenant and h.aggregate_type = u.type
                     and h.aggregate_id = u.id then 'gap' else 'waits' end,
           null::text, null::integer, null::bigint
      from unnest(units, tenants, aggregate_types, aggregate_ids) with ordinality as u(unit, tenant, type, id, entry)
     cross join lateral (select k.unit from {schema}.inbox_order_key k
                          where k.consumer = inbox_waits.consumer and k.unit = u.unit collate "C" offset 0) k
     cross join lateral {schema}.inbox_head(inbox_waits.consumer, k.unit, inbox_waits.by_version) h;
  if ids is not null then
    return query
      select u.entry::integer,
             case when h.payload_hash <> u.hash then 'other' when h.state = 'SKIPPED' then 'done' else 'parked' end,
             null::text, null::integer, null::bigint
        from unnest(ids, hashes) with ordinality as u(id, hash, entry)
       cross join lateral (
             select p.state, p.payload_hash from {schema}.inbox_parked p
              where p.consumer = inbox_waits.consumer and p.event_id = u.id
              order by p.payload_hash <> u.hash, p.place limit 1) h;
  end if;
  return query
    select null::integer, 'suspect', p.topic, p.partition, p.suspect_offset from {schema}.inbox_progress p
     where p.consumer = inbox_waits.consumer and p.suspect_offset is not null;
end
$$;

-- As in 0003. An order key whose row says that it is due, although its first message is not, is put right.
create or replace function {schema}.inbox_claim(consumer text, unit text, by_version boolean, patience_ms bigint)
  returns table (place bigint, attempts integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  head bigint;
begin
  perform {schema}.require_consumer(inbox_claim.consumer);
  select h.place into head from {schema}.inbox_head(inbox_claim.consumer, inbox_claim.unit, inbox_claim.by_version) h;
  -- A member that tries it holds the row, also when its time is over.
  perform from {schema}.inbox_parked p
    where p.place = head and p.state in ('RECEIVED', 'GAP', 'FAILED')
      and coalesce(p.next_attempt_at <= clock_timestamp(), true) and coalesce(p.claimed_until <= clock_timestamp(), true)
    for update skip locked;
  if found then
    return query
      update {schema}.inbox_parked p
         set attempts = p.attempts + 1,
             claimed_until = clock_timestamp() + inbox_claim.patience_ms * interval '1 millisecond'
       where p.place = head returning p.place, p.attempts;
  elsif head is null or not exists (
          select from {schema}.inbox_parked p
           where p.place = head and p.state in ('RECEIVED', 'GAP', 'FAILED')
             and coalesce(p.next_attempt_at <= clock_timestamp(), true)
             and coalesce(p.claimed_until <= clock_timestamp(), true)) then
    perform {schema}.refresh_order_keys(inbox_claim.consumer, array[inbox_claim.unit]);
  end if;
end
$$;

-- Counts an attempt at the first message of each of these order keys that is due and was not tried before, unless another
-- member is at it. One that was tried before may take the process with it, and goes alone.
create function {schema}.inbox_claim_all(consumer text, units text[], by_version boolean, patience_ms bigint)
  returns table (place bigint, attempts integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  heads bigint[];
begin
  perform {schema}.require_consumer(inbox_claim_all.consumer);
  select array_agg(h.place) into heads
    from (select distinct a.unit collate "C" as unit from unnest(inbox_claim_all.units) as a(unit)) u
   cross join lateral {schema}.inbox_head(inbox_claim_all.consumer, u.unit, inbox_claim_all.by_version) h;
  return query
    with free as materialized (
      select p.place from {schema}.inbox_parked p
       where p.place = any (heads) and p.state in ('RECEIVED', 'GAP', 'FAILED') and p.attempts = 0
         and coalesce(p.next_attempt_at <= clock_timestamp(), true)
         and coalesce(p.claimed_until <= clock_timestamp(), true)
       order by p.place for update skip locked
    )
    update {schema}.inbox_parked p
       set attempts = p.attempts + 1,
           claimed_until = clock_timestamp() + inbox_claim_all.patience_ms * interval '1 millisecond'
      from free f where p.place = f.place
    returning p.place, p.attempts;
end
$$;

-- As inbox_hold(), for the messages of inbox_claim_all(): the versions of all of them first.
create function {schema}.inbox_hold_all(consumer text, places bigint[], by_version boolean)
  returns table (topic text, partition integer, "offset" bigint, published_at bigint, message_key bytea,
                 message_value bytea, message_headers bytea, event_id uuid, filed_at bigint, payload_hash bytea, state text,
                 parked_at bigint, first_failed_at bigint, gap_overdue boolean, tenant text, aggregate_type text,
                 aggregate_id text, version_seen bigint, place bigint, unit text, attempts integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  tenants text[];
  types   text[];
  names   text[];
begin
  perform {schema}.require_consumer(inbox_hold_all.consumer);
  if by_version then
    select array_agg(coalesce(p.tenant, '')), array_agg(p.aggregate_type), array_agg(p.aggregate_id)
      into tenants, types, names
      from {schema}.inbox_parked p
     where p.place = any (places) and p.consumer = inbox_hold_all.consumer
       and p.aggregate_type is not null and p.aggregate_id is not null and p.aggregate_version is not null;
    if tenants is not null then
      perform from {schema}.inbox_lock_versions(inbox_hold_all.consumer, tenants, types, names);
    end if;
  end if;
  perform from {schema}.inbox_parked p
    where p.place = any (places) and p.consumer = inbox_hold_all.consumer order by p.place for update;
  return query
    select p.topic, p.partition, p."offset", (extract(epoch from p.published_at) * 1000000)::bigint, p.message_key,
           p.message_value, p.message_headers, p.event_id, (extract(epoch from p.filed_at) * 1000000)::bigint,
           p.payload_hash, p.state, (extract(epoch from p.parked_at) * 1000000)::bigint,
           (extract(epoch from p.first_failed_at) * 1000000)::bigint,
           coalesce(p.state = 'GAP' and p.gap_until <= clock_timestamp(), false), p.tenant, p.aggregate_type,
           p.aggregate_id,
           case when inbox_hold_all.by_version then coalesce((
             select v.version from {schema}.inbox_version v
              where v.consumer = p.consumer and v.tenant = coalesce(p.tenant, '') and v.aggregate_type = p.aggregate_type
                and v.aggregate_id = p.aggregate_id), 0) else 0 end,
           p.place, p.unit, p.attempts
      from {schema}.inbox_parked p
     where p.place = any (places) and p.consumer = inbox_hold_all.consumer and p.attempts = 1
       and p.claimed_until is not null and p.state in ('RECEIVED', 'GAP', 'FAILED')
     order by p.place;
end
$$;

create function {schema}.inbox_unpark_all(consumer text, places bigint[]) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_unpark_all.consumer);
  delete from {schema}.inbox_parked p where p.place = any (places) and p.consumer = inbox_unpark_all.consumer;
end
$$;

-- Lets go of messages that were claimed and not tried: they stand as before, and the attempt does not count.
create function {schema}.inbox_unclaim(consumer text, places bigint[]) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_unclaim.consumer);
  update {schema}.inbox_parked p set claimed_until = null, attempts = greatest(p.attempts - 1, 0)
   where p.place = any (places) and p.consumer = inbox_unclaim.consumer;
end
$$;

-- As in 0003, each number at most count_max, from indexes of what is counted.
create or replace function {schema}.inbox_count(consumer text, count_max bigint)
  returns table (parked bigint, dead bigint, gaps bigint)
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
  set enable_bitmapscan = off as $$
begin
  perform {schema}.require_consumer(inbox_count.consumer);
  return query
    select (select count(*) from (select from {schema}.inbox_parked p
                                   where p.consumer = inbox_count.consumer and p.state <> 'SKIPPED' limit count_max) w),
           (select count(*) from (select from {schema}.inbox_parked p
                                   where p.consumer = inbox_count.consumer and p.state = 'DEAD' limit count_max) w),
           (select count(*) from (select from {schema}.inbox_parked p
                                   where p.consumer = inbox_count.consumer and p.state = 'GAP' limit count_max) w);
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Consumers that are paused by an operator, or hold by themselves: hold_code is circuit_open or parked_limit.
alter table {schema}.inbox_consumer
  add column paused_at    timestamptz,
  add column pause_reason text,
  add column pause_actor  text,
  add column held_at      timestamptz,
  add column hold_code    text,
  add column hold_message text;

-- What a member looks at about once a second: the first row tells about the consumer and in how many milliseconds the next
-- order key is due (null: none has a time); the others are order keys that are due.
create function {schema}.inbox_look(consumer text, by_version boolean, unit_max bigint)
  returns table (unit text, next_ms bigint, pause_reason text, hold_code text, hold_message text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_look.consumer);
  return query
    select null::text,
           case when d.at is not null
                then greatest(0, ceil(extract(epoch from d.at - clock_timestamp()) * 1000))::bigint end,
           case when c.paused_at is not null then coalesce(c.pause_reason, '') end, c.hold_code, c.hold_message
      from {schema}.inbox_consumer c
     cross join lateral (
           select case when inbox_look.by_version
                       then (select k.due_by_version_at from {schema}.inbox_order_key k
                              where k.consumer = inbox_look.consumer and k.due_by_version_at is not null
                              order by k.due_by_version_at limit 1)
                       else (select k.due_at from {schema}.inbox_order_key k
                              where k.consumer = inbox_look.consumer and k.due_at is not null
                              order by k.due_at limit 1) end as at) d
     where c.name = inbox_look.consumer;
  return query
    select d.unit, null::bigint, null::text, null::text, null::text
      from {schema}.inbox_due_units(inbox_look.consumer, inbox_look.by_version, inbox_look.unit_max) d;
end
$$;

-- FAILED events need not wait for their time; with the rights of its caller.
create function {schema}.make_failed_due(consumer text) returns void
  language sql set search_path = pg_catalog, pg_temp as $$
  update {schema}.inbox_parked p set next_attempt_at = clock_timestamp()
   where p.place = any (array(
           select f.place from {schema}.inbox_parked f
            where f.consumer = make_failed_due.consumer and f.state = 'FAILED'
              and f.next_attempt_at > clock_timestamp() and f.claimed_until is null
            order by f.next_attempt_at limit 10000 for update skip locked));
$$;

-- Says that members hold, and why; null: they go on. When that is new, which it tells, FAILED events are due at once.
create function {schema}.inbox_set_hold(consumer text, code text, message text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_set_hold.consumer);
  update {schema}.inbox_consumer c
     set hold_code = inbox_set_hold.code, hold_message = inbox_set_hold.message,
         held_at = case when inbox_set_hold.code is not null then clock_timestamp() end
   where c.name = inbox_set_hold.consumer and c.hold_code is distinct from inbox_set_hold.code;
  if not found then
    return false;
  end if;
  perform {schema}.make_failed_due(inbox_set_hold.consumer);
  return true;
end
$$;

-- True: it was not paused (or, to go on, was paused or held) before.
create function {schema}.operator_inbox_pause(consumer text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_consumer c
     set paused_at = clock_timestamp(), pause_reason = operator_inbox_pause.reason, pause_actor = operator_inbox_pause.actor
   where c.name = operator_inbox_pause.consumer and c.paused_at is null;
  if not found then
    return false;
  end if;
  perform {schema}.note_audit('inbox.pause', operator_inbox_pause.consumer, actor, reason);
  return true;
end
$$;

create function {schema}.operator_inbox_unpause(consumer text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_consumer c
     set paused_at = null, pause_reason = null, pause_actor = null, held_at = null, hold_code = null, hold_message = null
   where c.name = operator_inbox_unpause.consumer and (c.paused_at is not null or c.hold_code is not null);
  if not found then
    return false;
  end if;
  perform {schema}.make_failed_due(operator_inbox_unpause.consumer);
  perform {schema}.note_audit('inbox.unpause', operator_inbox_unpause.consumer, actor, reason);
  return true;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Applies an event although versions of its aggregate before it are missing: these count as seen from now on, so that they
-- are stale if they come later. With an event id, or the aggregate of the lowest version that is parked. entry: which
-- event; outcome: accepted, no_gap (nothing is missing before it, or it does not wait for that) or not_first (a lower
-- version of the aggregate, `event`, waits as well). No row: there is no such event.
create function {schema}.operator_inbox_accept_gap(
  consumer text, event_id uuid, tenant text, aggregate_type text, aggregate_id text, actor text, reason text)
  returns table (outcome text, event uuid, version bigint, seen bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  it    record;
  first record;
  last  bigint;
begin
  -- Which aggregate it is about does not change while the version is locked.
  select p.event_id, coalesce(p.tenant, '') as tenant, coalesce(p.aggregate_type, '') as type, p.aggregate_id as id,
         p.aggregate_version
    into it
    from {schema}.inbox_parked p
   where p.consumer = operator_inbox_accept_gap.consumer and p.state <> 'SKIPPED'
     and case when operator_inbox_accept_gap.event_id is not null
              then p.event_id = operator_inbox_accept_gap.event_id
              else coalesce(p.tenant, '') = operator_inbox_accept_gap.tenant
                   and coalesce(p.aggregate_type, '') = operator_inbox_accept_gap.aggregate_type
                   and p.aggregate_id = operator_inbox_accept_gap.aggregate_id and p.aggregate_version is not null end
   order by p.aggregate_version, p.place limit 1;
  if not found then
    return;
  end if;
  if it.aggregate_version is null or coalesce(it.id, '') = '' then
    return query select 'no_gap', it.event_id, it.aggregate_version, 0::bigint;
    return;
  end if;
  insert into {schema}.inbox_version (consumer, tenant, aggregate_type, aggregate_id, version)
    values (operator_inbox_accept_gap.consumer, it.tenant, it.type, it.id, 0) on conflict do nothing;
  select v.version into last from {schema}.inbox_version v
   where v.consumer = operator_inbox_accept_gap.consumer and v.tenant = it.tenant and v.aggregate_type = it.type
     and v.aggregate_id = it.id for update;
  select p.* into first
    from {schema}.inbox_parked p
   where p.consumer = operator_inbox_accept_gap.consumer and p.state <> 'SKIPPED' and coalesce(p.tenant, '') = it.tenant
     and coalesce(p.aggregate_type, '') = it.type and p.aggregate_id = it.id and p.aggregate_version > last
   order by p.aggregate_version, p.place limit 1 for update;
  if not found then
    return query select 'no_gap', it.event_id, it.aggregate_version, last;
    return;
  end if;
  if first.event_id <> it.event_id then
    return query select 'not_first', first.event_id, first.aggregate_version, last;
    return;
  end if;
  if first.aggregate_version = last + 1
     or not (first.state in ('GAP', 'RECEIVED') or coalesce(first.error_code = 'version_gap', false)) then
    return query select 'no_gap', it.event_id, it.aggregate_version, last;
    return;
  end if;
  update {schema}.inbox_version v set version = first.aggregate_version - 1
   where v.consumer = operator_inbox_accept_gap.consumer and v.tenant = it.tenant and v.aggregate_type = it.type
     and v.aggregate_id = it.id;
  update {schema}.inbox_parked p
     set attempts = 0, next_attempt_at = clock_timestamp(), gap_until = null, claimed_until = null,
         state = case p.state when 'RECEIVED' then 'RECEIVED' else 'FAILED' end
   where p.place = first.place;
  update {schema}.inbox r set state = 'FAILED', finished_at = null
   where r.consumer = first.consumer and r.event_id = first.event_id and r.filed_at = first.filed_at
     and r.payload_hash = first.payload_hash and r.state in ('GAP', 'DEAD');
  perform {schema}.note_audit('inbox.accept_gap',
            format('%s on %s: version %s after %s', first.event_id, first.consumer, first.aggregate_version, last),
            actor, reason);
  return query select 'accepted', first.event_id, first.aggregate_version, last;
end
$$;

-- As in 0010. With a filter, events that are due already are passed over, so that a caller can go on until none is left.
create or replace function {schema}.operator_inbox_retry(
  consumer text, event_id uuid, unit text, topic text, error_code text, state text, row_max bigint,
  may_apply_twice boolean, actor text, reason text)
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
       and (p.state in ('FAILED', 'DEAD', 'GAP')
            or (may_apply_twice and operator_inbox_retry.event_id is not null
                and p.state = 'SKIPPED' and p.error_code = 'too_old'))
       and (operator_inbox_retry.event_id is not null or p.state = 'DEAD' or p.attempts > 0
            or coalesce(p.next_attempt_at > clock_timestamp(), false))
     order by p.parked_at, p.place limit operator_inbox_retry.row_max for update
  ), changed as (
    update {schema}.inbox_parked p
       set attempts = 0, next_attempt_at = clock_timestamp(), claimed_until = null,
           state = case p.state when 'GAP' then 'GAP' else 'FAILED' end
      from chosen c where p.place = c.place
  ), receipts as (
    update {schema}.inbox r set state = 'FAILED', finished_at = null
      from chosen c
     where r.consumer = c.consumer and r.event_id = c.event_id and r.filed_at = c.filed_at
       and r.payload_hash = c.payload_hash and r.state in ('DEAD', 'SKIPPED')
  )
  select count({schema}.note_audit('inbox.retry', c.event_id::text || ' on ' || c.consumer,
                                   operator_inbox_retry.actor, operator_inbox_retry.reason))
    into changed_rows from chosen c;
  return changed_rows;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: to whom filing is granted, the functions for consumers are, too; to whom skipping is, those for operators.
do $$
declare
  name text;
  role text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and p.proname in ('inbox_head_due', 'refresh_order_keys', 'order_keys_changed', 'inbox_claim_all',
                                   'inbox_hold_all', 'inbox_unpark_all', 'inbox_unclaim', 'inbox_look', 'inbox_set_hold',
                                   'make_failed_due',
                                   'operator_inbox_pause', 'operator_inbox_unpause', 'operator_inbox_accept_gap') loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'inbox_file'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    execute format('grant execute on function {schema}.inbox_claim_all, {schema}.inbox_hold_all,'
                   '  {schema}.inbox_unpark_all, {schema}.inbox_unclaim, {schema}.inbox_look, {schema}.inbox_set_hold'
                   '  to %I', role);
  end loop;
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'operator_inbox_skip'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    execute format('grant execute on function {schema}.operator_inbox_pause, {schema}.operator_inbox_unpause,'
                   '  {schema}.operator_inbox_accept_gap to %I', role);
    execute format('grant select on {schema}.inbox_order_key to %I', role);
  end loop;
end
$$;
