-- The outbox of one PostgreSQL database. Placeholders filled in by the migrator: {schema} (quoted), {lanes},
-- {writer} {relay} {operator} (quoted role names), {create_roles} (true or false).
--
-- Needs PostgreSQL 13 or newer (xid8, pg_snapshot, gen_random_uuid) and a UTF8 database: keys are hashed as UTF-8.

do $$
begin
  if current_setting('server_version_num')::int < 130000 then
    raise exception 'Sealane needs PostgreSQL 13 or newer, this is %', current_setting('server_version')
      using errcode = 'feature_not_supported';
  end if;
  if current_setting('server_encoding') <> 'UTF8' then
    raise exception 'Sealane needs a database with encoding UTF8, this one has %', current_setting('server_encoding')
      using errcode = 'feature_not_supported', hint = 'create the database with: encoding ''UTF8'' template template0';
  end if;
end
$$;

-- What an operator may tune without a new program. Functions read it; values are text.
create table {schema}.setting (
  name  text primary key,
  value text not null,
  doc   text not null
);
insert into {schema}.setting values
  ('lanes', '{lanes}', 'Number of lanes, fixed when the outbox was installed; changing this row changes nothing'),
  ('payload_max_bytes', '921600', 'Largest payload that emit() takes'),
  ('partition_days_ahead', '14', 'How many days of partitions ensure_partitions() keeps ready'),
  ('unique_memory_days', '30', 'How long own event ids, aggregate versions and dedup keys are remembered');

-- ---------------------------------------------------------------------------------------------------------------------
-- The log. Append-only: no row is ever updated, so there is nothing to vacuum, and whether a row is published is told
-- by cursors (lane_state), not by the row.
--
-- seq   orders the events of one key. It is drawn while the writer holds the key's business row, from a sequence with
--       CACHE 1, so for one key seq order is commit order. Across keys it says nothing about commit order.
-- xid   is the writing transaction. A row is done when its xid is visible in the lane's cursor snapshot.
-- The wide columns come last and the fixed-size ones first, to save alignment padding. What a row may hold is checked by
-- the functions that append, not by CHECK constraints: eight of them cost a single append 30 of 185 us, because they are
-- prepared anew for every statement, and nobody but those functions can insert.
create table {schema}.outbox (
  seq               bigint      not null generated always as identity (cache 1),
  xid               xid8        not null default pg_current_xact_id(),
  appended_at       timestamptz not null default clock_timestamp(),
  occurred_at       timestamptz not null,
  available_at      timestamptz,
  aggregate_version bigint,
  event_id          uuid        not null,
  schema_version    integer     not null,
  payload_size      integer     not null,
  lane              smallint    not null,
  kind              text        not null,
  tenant            text        not null,
  topic             text        not null,
  key               text        not null,
  type              text        not null,
  aggregate_type    text,
  aggregate_id      text,
  correlation_id    text,
  causation_id      text,
  traceparent       text,
  tracestate        text,
  producer          text,
  schema_id         text,
  content_type      text        not null,
  headers           json        not null,
  payload_hash      bytea       not null,
  payload           bytea       not null
) partition by range (appended_at);

-- The relay reads "lanes I own, transactions since my last window". One entry per row, and each lane grows at its own
-- right edge, so writers do not meet on one page.
create index outbox_lane_xid on {schema}.outbox (lane, xid);
-- For people: lists and look-ups by time. A block range index costs appenders almost nothing.
create index outbox_appended_at on {schema}.outbox using brin (appended_at);

-- Catches rows when nobody has made partitions for weeks; empty in a healthy system.
create table {schema}.outbox_default partition of {schema}.outbox default;

create function {schema}.refuse_change() returns trigger language plpgsql as $$
begin
  raise exception 'outbox rows are immutable: append a new event instead'
    using errcode = 'restrict_violation', constraint = 'sealane_immutable';
end
$$;
-- For each row, because only such a trigger also guards a partition that is named itself.
create trigger outbox_is_immutable before update on {schema}.outbox
  for each row execute function {schema}.refuse_change();

-- Makes the daily partitions from yesterday until some days ahead; returns how many it made. A partition is built as a
-- plain table and then attached, because that takes a lock on the parent that writers do not wait for; only writers whose
-- rows go to the default partition are in the way, and for those it waits two seconds at most. A day that has rows in the
-- default partition already is left there.
create function {schema}.ensure_partitions() returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '2s'
  set timezone = 'UTC' set datestyle = 'ISO' as $$
