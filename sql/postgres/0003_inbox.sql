-- The inbox: what consumers of events have seen, what they set aside, and where they stand. Placeholders as in 0001, and
-- {consumer}, the role for consumers. A database may hold an inbox without using its outbox, and the other way round.
--
-- Everything a consumer does goes through functions with the owner's rights: the role needs nothing on the tables.

insert into {schema}.setting values
  ('inbox_days_ahead', '7', 'How many days of partitions inbox_ensure_partitions() keeps ready');

-- forgotten_before: receipts of finished events filed earlier may be gone, so an event that old that has none may have
-- been seen.
create table {schema}.inbox_consumer (
  name             text        primary key collate "C" check (name <> ''),
  mode             text        not null check (mode in ('record', 'offsets')),
  forgotten_before timestamptz,
  created_at       timestamptz not null default clock_timestamp()
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Receipts: one row per consumer and event, only of consumers with mode `record`. Written as PROCESSED in the
-- transaction of the effect, so that the usual event costs one insert and nothing else; what became of the others is an
-- update of the same transaction. filed_at comes from the event itself, so that a redelivery meets the first receipt in
-- the same partition.
create table {schema}.inbox (
  filed_at          timestamptz not null,
  received_at       timestamptz not null default clock_timestamp(),
  finished_at       timestamptz,
  aggregate_version bigint,
  "offset"          bigint      not null,
  event_id          uuid        not null,
  partition         integer     not null,
  schema_version    integer,
  consumer          text        not null collate "C",
  state             text        not null,
  topic             text        not null,
  tenant            text,
  event_type        text,
  aggregate_type    text,
  aggregate_id      text,
  correlation_id    text,
  payload_hash      bytea       not null,
  code              text,
  message           text,
  primary key (consumer, event_id, filed_at)
) partition by range (filed_at);
-- These are never forgotten, so a day with one of them does not go as a whole. Costs the usual receipt nothing.
create index inbox_kept on {schema}.inbox (consumer, filed_at)
  where state in ('RECEIVED', 'GAP', 'FAILED', 'DEAD', 'SKIPPED');

-- For events whose ids have no time, which are filed in the year 9999. Nothing tells how old they are, so they are never
-- forgotten.
create table {schema}.inbox_ageless partition of {schema}.inbox
  for values from ('9999-01-01 00:00:00+00') to (maxvalue);

-- For events from a time that has no partition: old ones, and those of a wrong clock.
create table {schema}.inbox_default partition of {schema}.inbox default;

-- Makes the daily partitions from two days ago until some days ahead; returns how many it made. As ensure_partitions().
create function {schema}.inbox_ensure_partitions() returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s'
  set timezone = 'UTC' set datestyle = 'ISO' as $$
declare
  days_ahead integer := (select value::integer from {schema}.setting where name = 'inbox_days_ahead');
  today      date := (clock_timestamp() at time zone 'UTC')::date;
  day        date;
  part       text;
  made       integer := 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('sealane.inbox_partitions', '{schema}.inbox'::regclass::oid::bigint));
  for i in -2 .. days_ahead loop
    day := today + i;
    part := 'inbox_p' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('{schema}.%I', part)) is not null then
      continue;
    end if;
    if exists (select from {schema}.inbox_default
                where filed_at >= day::timestamp at time zone 'UTC'
                  and filed_at < (day + 1)::timestamp at time zone 'UTC') then
      continue;  -- that day stays in the default partition
    end if;
    execute format('create table {schema}.%I (like {schema}.inbox including defaults including constraints)', part);
    execute format('alter table {schema}.inbox attach partition {schema}.%I for values from (%L) to (%L)', part,
                   day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
    made := made + 1;
  end loop;
  return made;
end
$$;
select {schema}.inbox_ensure_partitions();

-- ---------------------------------------------------------------------------------------------------------------------
-- Messages that were set aside, exactly as they came. place is the order of arrival. unit is what waits together; bytes
-- that are no text appear in it as \x and hexadecimal digits. headers: name and value after each other, each with its
-- length in four bytes before it.
create table {schema}.inbox_parked (
  place             bigint      primary key generated always as identity,
  filed_at          timestamptz not null,
  published_at      timestamptz not null,
  parked_at         timestamptz not null default clock_timestamp(),
  next_attempt_at   timestamptz,  -- null: at once, when it is the first of its unit
  gap_until         timestamptz,  -- of a GAP: how long it waits for the earlier version
  claimed_until     timestamptz,  -- somebody tries it right now
  first_failed_at   timestamptz,
  last_failed_at    timestamptz,
  aggregate_version bigint,
  "offset"          bigint      not null,
  event_id          uuid        not null,
  partition         integer     not null,
  attempts          integer     not null,
  consumer          text        not null collate "C" references {schema}.inbox_consumer (name) on delete cascade,
  unit              text        not null collate "C",
  state             text        not null check (state in ('RECEIVED', 'GAP', 'FAILED', 'DEAD', 'SKIPPED')),
  topic             text        not null,
  tenant            text,
  event_type        text,
  aggregate_type    text,
  aggregate_id      text,
  error_code        text,
  error_message     text,
  payload_hash      bytea       not null,
  message_key       bytea       not null,
  message_headers   bytea       not null,
  message_value     bytea       not null
);
-- The order in which a unit is worked off, and the versions of each aggregate in it: see inbox_head(). What was skipped
-- holds nobody up.
create index inbox_parked_unit on {schema}.inbox_parked (consumer, unit, place) where state <> 'SKIPPED';
create index inbox_parked_version
  on {schema}.inbox_parked (consumer, unit, coalesce(tenant, ''), aggregate_type, aggregate_id, aggregate_version, place)
  where state <> 'SKIPPED' and aggregate_version is not null;
-- Units in which something waits for its time; what waits for a person alone is not looked at again and again.
create index inbox_parked_waiting on {schema}.inbox_parked (consumer, unit)
  where state in ('RECEIVED', 'GAP', 'FAILED');
create index inbox_parked_event on {schema}.inbox_parked (consumer, event_id);
create index inbox_parked_state on {schema}.inbox_parked (consumer, state);

-- The newest version of an aggregate that a consumer has applied.
create table {schema}.inbox_version (
  version        bigint not null,
  consumer       text   not null collate "C",
  tenant         text   not null collate "C",
  aggregate_type text   not null collate "C",
  aggregate_id   text   not null collate "C",
  primary key (consumer, tenant, aggregate_type, aggregate_id)
) with (fillfactor = 80);

-- Who has a partition (epoch) and, with mode `offsets`, where it stands. clean: its owner ended well.
-- suspect_*: the event at which owners died, and the epoch that said so.
create table {schema}.inbox_progress (
  consumer       text    not null collate "C" references {schema}.inbox_consumer (name) on delete cascade,
  topic          text    not null,
  partition      integer not null,
  clean          boolean not null default false,
  epoch          bigint  not null default 1,
  next_offset    bigint,
  deaths         integer not null default 0,
  suspect_deaths integer not null default 0,
  suspect_offset bigint,
  suspect_epoch  bigint,
  primary key (consumer, topic, partition)
) with (fillfactor = 50);
create index inbox_progress_suspect on {schema}.inbox_progress (consumer) where suspect_offset is not null;

-- With mode `offsets`: the ids of the newest events, 16 bytes each, one row per batch.
create table {schema}.inbox_recent (
  place          bigint  primary key generated always as identity,
  through_offset bigint  not null,
  partition      integer not null,
  consumer       text    not null collate "C" references {schema}.inbox_consumer (name) on delete cascade,
  topic          text    not null,
  ids            bytea   not null
);
create index inbox_recent_partition on {schema}.inbox_recent (consumer, topic, partition, through_offset);

-- What time it is, and when the consumer was added, in microseconds since 1970.
create function {schema}.inbox_times(consumer text) returns table (now_at bigint, added_at bigint)
  language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint, (extract(epoch from c.created_at) * 1000000)::bigint
    from {schema}.inbox_consumer c where c.name = consumer;
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Opening a batch. These run one after the other in the batch's transaction, which is READ COMMITTED: every statement
-- sees what a transaction it waited for has committed. Facts are told only where they differ from the usual.

-- Adds the consumer, or says in which mode it was added.
create function {schema}.inbox_add_consumer(consumer text, mode text) returns text
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into {schema}.inbox_consumer (name, mode) values (consumer, mode) on conflict do nothing;
  return (select c.mode from {schema}.inbox_consumer c where c.name = consumer);
end
$$;

-- Locks a partition's position to the end of the transaction.
create function {schema}.inbox_lock_progress(consumer text, topic text, partition integer, epoch bigint, next_offset bigint)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from {schema}.inbox_progress p
    where p.consumer = inbox_lock_progress.consumer and p.topic = inbox_lock_progress.topic
      and p.partition = inbox_lock_progress.partition and p.epoch = inbox_lock_progress.epoch
      and (p.next_offset is null or p.next_offset = inbox_lock_progress.next_offset)
    for update;
  if not found then
    raise exception 'partition % of % does not stand at % in epoch % of consumer "%"', partition, topic, next_offset, epoch,
        consumer
      using errcode = 'check_violation', constraint = 'sealane_partition_fenced', column = 'progress',
            hint = 'somebody else has the partition: drop the batch, and attach again when the broker gives it back';
  end if;
end
$$;

-- Files arrivals and tells which were there: done, parked, other (bytes, unless those are set aside too) or old.
create function {schema}.inbox_file(
  consumer text, ids uuid[], filed_ats timestamptz[], hashes bytea[], topics text[], partitions integer[],
  offsets bigint[], event_types text[], schema_versions integer[], tenants text[], aggregate_types text[],
  aggregate_ids text[], aggregate_versions bigint[], correlation_ids text[])
  returns table (entry integer, fact text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  fresh     uuid[];
  forgotten timestamptz;
begin
  -- Sorted, so that two batches with the same events wait for each other instead of deadlocking.
  with filed as (
    insert into {schema}.inbox as r
      (consumer, event_id, filed_at, finished_at, state, payload_hash, topic, partition, "offset", event_type,
       schema_version, tenant, aggregate_type, aggregate_id, aggregate_version, correlation_id)
    select inbox_file.consumer, u.id, u.filed_at, clock_timestamp(), 'PROCESSED', u.hash, u.topic, u.partition, u.place,
           u.event_type, u.schema_version, u.tenant, u.aggregate_type, u.aggregate_id, u.aggregate_version,
           u.correlation_id
      from unnest(ids, filed_ats, hashes, topics, partitions, offsets, event_types, schema_versions, tenants,
                  aggregate_types, aggregate_ids, aggregate_versions, correlation_ids)
           as u(id, filed_at, hash, topic, partition, place, event_type, schema_version, tenant, aggregate_type,
                aggregate_id, aggregate_version, correlation_id)
     order by u.id
    on conflict do nothing returning r.event_id
  )
  select coalesce(array_agg(filed.event_id), '{}') into fresh from filed;

  if cardinality(fresh) < cardinality(ids) then
    -- One descent per event, into the one partition that can have it: the subquery cannot be merged into a larger join.
    return query
      select u.entry::integer,
             case when r.state is null then 'vanished'
                  when r.payload_hash <> u.hash
                    then coalesce((select case when p.state = 'SKIPPED' then 'done' else 'parked' end
                                     from {schema}.inbox_parked p
                                    where p.consumer = inbox_file.consumer and p.event_id = u.id
                                      and p.payload_hash = u.hash limit 1), 'other')
                  when r.state in ('PROCESSED', 'IGNORED', 'SKIPPED')
                       or exists (select from {schema}.inbox_parked p
                                   where p.consumer = inbox_file.consumer and p.event_id = u.id and p.state = 'SKIPPED')
                    then 'done'
                  else 'parked' end
        from unnest(ids, filed_ats, hashes) with ordinality as u(id, filed_at, hash, entry)
        left join lateral (
             select r.state, r.payload_hash from {schema}.inbox r
              where r.consumer = inbox_file.consumer and r.event_id = u.id and r.filed_at = u.filed_at offset 0) r on true
       where u.id <> all (fresh);
  end if;

  -- Read after the receipts were written: what was forgotten before that is known as forgotten here.
  select c.forgotten_before into forgotten from {schema}.inbox_consumer c where c.name = consumer;
  if forgotten > any (filed_ats) then
    return query
      select u.entry::integer, 'old' from unnest(ids, filed_ats) with ordinality as u(id, filed_at, entry)
       where u.filed_at < forgotten and u.id = any (fresh);
  end if;
end
$$;

-- The first message of a unit: the one that came first. By version, the lowest version of the aggregate that that one is
-- about, because it waits for it; other aggregates of the unit wait for both. Small enough to become part of the queries
-- that use it.
create function {schema}.inbox_head(consumer text, unit text, by_version boolean)
  returns table (place bigint, state text, next_attempt_at timestamptz, parked_at timestamptz, claimed_until timestamptz,
                 tenant text, aggregate_type text, aggregate_id text)
  language sql stable as $$
  select h.place, h.state, h.next_attempt_at, h.parked_at, h.claimed_until, h.tenant, h.aggregate_type, h.aggregate_id
    from (select p.place, p.tenant, p.aggregate_type, p.aggregate_id, p.aggregate_version
            from {schema}.inbox_parked p
           where p.consumer = inbox_head.consumer and p.unit = inbox_head.unit and p.state <> 'SKIPPED'
           order by p.place limit 1) f
    join {schema}.inbox_parked h
      on h.place = coalesce((
           select v.place from {schema}.inbox_parked v
            where inbox_head.by_version and f.aggregate_version is not null
              and v.consumer = inbox_head.consumer and v.unit = inbox_head.unit and v.state <> 'SKIPPED'
              and coalesce(v.tenant, '') = coalesce(f.tenant, '') and v.aggregate_type = f.aggregate_type
              and v.aggregate_id = f.aggregate_id and v.aggregate_version is not null
            order by v.aggregate_version, v.place limit 1), f.place)
$$;

-- Tells which arrivals have something of their unit set aside (waits; gap: the first of that waits for a version of the
-- arrival's aggregate, which is given for those that have a version), with ids also which of them are (parked, done,
-- other bytes), and at which events owners died (suspect).
create function {schema}.inbox_waits(consumer text, units text[], by_version boolean, tenants text[],
                                     aggregate_types text[], aggregate_ids text[], ids uuid[], hashes bytea[])
  returns table (entry integer, fact text, topic text, partition integer, place bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from {schema}.inbox_parked p where p.consumer = inbox_waits.consumer) then
    return query
      select u.entry::integer,
             case when h.state = 'GAP' and coalesce(h.tenant, '') = u.tenant and h.aggregate_type = u.type
                       and h.aggregate_id = u.id then 'gap' else 'waits' end,
             null::text, null::integer, null::bigint
        from unnest(units, tenants, aggregate_types, aggregate_ids) with ordinality as u(unit, tenant, type, id, entry)
       cross join lateral {schema}.inbox_head(inbox_waits.consumer, u.unit, inbox_waits.by_version) h;
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
  end if;
  return query
    select null::integer, 'suspect', p.topic, p.partition, p.suspect_offset from {schema}.inbox_progress p
     where p.consumer = inbox_waits.consumer and p.suspect_offset is not null;
end
$$;

-- Locks the versions of aggregates to the end of the transaction and tells those that are not 0. Rows that are missing
-- are added first and all are locked afterwards, each in the same order everywhere: nobody who locks waits for somebody
-- who still adds.
create function {schema}.inbox_lock_versions(consumer text, tenants text[], aggregate_types text[], aggregate_ids text[])
  returns table (entry integer, version bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into {schema}.inbox_version (consumer, tenant, aggregate_type, aggregate_id, version)
    select distinct inbox_lock_versions.consumer, u.tenant, u.type, u.id, 0
      from unnest(tenants, aggregate_types, aggregate_ids) as u(tenant, type, id)
     where u.type is not null and u.id is not null order by 2, 3, 4
    on conflict do nothing;
  return query
    with locked as materialized (
      select n.tenant, n.type, n.id, v.version
        from (select distinct u.tenant collate "C" as tenant, u.type collate "C" as type, u.id collate "C" as id
                from unnest(tenants, aggregate_types, aggregate_ids) as u(tenant, type, id)
               where u.type is not null and u.id is not null order by 1, 2, 3) n
       cross join lateral (
             select v.version from {schema}.inbox_version v
              where v.consumer = inbox_lock_versions.consumer and v.tenant = n.tenant and v.aggregate_type = n.type
                and v.aggregate_id = n.id for update) v
    )
    select u.entry::integer, l.version
      from unnest(tenants, aggregate_types, aggregate_ids) with ordinality as u(tenant, type, id, entry)
      join locked l on l.tenant = u.tenant and l.type = u.type and l.id = u.id
     where l.version > 0;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Finishing a batch: only what differs from "processed" is written.

-- Gives receipts another state; without one the receipt is taken back. The hash tells it from the receipt of other bytes
-- under the same id.
create function {schema}.inbox_mark(consumer text, ids uuid[], filed_ats timestamptz[], hashes bytea[], states text[],
                                    codes text[], messages text[])
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  change record;
begin
  for change in select u.* from unnest(ids, filed_ats, hashes, states, codes, messages)
                      as u(id, filed_at, hash, state, code, message) order by u.id loop
    if change.state is null then
      delete from {schema}.inbox r
       where r.consumer = inbox_mark.consumer and r.event_id = change.id and r.filed_at = change.filed_at
         and r.payload_hash = change.hash;
    else
      update {schema}.inbox r
         set state = change.state, code = change.code, message = change.message,
             finished_at = case when change.state in ('PROCESSED', 'IGNORED') then clock_timestamp() end
       where r.consumer = inbox_mark.consumer and r.event_id = change.id and r.filed_at = change.filed_at
         and r.payload_hash = change.hash;
    end if;
  end loop;
end
$$;

-- When a message that is set aside may be tried: a gap without a time waits until its unit is woken.
create function {schema}.inbox_due(state text, retry_ms bigint) returns timestamptz
  language sql volatile parallel safe as $$
  select case when retry_ms is not null then clock_timestamp() + retry_ms * interval '1 millisecond'
              when state = 'GAP' then 'infinity'::timestamptz end
$$;

-- Sets messages aside, in the order given. One that is there already (the same event from the same place of the broker)
-- is left as it is.
create function {schema}.inbox_park(
  consumer text, ids uuid[], filed_ats timestamptz[], hashes bytea[], units text[], topics text[], partitions integer[],
  offsets bigint[], published_ats timestamptz[], keys bytea[], bodies bytea[], headers bytea[], event_types text[],
  tenants text[], aggregate_types text[], aggregate_ids text[], aggregate_versions bigint[], states text[],
  attempts integer[], retries_ms bigint[], codes text[], messages text[])
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into {schema}.inbox_parked
    (consumer, event_id, filed_at, payload_hash, unit, topic, partition, "offset", published_at, message_key,
     message_value, message_headers, event_type, tenant, aggregate_type, aggregate_id, aggregate_version, state, attempts,
     next_attempt_at, gap_until, first_failed_at, last_failed_at, error_code, error_message)
  select inbox_park.consumer, u.id, u.filed_at, u.hash, u.unit, u.topic, u.partition, u.place, u.published_at, u.key,
         u.body, u.header, u.event_type, u.tenant, u.aggregate_type, u.aggregate_id, u.aggregate_version, u.state,
         u.attempt, {schema}.inbox_due(u.state, u.retry_ms),
         case when u.state = 'GAP' and u.retry_ms is not null then {schema}.inbox_due(u.state, u.retry_ms) end,
         case when u.code is not null then statement_timestamp() end,
         case when u.code is not null then statement_timestamp() end, u.code, u.message
    from unnest(ids, filed_ats, hashes, units, topics, partitions, offsets, published_ats, keys, bodies, headers,
                event_types, tenants, aggregate_types, aggregate_ids, aggregate_versions, states, attempts, retries_ms,
                codes, messages) with ordinality
         as u(id, filed_at, hash, unit, topic, partition, place, published_at, key, body, header, event_type, tenant,
              aggregate_type, aggregate_id, aggregate_version, state, attempt, retry_ms, code, message, entry)
   where not exists (select from {schema}.inbox_parked p
                      where p.consumer = inbox_park.consumer and p.event_id = u.id and p.topic = u.topic
                        and p.partition = u.partition and p."offset" = u.place)
   order by u.entry;
end
$$;

create function {schema}.inbox_set_versions(consumer text, tenants text[], aggregate_types text[], aggregate_ids text[],
                                            versions bigint[])
  returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into {schema}.inbox_version (consumer, tenant, aggregate_type, aggregate_id, version)
    select inbox_set_versions.consumer, u.* from unnest(tenants, aggregate_types, aggregate_ids, versions) as u
     order by 2, 3, 4
    on conflict (consumer, tenant, aggregate_type, aggregate_id) do update set version = excluded.version;
$$;

-- What these units wait for may have come: the first of each, if it is a gap, is due.
create function {schema}.inbox_wake(consumer text, units text[]) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_parked g set next_attempt_at = clock_timestamp()
    from (select h.place
            from unnest(units) as u(unit)
           cross join lateral (
                 select n.place from {schema}.inbox_head(inbox_wake.consumer, u.unit, false) n
                 union
                 select n.place from {schema}.inbox_head(inbox_wake.consumer, u.unit, true) n) h
           order by h.place) head
   where g.place = head.place and g.state = 'GAP';
end
$$;

-- Moves a position that inbox_lock_progress() has locked.
create function {schema}.inbox_move(consumer text, topic text, partition integer, next_offset bigint, recent bytea,
                                    forget_through bigint)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_progress p set next_offset = inbox_move.next_offset
   where p.consumer = inbox_move.consumer and p.topic = inbox_move.topic and p.partition = inbox_move.partition;
  if recent is not null then
    insert into {schema}.inbox_recent (consumer, topic, partition, through_offset, ids)
      values (inbox_move.consumer, inbox_move.topic, inbox_move.partition, inbox_move.next_offset, recent);
  end if;
  if forget_through is not null then
    delete from {schema}.inbox_recent r
     where r.consumer = inbox_move.consumer and r.topic = inbox_move.topic and r.partition = inbox_move.partition
       and r.through_offset <= forget_through;
  end if;
end
$$;

-- The event that owners died at went through.
create function {schema}.inbox_clear_suspect(consumer text, topic text, partition integer, place bigint) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  update {schema}.inbox_progress p set suspect_offset = null, suspect_epoch = null, suspect_deaths = 0
   where p.consumer = inbox_clear_suspect.consumer and p.topic = inbox_clear_suspect.topic
     and p.partition = inbox_clear_suspect.partition and p.suspect_offset = inbox_clear_suspect.place;
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- What was set aside.

-- Units whose first message may be tried now, longest waiting first. Goes from one unit to the next, because a unit can
-- have very many messages, and past those in which everything is dead.
create function {schema}.inbox_due_units(consumer text, by_version boolean, unit_max bigint) returns table (unit text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  now timestamptz := clock_timestamp();
begin
  return query
    with recursive waiting as (
      (select p.unit from {schema}.inbox_parked p
        where p.consumer = inbox_due_units.consumer and p.state in ('RECEIVED', 'GAP', 'FAILED') order by p.unit limit 1)
      union all
      select n.unit from waiting w
       cross join lateral (
             select p.unit from {schema}.inbox_parked p
              where p.consumer = inbox_due_units.consumer and p.unit > w.unit
                and p.state in ('RECEIVED', 'GAP', 'FAILED')
              order by p.unit limit 1) n
    )
    select w.unit from waiting w
     cross join lateral {schema}.inbox_head(inbox_due_units.consumer, w.unit, inbox_due_units.by_version) h
     where h.state <> 'DEAD' and coalesce(h.next_attempt_at <= now, true) and coalesce(h.claimed_until <= now, true)
     order by coalesce(h.next_attempt_at, h.parked_at), h.place limit unit_max;
end
$$;

-- Counts an attempt at the first message of a unit, if it is due and nobody is at it.
create function {schema}.inbox_claim(consumer text, unit text, by_version boolean, patience_ms bigint)
  returns table (place bigint, attempts integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  head bigint;
begin
  select h.place into head from {schema}.inbox_head(inbox_claim.consumer, inbox_claim.unit, inbox_claim.by_version) h;
  -- Whoever is at it holds the row, also when his time is over.
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
  end if;
end
$$;

-- Locks a claimed message to the end of the transaction and, by version, the version of its aggregate: that first, as a
-- batch does that has the version and then wakes the message.
create function {schema}.inbox_hold(consumer text, place bigint, attempts integer, by_version boolean)
  returns table (topic text, partition integer, "offset" bigint, published_at bigint, message_key bytea,
                 message_value bytea, message_headers bytea, event_id uuid, filed_at bigint, payload_hash bytea, state text,
                 parked_at bigint, first_failed_at bigint, gap_overdue boolean, tenant text, aggregate_type text,
                 aggregate_id text, version_seen bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  held {schema}.inbox_parked;
  seen bigint := 0;
begin
  select p.* into held from {schema}.inbox_parked p
   where p.place = inbox_hold.place and p.consumer = inbox_hold.consumer;
  if by_version and held.aggregate_type is not null and held.aggregate_id is not null
     and held.aggregate_version is not null then
    select coalesce(max(v.version), 0) into seen
      from {schema}.inbox_lock_versions(inbox_hold.consumer, array[coalesce(held.tenant, '')],
                                        array[held.aggregate_type], array[held.aggregate_id]) v;
  end if;
  select p.* into held from {schema}.inbox_parked p
   where p.place = inbox_hold.place and p.consumer = inbox_hold.consumer and p.attempts = inbox_hold.attempts
     and p.state in ('RECEIVED', 'GAP', 'FAILED')
     for update;
  if not found then
    return;
  end if;
  return query
    select held.topic, held.partition, held."offset", (extract(epoch from held.published_at) * 1000000)::bigint,
           held.message_key, held.message_value, held.message_headers, held.event_id,
           (extract(epoch from held.filed_at) * 1000000)::bigint, held.payload_hash, held.state,
           (extract(epoch from held.parked_at) * 1000000)::bigint,
           (extract(epoch from held.first_failed_at) * 1000000)::bigint,
           coalesce(held.state = 'GAP' and held.gap_until <= clock_timestamp(), false), held.tenant,
           held.aggregate_type, held.aggregate_id, seen;
end
$$;

create function {schema}.inbox_unpark(consumer text, place bigint) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  delete from {schema}.inbox_parked p where p.place = inbox_unpark.place and p.consumer = inbox_unpark.consumer;
$$;

-- Keeps a message aside and lets go of it; without a state it stays as it was. A gap that is still one keeps its time,
-- however often it was woken.
create function {schema}.inbox_repark(consumer text, place bigint, state text, attempts integer, retry_ms bigint,
                                      code text, message text) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  update {schema}.inbox_parked p
     set claimed_until = null,
         state = coalesce(inbox_repark.state, p.state),
         attempts = coalesce(inbox_repark.attempts, p.attempts),
         next_attempt_at = case when inbox_repark.state is null then p.next_attempt_at
                                when inbox_repark.state = 'GAP'
                                  then least(p.gap_until, {schema}.inbox_due(inbox_repark.state, retry_ms))
                                else {schema}.inbox_due(inbox_repark.state, retry_ms) end,
         gap_until = case when inbox_repark.state is null then p.gap_until
                          when inbox_repark.state = 'GAP'
                            then least(p.gap_until, case when retry_ms is not null
                                                         then {schema}.inbox_due(inbox_repark.state, retry_ms) end) end,
         first_failed_at = coalesce(p.first_failed_at, case when code is not null then statement_timestamp() end),
         last_failed_at = case when code is not null then statement_timestamp() else p.last_failed_at end,
         error_code = coalesce(code, p.error_code),
         error_message = case when code is not null then message else p.error_message end
   where p.place = inbox_repark.place and p.consumer = inbox_repark.consumer;
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Partitions of the broker.

-- Takes partitions over. An owner that did not end well counts as dead, and as dead at the event it was at.
create function {schema}.inbox_attach(consumer text, topics text[], partitions integer[])
  returns table (topic text, partition integer, epoch bigint, next_offset bigint, deaths integer, suspect_offset bigint,
                 suspect_deaths integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
  return query
    insert into {schema}.inbox_progress as p (consumer, topic, partition)
      select inbox_attach.consumer, u.topic, u.partition from unnest(topics, partitions) as u(topic, partition)
       order by 2, 3
      on conflict on constraint inbox_progress_pkey do update
        set epoch = p.epoch + 1, clean = false,
            deaths = case when p.clean then 0 else p.deaths + 1 end,
            suspect_offset = case when not p.clean and p.suspect_epoch = p.epoch then p.suspect_offset end,
            suspect_deaths = case when not p.clean and p.suspect_epoch = p.epoch then p.suspect_deaths + 1 else 0 end
      returning p.topic, p.partition, p.epoch, p.next_offset, p.deaths, p.suspect_offset, p.suspect_deaths;
end
$$;

-- The newest batches of ids of a partition, oldest first, that hold at least id_max ids together if there are as many.
create function {schema}.inbox_recent_ids(consumer text, topic text, partition integer, id_max bigint)
  returns table (through_offset bigint, ids bytea)
  language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select n.through_offset, n.ids from (
    select r.through_offset, r.ids,
           sum(octet_length(r.ids) / 16) over (order by r.place desc) - octet_length(r.ids) / 16 as newer, r.place
      from {schema}.inbox_recent r
     where r.consumer = inbox_recent_ids.consumer and r.topic = inbox_recent_ids.topic
       and r.partition = inbox_recent_ids.partition) n
   where n.newer < id_max order by n.place;
$$;

create function {schema}.inbox_detach(consumer text, topics text[], partitions integer[], epochs bigint[]) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  update {schema}.inbox_progress p
     set clean = true, deaths = 0, suspect_offset = null, suspect_epoch = null, suspect_deaths = 0
    from unnest(topics, partitions, epochs) as u(topic, partition, epoch)
   where p.consumer = inbox_detach.consumer and p.topic = u.topic and p.partition = u.partition and p.epoch = u.epoch;
$$;

-- Tells whether the partition is still in that epoch. Deaths at another event are another matter.
create function {schema}.inbox_suspect(consumer text, topic text, partition integer, epoch bigint, place bigint)
  returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_progress p
     set suspect_deaths = case when p.suspect_offset = inbox_suspect.place then p.suspect_deaths else 0 end,
         suspect_offset = inbox_suspect.place, suspect_epoch = p.epoch
   where p.consumer = inbox_suspect.consumer and p.topic = inbox_suspect.topic
     and p.partition = inbox_suspect.partition and p.epoch = inbox_suspect.epoch;
  return found;
end
$$;

create function {schema}.inbox_calm(consumer text, topic text, partition integer, epoch bigint) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.inbox_progress p
     set deaths = 0, suspect_offset = null, suspect_epoch = null, suspect_deaths = 0
   where p.consumer = inbox_calm.consumer and p.topic = inbox_calm.topic and p.partition = inbox_calm.partition
     and p.epoch = inbox_calm.epoch;
  return found;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Keeping.

create function {schema}.inbox_count(consumer text, count_max bigint)
  returns table (parked bigint, dead bigint, gaps bigint)
  language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select (select count(*) from (select from {schema}.inbox_parked p
                                 where p.consumer = inbox_count.consumer and p.state <> 'SKIPPED' limit count_max) w),
         (select count(*) from (select from {schema}.inbox_parked p
                                 where p.consumer = inbox_count.consumer and p.state = 'DEAD' limit count_max) w),
         (select count(*) from (select from {schema}.inbox_parked p
                                 where p.consumer = inbox_count.consumer and p.state = 'GAP' limit count_max) w);
$$;

-- Clears away messages that a person gave up, when they were set aside before the horizon. Their receipts stay. With
-- the rights of its caller.
create function {schema}.inbox_clear_skipped(consumer text, horizon timestamptz, row_max bigint) returns void
  language sql as $$
  delete from {schema}.inbox_parked p
   where p.place = any (array(
           select s.place from {schema}.inbox_parked s
            where s.consumer = inbox_clear_skipped.consumer and s.state = 'SKIPPED'
              and s.parked_at < inbox_clear_skipped.horizon
            limit inbox_clear_skipped.row_max));
$$;

-- Deletes receipts of one partition, at most row_max; tells whether there are more. With the rights of its caller.
create function {schema}.inbox_forget_rows(part regclass, consumer text, horizon timestamptz, row_max bigint)
  returns table (rows_gone bigint, more boolean) language plpgsql as $$
begin
  execute format('with old as (select r.ctid from only %1$s r where r.consumer = $1 and r.filed_at < $2'
                 '  and r.state in (''PROCESSED'', ''IGNORED'') limit $3),'
                 ' gone as (delete from only %1$s r where r.ctid = any (array(select old.ctid from old)) returning 1)'
                 ' select count(*) from gone', part)
    into rows_gone using consumer, horizon, row_max;
  more := false;
  if rows_gone >= row_max then
    execute format('select exists (select from only %s r where r.consumer = $1 and r.filed_at < $2'
                   '  and r.state in (''PROCESSED'', ''IGNORED''))', part)
      into more using consumer, horizon;
  end if;
  return next;
end
$$;

-- Forgets receipts of processed and ignored events filed before the horizon, at most row_max of them one by one. A day
-- that is large goes as a whole instead, when no consumer needs it any more, and its number is an estimate. For that the
-- table is locked for a moment; where others are in the way for longer than half a second, rows of the day go one by one.
-- Runs in READ COMMITTED, because it looks again at what was written while it waited.
create function {schema}.inbox_prune(consumer text, horizon timestamptz, row_max bigint)
  returns table (receipts bigint, more boolean)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO' as $$
declare
  large       constant bigint := 8 * 1024 * 1024;
  today       constant date := (clock_timestamp() at time zone 'UTC')::date;
  patience    constant text := current_setting('lock_timeout');
  all_forgot  timestamptz;
  part        record;
  busy        boolean;
  one_gone    bigint;
  rows_gone   bigint := 0;
  days_gone   bigint := 0;
  days        text[] := '{}';  -- that may go as a whole
  ends        timestamptz[] := '{}';
  sizes       bigint[] := '{}';  -- null: it was empty
  is_more     boolean := false;
begin
  if exists (select from {schema}.inbox_consumer c where c.name = inbox_prune.consumer and c.mode <> 'record') then
    perform {schema}.inbox_clear_skipped(consumer, horizon, row_max);
    return query select 0::bigint, false;  -- it has no receipts
    return;
  end if;
  update {schema}.inbox_consumer c set forgotten_before = horizon
   where c.name = inbox_prune.consumer and coalesce(c.forgotten_before < horizon, true);
  select min(coalesce(c.forgotten_before, '-infinity')) into all_forgot
    from {schema}.inbox_consumer c where c.mode = 'record';

  for part in
    select c.oid::regclass::text as name, c.reltuples, pg_relation_size(c.oid) > large as is_large,
           d.day::timestamp at time zone 'UTC' as first, (d.day + 1)::timestamp at time zone 'UTC' as after,
           d.day < today - 2 as is_past
      from pg_inherits i
      join pg_class c on c.oid = i.inhrelid
     cross join lateral (select case when c.relname ~ '^inbox_p[0-9]{8}$'
                                     then to_date(right(c.relname, 8), 'YYYYMMDD') end as day) d
     where i.inhparent = '{schema}.inbox'::regclass and c.relname <> 'inbox_ageless'
     order by c.relname
  loop
    if part.first >= horizon then
      continue;
    end if;
    execute format('select exists (select from %s where filed_at < $1'
                   '  and state in (''RECEIVED'', ''GAP'', ''FAILED'', ''DEAD'', ''SKIPPED''))', part.name)
      into busy using part.after;
    if part.is_past and part.is_large and not busy and part.after <= all_forgot then
      days := days || part.name;
      ends := ends || part.after;
      sizes := sizes || greatest(part.reltuples, 0)::bigint;
      continue;
    end if;
    if part.is_large and part.after > horizon then
      continue;  -- it will go as a whole
    end if;
    select f.rows_gone, is_more or f.more into one_gone, is_more
      from {schema}.inbox_forget_rows(part.name::regclass, inbox_prune.consumer, horizon, row_max - rows_gone) f;
    rows_gone := rows_gone + one_gone;
    if part.is_past and part.after <= all_forgot then
      execute format('select exists (select from only %s)', part.name) into busy;
      if not busy then
        days := days || part.name;
        ends := ends || part.after;
        sizes := sizes || null::bigint;
      end if;
    end if;
  end loop;

  perform {schema}.inbox_clear_skipped(consumer, horizon, row_max - rows_gone);

  -- Last, because the table stays locked from here to the end of the transaction, which is the end of this call. A batch
  -- that was under way may have filed something in the day, so it is looked at again when nobody can any more. The whole
  -- table is locked first, as everybody does who files.
  perform set_config('lock_timeout', '500ms', true);
  for i in 1 .. cardinality(days) loop
    begin
      execute format('lock table only {schema}.inbox, only %s in access exclusive mode', days[i]);
      execute format('select exists (select from only %s r'
                     '  where $1 or r.state in (''RECEIVED'', ''GAP'', ''FAILED'', ''DEAD'', ''SKIPPED''))', days[i])
        into busy using sizes[i] is null;
      select busy or coalesce(min(coalesce(c.forgotten_before, '-infinity')) < ends[i], false) into busy
        from {schema}.inbox_consumer c where c.mode = 'record';
      if not busy then
        execute format('drop table %s', days[i]);
        days_gone := days_gone + coalesce(sizes[i], 0);
      end if;
    exception when lock_not_available or deadlock_detected then
      -- Nobody is kept waiting for that when a day has gone already, nor called again at once: each time everybody else
      -- waited behind us.
      if days_gone = 0 and sizes[i] is not null then
        perform set_config('lock_timeout', patience, true);
        select f.rows_gone into one_gone
          from {schema}.inbox_forget_rows(days[i]::regclass, inbox_prune.consumer, horizon, row_max - rows_gone) f;
        rows_gone := rows_gone + one_gone;
      end if;
      exit;
    end;
  end loop;
  return query select rows_gone + days_gone, is_more;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: a consumer works through functions only; an operator sees everything but messages, and decides about what was
-- set aside.
do $$
declare
  name text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname like 'inbox\_%' loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  if not {create_roles} then
    return;
  end if;
  if not exists (select from pg_roles where rolname = trim(both '"' from '{consumer}')) then
    begin
      execute 'create role ' || '{consumer}' || ' nologin';
    exception
      when duplicate_object or unique_violation then null;  -- another database's migration was faster
      when insufficient_privilege then
        raise exception 'user % may not create role %', current_user, '{consumer}'
          using errcode = 'insufficient_privilege',
                hint = 'migrate as a user with CREATEROLE, or without roles (store.create_roles = false)';
    end;
  end if;
  grant usage on schema {schema} to {consumer};
  grant select on {schema}.migration to {consumer};
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname like 'inbox\_%' loop
    execute format('grant execute on function %s to {consumer}', name);
  end loop;

  grant select on {schema}.inbox, {schema}.inbox_consumer, {schema}.inbox_version, {schema}.inbox_progress to {operator};
  grant update (state, finished_at, code, message) on {schema}.inbox to {operator};
  grant select (place, filed_at, published_at, parked_at, next_attempt_at, gap_until, claimed_until, first_failed_at,
    last_failed_at, aggregate_version, "offset", event_id, partition, attempts, consumer, unit, state, topic, tenant,
    event_type, aggregate_type, aggregate_id, error_code, error_message, payload_hash)
    on {schema}.inbox_parked to {operator};
  grant update (state, attempts, next_attempt_at, gap_until, claimed_until) on {schema}.inbox_parked to {operator};
  -- The version of an event that is given up counts as seen, and what waited for it is woken.
  grant insert (consumer, tenant, aggregate_type, aggregate_id, version), update (version)
    on {schema}.inbox_version to {operator};
  grant execute on function {schema}.inbox_ensure_partitions, {schema}.inbox_wake to {operator};
end
$$;