declare
  days_ahead integer := (select value::integer from {schema}.setting where name = 'partition_days_ahead');
  today      date := (clock_timestamp() at time zone 'UTC')::date;
  day        date;
  partition  text;
  made       integer := 0;
begin
  -- Two callers at once would both miss the same table.
  perform pg_advisory_xact_lock(hashtextextended('sealane.ensure_partitions', '{schema}.outbox'::regclass::oid::bigint));
  for i in -1 .. days_ahead loop
    day := today + i;
    partition := 'outbox_p' || to_char(day, 'YYYYMMDD');
    if to_regclass(format('{schema}.%I', partition)) is not null then
      continue;
    end if;
    if exists (select from {schema}.outbox_default
                where appended_at >= day::timestamp at time zone 'UTC'
                  and appended_at < (day + 1)::timestamp at time zone 'UTC') then
      raise warning 'partition % is not made: its rows are in outbox_default already', partition;
      continue;
    end if;
    execute format('create table {schema}.%I (like {schema}.outbox including defaults including constraints)', partition);
    execute format('alter table {schema}.outbox attach partition {schema}.%I for values from (%L) to (%L)', partition,
                   day::timestamp at time zone 'UTC', (day + 1)::timestamp at time zone 'UTC');
    made := made + 1;
  end loop;
  return made;
end
$$;
select {schema}.ensure_partitions();

-- ---------------------------------------------------------------------------------------------------------------------
-- Uniqueness on request. A unique index cannot span time partitions, so what must not come twice is remembered here as a
-- 128-bit fingerprint, and only for events whose caller asked. kind: i = own event id, v = aggregate version,
-- d = dedup key.
create table {schema}.outbox_unique (
  fingerprint uuid primary key,
  event_id    uuid        not null,
  created_at  timestamptz not null default clock_timestamp(),
  kind        "char"      not null check (kind in ('i', 'v', 'd'))
);
create index outbox_unique_created_at on {schema}.outbox_unique using brin (created_at);

-- ---------------------------------------------------------------------------------------------------------------------
-- Progress: everything the relay writes. Rows per lane and per failure, never per event.

create table {schema}.tick (
  id       bigint      primary key generated always as identity,
  at       timestamptz not null default clock_timestamp(),
  seq_high bigint      not null,
  snapshot pg_snapshot not null
);

create table {schema}.route (
  name       text        primary key check (name ~ '^[a-z][a-z0-9_-]{0,62}$'),
  created_at timestamptz not null default clock_timestamp()
);

-- One row per (route, lane): lease and cursor. Done is what is visible in cursor_snapshot, plus, inside the window that
-- is open now (visible in window_snapshot), what has seq <= window_seq.
create table {schema}.lane_state (
  route           text        not null references {schema}.route (name) on delete cascade,
  lane            smallint    not null,
  epoch           bigint      not null default 0,
  owner           text,
  expires_at      timestamptz not null default '-infinity',
  cursor_snapshot pg_snapshot not null default '1:1:',
  window_snapshot pg_snapshot,
  window_seq      bigint      not null default 0,
  settled_at      timestamptz,
  primary key (route, lane)
) with (fillfactor = 50);

-- When a cursor got where, so that a row can be told when it was published. Append-only, trimmed by age.
create table {schema}.settlement (
  route           text        not null references {schema}.route (name) on delete cascade,
  lane            smallint    not null,
  at              timestamptz not null default clock_timestamp(),
  cursor_snapshot pg_snapshot not null,
  window_snapshot pg_snapshot,
  window_seq      bigint      not null default 0
);
create index settlement_lane_at on {schema}.settlement (route, lane, at);

-- Events set aside because they failed (FAILED: will be retried, DEAD: waits for a person, DISCARDED: given up by one),
-- and their followers of the same key (WAITING).
create table {schema}.parked (
  route           text        not null references {schema}.route (name) on delete cascade,
  lane            smallint    not null,
  seq             bigint      not null,
  event_id        uuid        not null,
  key             text        not null,
  state           text        not null check (state in ('WAITING', 'FAILED', 'DEAD', 'DISCARDED')),
  attempts        integer     not null default 0,
  next_attempt_at timestamptz,
  first_failed_at timestamptz,
  last_failed_at  timestamptz,
  error_code      text,
  error_message   text,
  primary key (route, seq)
);

create function {schema}.add_route(name text) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into {schema}.route (name) values (add_route.name) on conflict do nothing;
  insert into {schema}.lane_state (route, lane)
    select add_route.name, lane from generate_series(0, {lanes} - 1) as lane on conflict do nothing;
$$;
select {schema}.add_route('main');

-- The life of every event on every route, for anybody with psql. Payloads are not in it.
create view {schema}.outbox_status as
select o.seq, o.event_id, r.name as route,
       case
         when p.state in ('FAILED', 'DEAD', 'DISCARDED') then p.state
         when p.state = 'WAITING' then 'PENDING'
         when d.done then 'PUBLISHED'
         when l.expires_at > clock_timestamp() and pg_visible_in_snapshot(o.xid, l.window_snapshot) then 'PUBLISHING'
         else 'PENDING'
       end as status,
       coalesce(p.attempts, case when d.done then 1 else 0 end) as attempts,
       p.next_attempt_at,
       case when p.state is null and d.done then
         (select min(s.at) from {schema}.settlement s
           where s.route = r.name and s.lane = o.lane
             and (pg_visible_in_snapshot(o.xid, s.cursor_snapshot)
                  or (o.seq <= s.window_seq and coalesce(pg_visible_in_snapshot(o.xid, s.window_snapshot), false))))
       end as published_at,
       p.error_code as last_error_code, p.error_message as last_error_message, p.first_failed_at, p.last_failed_at,
       o.appended_at, o.occurred_at, o.available_at, o.lane, o.kind, o.tenant, o.topic, o.key, o.type, o.schema_version,
       o.aggregate_type, o.aggregate_id, o.aggregate_version, o.correlation_id, o.causation_id, o.traceparent,
       o.tracestate, o.producer, o.schema_id, o.content_type, o.headers, o.payload_size, o.payload_hash
  from {schema}.outbox o
 cross join {schema}.route r
  join {schema}.lane_state l on l.route = r.name and l.lane = o.lane
 cross join lateral (
       select pg_visible_in_snapshot(o.xid, l.cursor_snapshot)
              or (o.seq <= l.window_seq and coalesce(pg_visible_in_snapshot(o.xid, l.window_snapshot), false)) as done) d
  left join {schema}.parked p on p.route = r.name and p.seq = o.seq;

-- ---------------------------------------------------------------------------------------------------------------------
-- Pure functions that C++ computes the same way. They run with the caller's rights and have no SET clause, so that the
-- planner can inline them.

-- First two bytes of the SHA-256 of the key; the lane is this modulo the number of lanes.
create function {schema}.lane_hash(key text) returns integer
  language sql immutable strict parallel safe as $$
  select get_byte(h, 0) * 256 + get_byte(h, 1) from sha256(convert_to(lane_hash.key, 'UTF8')) as h
$$;

-- First half of the SHA-256 over the kind's letter and the parts, each with its length before it.
create function {schema}.fingerprint(kind text, variadic parts text[]) returns uuid
  language sql immutable strict parallel safe as $$
  select encode(substring(sha256(convert_to(fingerprint.kind, 'UTF8')
                 || string_agg(int4send(octet_length(part)) || convert_to(part, 'UTF8'), ''::bytea order by place)) for 16),
                'hex')::uuid
    from unnest(fingerprint.parts) with ordinality as p(part, place)
$$;

-- A version 7 UUID: 48 bits of milliseconds, 12 bits of the microseconds inside, 62 random bits.
create function {schema}.uuid_v7() returns uuid
  language sql volatile parallel safe as $$
  select encode(substring(int8send(us / 1000) from 3)
                || int2send((28672 + us % 1000 * 4096 / 1000)::smallint)
                || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid
    from (select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint as us) as now
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Appending. One function call per append, in the caller's transaction, with the definer's rights: a writer needs no
-- right on any table. The statement inside is planned once per session.
--
-- Arrays stand for columns; an array may be null when every value is. unique_* name what must not come twice: the
-- entry's place in the batch (1, 2, ...), the kind and the fingerprint. Returns a row for every entry that was left out
-- because its dedup key was used before, with the id of the event that used it.
create function {schema}.append_batch(
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
  if not kinds <@ array['event', 'command'] or '' = any (topics) or '' = any (keys) or '' = any (types)
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

  -- Headers and hashes that readers could not read become null on the way, which the table refuses: a look of its own at
  -- every row would cost more than the rest of these checks together.
  insert into {schema}.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers, occurred_at,
     available_at, payload_size, payload, payload_hash)
  select u.event_id, u.lane_hash % {lanes}, u.tenant, u.kind, u.topic, u.key, u.type, u.schema_version,
         u.aggregate_type, u.aggregate_id, u.aggregate_version, u.correlation_id, u.causation_id, u.traceparent,
         u.tracestate, u.producer, u.schema_id, u.content_type,
         case when u.headers::text = '{}' or not {schema}.bad_headers(u.headers) then u.headers end,
         u.occurred_at, u.available_at, octet_length(u.payload), u.payload,
         case when octet_length(u.payload_hash) = 32 then u.payload_hash end
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

-- Whether headers are anything but an object of texts.
create function {schema}.bad_headers(headers json) returns boolean
  language plpgsql immutable parallel safe as $$
begin
  return json_typeof(headers) <> 'object'
         or exists (select from json_each(headers) as h(name, value) where json_typeof(h.value) <> 'string')
         or (select count(h.value) < 0 from json_each_text(headers) as h(name, value));  -- fails for half a surrogate pair
end
$$;

-- The second line of defence behind the library's and emit()'s own checks, which name the field.
create function {schema}.refuse_entry() returns void language plpgsql as $$
begin
  raise exception 'this is not an admitted event: append with the library or with emit()'
    using errcode = 'check_violation', constraint = 'sealane_not_admitted';
end
$$;

-- One event that asks for no uniqueness, the most frequent call: half the cost of a batch of one, because nothing has to
-- be taken out of arrays.
create function {schema}.append_one(
  event_id uuid, lane_hash integer, tenant text, kind text, topic text, key text, type text, schema_version integer,
  aggregate_type text, aggregate_id text, aggregate_version bigint, correlation_id text, causation_id text,
  traceparent text, tracestate text, producer text, schema_id text, content_type text, headers json,
  occurred_at timestamptz, available_at timestamptz, payload bytea, payload_hash bytea)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if kind not in ('event', 'command') or topic = '' or key = '' or type = '' or schema_version < 1
     or aggregate_version < 1 or lane_hash not between 0 and 65535
     or octet_length(payload_hash) <> 32 or octet_length(payload) > 16777216
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

-- Refuses a text argument of emit() that is missing or too long.
create function {schema}.check_text(field text, value text, bytes_max integer, required boolean) returns void
  language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  if required and coalesce(value, '') = '' then
    raise exception '% is required', field
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = field;
  end if;
  if octet_length(value) > bytes_max then
    raise exception '% is % bytes, at most % are taken', field, octet_length(value), bytes_max
      using errcode = 'check_violation', constraint = 'sealane_field_too_long', column = field;
  end if;
end
$$;

-- Appends one event in the current transaction and returns its id: for every language that can run SQL.
-- Only topic, key, type and payload are required.
create function {schema}.emit(
  topic text, key text, type text, payload bytea, tenant text default '',
  aggregate_type text default null, aggregate_id text default null, aggregate_version bigint default null,
  headers json default '{}', available_at timestamptz default null, dedup_key text default null,
  event_id uuid default null, kind text default 'event', schema_version integer default 1,
  content_type text default 'application/json', correlation_id text default null, causation_id text default null,
  traceparent text default null, tracestate text default null, occurred_at timestamptz default null,
  producer text default null, schema_id text default null, unique_version boolean default true)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  id           uuid := coalesce(emit.event_id, {schema}.uuid_v7());
  -- A null means "not given" for every argument that has a default.
  kind         text := coalesce(emit.kind, 'event');
  content_type text := coalesce(emit.content_type, 'application/json');
  schema_version integer := coalesce(emit.schema_version, 1);
  tenant_      text := coalesce(emit.tenant, '');
  headers_     json := coalesce(emit.headers, '{}');
  payload_max  integer := (select value::integer from {schema}.setting where name = 'payload_max_bytes');
  bad_header   text;
  too_many     boolean;
  entries      integer[];
  kinds        text[];
  fingerprints uuid[];
  first_id     uuid;
begin
  perform {schema}.check_text('topic', emit.topic, 249, true), {schema}.check_text('key', emit.key, 1024, true),
          {schema}.check_text('type', emit.type, 255, true), {schema}.check_text('tenant', emit.tenant, 255, false),
          {schema}.check_text('content_type', content_type, 255, true),
          {schema}.check_text('aggregate_type', emit.aggregate_type, 255, false),
          {schema}.check_text('aggregate_id', emit.aggregate_id, 1024, false),
          {schema}.check_text('dedup_key', emit.dedup_key, 1024, false),
          {schema}.check_text('producer', emit.producer, 255, false),
          {schema}.check_text('schema_id', emit.schema_id, 255, false),
          {schema}.check_text('correlation_id', emit.correlation_id, 512, false),
          {schema}.check_text('causation_id', emit.causation_id, 512, false),
          {schema}.check_text('traceparent', emit.traceparent, 512, false),
          {schema}.check_text('tracestate', emit.tracestate, 512, false);
  if emit.topic !~ '^[A-Za-z0-9._-]+$' or emit.topic in ('.', '..') then
    raise exception 'topic "%" has characters other than A-Z a-z 0-9 . _ -', emit.topic
      using errcode = 'check_violation', constraint = 'sealane_invalid_topic', column = 'topic';
  end if;
  if emit.payload is null then
    raise exception 'payload is required'
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = 'payload';
  end if;
  if octet_length(emit.payload) > payload_max then
    raise exception 'payload is % bytes, at most % are taken', octet_length(emit.payload), payload_max
      using errcode = 'check_violation', constraint = 'sealane_payload_too_large', column = 'payload',
            hint = 'put large content in object storage and send a reference';
  end if;
  if kind not in ('event', 'command') then
    raise exception 'kind is event or command, not "%"', kind
      using errcode = 'check_violation', constraint = 'sealane_invalid_kind', column = 'kind';
  end if;
  if schema_version < 1 then
    raise exception 'schema_version is 1 or more'
      using errcode = 'check_violation', constraint = 'sealane_invalid_version', column = 'schema_version';
  end if;
  if emit.aggregate_version < 1 then
    raise exception 'aggregate_version is 1 or more'
      using errcode = 'check_violation', constraint = 'sealane_invalid_version', column = 'aggregate_version';
  end if;
  if (coalesce(emit.aggregate_type, '') = '') <> (coalesce(emit.aggregate_id, '') = '')
     or (emit.aggregate_version is not null and coalesce(emit.aggregate_id, '') = '') then
    raise exception 'aggregate_type and aggregate_id go together, and aggregate_version needs both'
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = 'aggregate_id';
  end if;
  if emit.event_id = '00000000-0000-0000-0000-000000000000' then
    raise exception 'the nil UUID names no event'
      using errcode = 'check_violation', constraint = 'sealane_nil_event_id', column = 'event_id';
  end if;
  if emit.occurred_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
    raise exception 'occurred_at is between the years 1970 and 9999'
      using errcode = 'check_violation', constraint = 'sealane_invalid_time', column = 'occurred_at';
  end if;
  if emit.available_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
    raise exception 'available_at is between the years 1970 and 9999'
      using errcode = 'check_violation', constraint = 'sealane_invalid_time', column = 'available_at';
  end if;
  if headers_::text <> '{}' then
    if json_typeof(headers_) <> 'object' or octet_length(headers_::text) > 32768 then
      raise exception 'headers are a JSON object of at most 64 texts'
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end if;
    begin
      bad_header := (select h.name from json_each(headers_) as h(name, value)
                      where json_typeof(h.value) <> 'string' or h.name = '' limit 1);
      too_many := (select count(*) > 64 or sum(octet_length(name) + octet_length(value)) > 16384
                     from json_each_text(headers_) as h(name, value));
    exception when others then
      raise exception 'a header is not text: %', sqlerrm
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end;
    if bad_header is not null then
      raise exception 'header "%" is not a text', bad_header
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end if;
    if too_many then
      raise exception 'headers are a JSON object of at most 64 texts and 16384 bytes'
        using errcode = 'check_violation', constraint = 'sealane_too_many_headers', column = 'headers';
    end if;
    if (select count(distinct name) < count(*) from json_each(headers_) as h(name, value)) then
      raise exception 'a header name stands twice'
        using errcode = 'check_violation', constraint = 'sealane_duplicate_header', column = 'headers';
    end if;
  end if;
  if content_type ~* '^(application/json|[^;]*\+json)\s*(;|$)' then
    begin
      perform convert_from(emit.payload, 'UTF8')::json;
    exception when others then
      raise exception 'payload is not JSON: %', sqlerrm
        using errcode = 'check_violation', constraint = 'sealane_invalid_json', column = 'payload',
              hint = 'send JSON, or say what it is with content_type';
    end;
  end if;

  if emit.event_id is not null then
    entries := array[1]; kinds := array['i'];
    fingerprints := array[{schema}.fingerprint('i', emit.event_id::text)];
  end if;
  if emit.aggregate_version is not null and coalesce(emit.unique_version, true) then
    entries := entries || 1; kinds := kinds || 'v'::text;
    fingerprints := fingerprints || {schema}.fingerprint('v', tenant_, emit.aggregate_type, emit.aggregate_id,
                                                         emit.aggregate_version::text, emit.type);
  end if;
  if emit.dedup_key is not null then
    perform {schema}.check_text('dedup_key', emit.dedup_key, 1024, true);
    entries := entries || 1; kinds := kinds || 'd'::text;
    fingerprints := fingerprints || {schema}.fingerprint('d', tenant_, emit.dedup_key);
  end if;

  if fingerprints is null then
    perform {schema}.append_one(
      id, {schema}.lane_hash(emit.key), tenant_, kind, emit.topic, emit.key, emit.type, schema_version,
      nullif(emit.aggregate_type, ''), nullif(emit.aggregate_id, ''), emit.aggregate_version,
      nullif(emit.correlation_id, ''), nullif(emit.causation_id, ''), nullif(emit.traceparent, ''),
      nullif(emit.tracestate, ''), nullif(emit.producer, ''), nullif(emit.schema_id, ''), content_type, headers_,
      coalesce(emit.occurred_at, clock_timestamp()), emit.available_at, emit.payload, sha256(emit.payload));
    return id;
  end if;
  select b.event_id into first_id from {schema}.append_batch(
    array[id], array[{schema}.lane_hash(emit.key)], array[tenant_], array[kind], array[emit.topic], array[emit.key],
    array[emit.type], array[schema_version], array[nullif(emit.aggregate_type, '')],
    array[nullif(emit.aggregate_id, '')], array[emit.aggregate_version], array[nullif(emit.correlation_id, '')],
    array[nullif(emit.causation_id, '')], array[nullif(emit.traceparent, '')], array[nullif(emit.tracestate, '')],
    array[nullif(emit.producer, '')], array[nullif(emit.schema_id, '')], array[content_type], array[headers_],
    array[coalesce(emit.occurred_at, clock_timestamp())], array[emit.available_at], array[emit.payload],
    array[sha256(emit.payload)], entries, kinds, fingerprints) as b;
  return coalesce(first_id, id);
end
$$;

-- The same with the payload as text, which is stored as its UTF-8 bytes.
create function {schema}.emit(
  topic text, key text, type text, payload text, tenant text default '',
  aggregate_type text default null, aggregate_id text default null, aggregate_version bigint default null,
  headers json default '{}', available_at timestamptz default null, dedup_key text default null,
  event_id uuid default null, kind text default 'event', schema_version integer default 1,
  content_type text default 'application/json', correlation_id text default null, causation_id text default null,
  traceparent text default null, tracestate text default null, occurred_at timestamptz default null,
  producer text default null, schema_id text default null, unique_version boolean default true)
  returns uuid language sql volatile set search_path = pg_catalog, pg_temp as $$
  select {schema}.emit(emit.topic, emit.key, emit.type, convert_to(emit.payload, 'UTF8'), emit.tenant,
    emit.aggregate_type, emit.aggregate_id, emit.aggregate_version, emit.headers, emit.available_at, emit.dedup_key,
    emit.event_id, emit.kind, emit.schema_version, emit.content_type, emit.correlation_id, emit.causation_id,
    emit.traceparent, emit.tracestate, emit.occurred_at, emit.producer, emit.schema_id, emit.unique_version)
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Versions of aggregates, for callers that do not count themselves.
create table {schema}.aggregate_version (
  tenant  text   not null,
  type    text   not null,
  id      text   not null,
  version bigint not null,
  primary key (tenant, type, id)
) with (fillfactor = 70);

-- Counts up under a row lock that lasts to the end of the transaction, so the numbers have no gaps.
create function {schema}.next_version(tenant text, aggregate_type text, aggregate_id text) returns bigint
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into {schema}.aggregate_version as v (tenant, type, id, version)
  values (next_version.tenant, next_version.aggregate_type, next_version.aggregate_id, 1)
  on conflict (tenant, type, id) do update set version = v.version + 1
  returning version
$$;

-- Moves an aggregate from `expected` to the next version; null when it stands elsewhere. A new one stands at 0.
create function {schema}.advance_version(tenant text, aggregate_type text, aggregate_id text, expected bigint)
  returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into {schema}.aggregate_version as v (tenant, type, id, version)
  select advance_version.tenant, advance_version.aggregate_type, advance_version.aggregate_id, 1
   where advance_version.expected = 0
      or exists (select from {schema}.aggregate_version a
                  where a.tenant = advance_version.tenant and a.type = advance_version.aggregate_type
                    and a.id = advance_version.aggregate_id)
  on conflict (tenant, type, id) do update set version = v.version + 1 where v.version = advance_version.expected
  returning version
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Requests that run once. The claim, the business change and the response commit together.
create table {schema}.idempotency (
  tenant         text        not null,
  key            text        not null,
  request_hash   text        not null,
  claimed_at     timestamptz not null default clock_timestamp(),
  patience_until timestamptz not null,
  expires_at     timestamptz not null,
  completed_at   timestamptz,
  status         integer,
  body           bytea,
  primary key (tenant, key)
);
create index idempotency_expires_at on {schema}.idempotency (expires_at);

-- state: new, replay (with status and body), conflict, in_progress. Never waits for another transaction: one that holds
-- the key right now is in_progress.
create function {schema}.idempotency_begin(tenant text, key text, request_hash text,
                                           remember interval default '24 hours', patience interval default '1 minute')
  returns table (state text, status integer, body bytea)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_row {schema}.idempotency;
  at        timestamptz := clock_timestamp();
begin
  perform {schema}.check_text('key', idempotency_begin.key, 1024, true),
          {schema}.check_text('request_hash', idempotency_begin.request_hash, 1024, true),
          {schema}.check_text('tenant', idempotency_begin.tenant, 255, false);
  if idempotency_begin.tenant is null or remember is null or remember <= '0' or patience is null or patience < '0' then
    raise exception 'a claim has a tenant, a time to be remembered and a patience that is not negative'
      using errcode = 'check_violation', constraint = 'sealane_invalid_claim', column = 'remember';
  end if;
  if not pg_try_advisory_xact_lock(('x' || left(replace(
       {schema}.fingerprint('q', idempotency_begin.tenant, idempotency_begin.key)::text, '-', ''), 16))::bit(64)::bigint) then
    return query select 'in_progress', null::integer, null::bytea;
    return;
  end if;
  select * into found_row from {schema}.idempotency r
   where r.tenant = idempotency_begin.tenant and r.key = idempotency_begin.key for update;
  if found and found_row.expires_at > at then
    if found_row.request_hash is distinct from idempotency_begin.request_hash then
      return query select 'conflict', null::integer, null::bytea;
      return;
    elsif found_row.completed_at is not null then
      return query select 'replay', found_row.status, found_row.body;
      return;
    elsif found_row.patience_until > at then
      return query select 'in_progress', null::integer, null::bytea;
      return;
    end if;
  end if;
  insert into {schema}.idempotency as r (tenant, key, request_hash, claimed_at, patience_until, expires_at)
  values (idempotency_begin.tenant, idempotency_begin.key, idempotency_begin.request_hash, at, at + patience, at + remember)
  on conflict on constraint idempotency_pkey do update
    set request_hash = excluded.request_hash, claimed_at = excluded.claimed_at,
        patience_until = excluded.patience_until, expires_at = excluded.expires_at,
        completed_at = null, status = null, body = null;
  return query select 'new', null::integer, null::bytea;
end
$$;

create function {schema}.idempotency_complete(tenant text, key text, request_hash text, status integer, body bytea)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update {schema}.idempotency r
     set completed_at = clock_timestamp(), status = idempotency_complete.status, body = idempotency_complete.body
   where r.tenant = idempotency_complete.tenant and r.key = idempotency_complete.key
     and r.request_hash = idempotency_complete.request_hash and r.completed_at is null;
  if not found then
    raise exception 'request "%" of tenant "%" was not begun with this hash, or is complete already', key, tenant
      using errcode = 'check_violation', constraint = 'sealane_not_begun', column = 'key';
  end if;
end
$$;

-- Forgets fingerprints and responses past their memory, at most batch_max of each, oldest first.
create function {schema}.forget_expired(batch_max integer)
  returns table (unique_forgotten bigint, idempotency_forgotten bigint)
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  with old_unique as (
    delete from {schema}.outbox_unique where fingerprint in (
      select fingerprint from {schema}.outbox_unique
       where created_at < clock_timestamp()
             - (select value::integer * interval '1 day' from {schema}.setting where name = 'unique_memory_days')
       order by created_at limit batch_max for update skip locked)
    returning 1
  ), old_requests as (
    delete from {schema}.idempotency where (tenant, key) in (
      select tenant, key from {schema}.idempotency
       where expires_at < clock_timestamp() order by expires_at limit batch_max for update skip locked)
    returning 1
  )
  select (select count(*) from old_unique), (select count(*) from old_requests)
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights. Roles belong to the whole server; each is a group to grant to the users of a service.
--   writer    appends, through functions only
--   relay     reads the log, writes progress
--   operator  reads everything but payloads
revoke execute on all functions in schema {schema} from public;

do $$
declare
  wanted text;
begin
  if not {create_roles} then
    return;
  end if;
  foreach wanted in array array['{writer}', '{relay}', '{operator}'] loop
    if not exists (select from pg_roles where quote_ident(rolname) = wanted or rolname = trim(both '"' from wanted)) then
      begin
        execute 'create role ' || wanted || ' nologin';
      exception
        when duplicate_object or unique_violation then null;  -- another database's migration was faster
        when insufficient_privilege then
          raise exception 'user % may not create role %', current_user, wanted
            using errcode = 'insufficient_privilege',
                  hint = 'migrate as a user with CREATEROLE, or without roles (store.create_roles = false)';
      end;
    end if;
  end loop;

  grant usage on schema {schema} to {writer}, {relay}, {operator};
  -- Every program compares the schema's version with its own before it starts.
  grant select on {schema}.migration to {writer}, {relay}, {operator};

  grant execute on function
    {schema}.append_one, {schema}.append_batch, {schema}.next_version, {schema}.advance_version,
    {schema}.idempotency_begin, {schema}.idempotency_complete, {schema}.uuid_v7, {schema}.lane_hash, {schema}.fingerprint to {writer};
  grant execute on function {schema}.emit(text, text, text, text, text, text, text, bigint, json, timestamptz, text, uuid,
    text, integer, text, text, text, text, text, timestamptz, text, text, boolean) to {writer};
  grant execute on function {schema}.emit(text, text, text, bytea, text, text, text, bigint, json, timestamptz, text, uuid,
    text, integer, text, text, text, text, text, timestamptz, text, text, boolean) to {writer};

  grant select on {schema}.outbox, {schema}.tick, {schema}.route, {schema}.lane_state, {schema}.settlement,
    {schema}.parked, {schema}.outbox_status, {schema}.setting to {relay};
  grant insert on {schema}.tick, {schema}.settlement, {schema}.parked to {relay};
  grant update (epoch, owner, expires_at, cursor_snapshot, window_snapshot, window_seq, settled_at)
    on {schema}.lane_state to {relay};
  grant update, delete on {schema}.parked to {relay};
  grant delete on {schema}.tick, {schema}.settlement to {relay};
  grant execute on function {schema}.ensure_partitions, {schema}.forget_expired, {schema}.lane_hash to {relay};

  grant select on {schema}.outbox_status, {schema}.tick, {schema}.route, {schema}.lane_state, {schema}.settlement,
    {schema}.parked, {schema}.setting to {operator};
  grant select (seq, xid, appended_at, occurred_at, available_at, aggregate_version, event_id, schema_version,
    payload_size, lane, kind, tenant, topic, key, type, aggregate_type, aggregate_id, correlation_id, causation_id,
    traceparent, tracestate, producer, schema_id, content_type, headers, payload_hash)
    on {schema}.outbox to {operator};
  grant execute on function {schema}.ensure_partitions, {schema}.forget_expired to {operator};
end
$$;
