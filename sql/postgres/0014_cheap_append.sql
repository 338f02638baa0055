-- An append costs what an INSERT costs. Placeholders as in 0007.
--
-- 1. A transaction gets its number in the expression that draws the seq, instead of in a trigger.
-- 2. emit() looks at its arguments once, in one expression, and calls other functions only for arguments that are wrong
--    or rarely given. It takes json and jsonb, too.
-- 3. append_one() and append_batch() compute the lane, which the library no longer sends.

-- ---------------------------------------------------------------------------------------------------------------------
-- The number of the transaction comes before the seq (why: 0002). CASE looks at its condition first, so this holds for
-- every row, whoever inserts it. As a trigger it cost a single append 4 of 12 us. The sequence of an identity column
-- cannot be kept without the identity, so it is made again, with its place and its rights.
lock table {schema}.outbox in access exclusive mode;
do $$
declare
  last    bigint;
  called  boolean;
  rights  text[];
  command text;
  owner   text := (select c.relowner::regrole from pg_class c where c.oid = '{schema}.outbox'::regclass);
begin
  select q.last_value, q.is_called into last, called from {schema}.outbox_seq_seq q;
  rights := array(select format('grant %s on sequence {schema}.outbox_seq_seq to %s', a.privilege_type,
                                case when a.grantee = 0 then 'public' else quote_ident(r.rolname) end)
                    from pg_class c cross join aclexplode(c.relacl) a left join pg_roles r on r.oid = a.grantee
                   where c.oid = '{schema}.outbox_seq_seq'::regclass and a.grantee <> c.relowner);
  alter table {schema}.outbox alter seq drop identity;
  create sequence {schema}.outbox_seq_seq cache 1;
  execute format('alter sequence {schema}.outbox_seq_seq owner to %s', owner);
  alter sequence {schema}.outbox_seq_seq owned by {schema}.outbox.seq;
  perform setval('{schema}.outbox_seq_seq', last, called);
  foreach command in array rights loop
    execute command;
  end loop;
end
$$;
alter table {schema}.outbox alter seq
  set default case when pg_current_xact_id() <> '0'::xid8 then nextval('{schema}.outbox_seq_seq'::regclass) end;
drop trigger outbox_takes_xid_first on {schema}.outbox;
drop function {schema}.take_xid();

-- ---------------------------------------------------------------------------------------------------------------------
-- The setting payload_max_bytes as a function that the planner replaces by its value, which costs a call nothing. A new
-- value makes the function anew, and every session plans again.
create function {schema}.keep_payload_max() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  execute format('create or replace function {schema}.payload_max() returns integer language sql stable as %L',
                 format('select %L::integer', (select s.value::integer from {schema}.setting s
                                                where s.name = 'payload_max_bytes')));
  return null;
end
$$;
create trigger setting_keeps_payload_max after insert or update or delete on {schema}.setting
  for each statement execute function {schema}.keep_payload_max();
update {schema}.setting set value = value where name = 'payload_max_bytes';

-- ---------------------------------------------------------------------------------------------------------------------
-- What emit() calls for some events only. These run inside of it, with its rights and its search path.

-- Names the first argument at fault. The arguments are those of emit(), with the payload as bytes.
create function {schema}.refuse_event(
  topic text, key text, type text, payload bytea, tenant text, aggregate_type text, aggregate_id text,
  aggregate_version bigint, available_at timestamptz, dedup_key text, event_id uuid, kind text, schema_version integer,
  content_type text, correlation_id text, causation_id text, traceparent text, tracestate text, occurred_at timestamptz,
  producer text, schema_id text)
  returns void language plpgsql as $$
begin
  perform {schema}.check_text('topic', topic, 249, true), {schema}.check_text('key', key, 1024, true),
          {schema}.check_text('type', type, 255, true), {schema}.check_text('tenant', tenant, 255, false),
          {schema}.check_text('content_type', coalesce(content_type, 'application/json'), 255, true),
          {schema}.check_text('aggregate_type', aggregate_type, 255, false),
          {schema}.check_text('aggregate_id', aggregate_id, 1024, false),
          {schema}.check_text('dedup_key', dedup_key, 1024, false),
          {schema}.check_text('producer', producer, 255, false),
          {schema}.check_text('schema_id', schema_id, 255, false),
          {schema}.check_text('correlation_id', correlation_id, 512, false),
          {schema}.check_text('causation_id', causation_id, 512, false),
          {schema}.check_text('traceparent', traceparent, 512, false),
          {schema}.check_text('tracestate', tracestate, 512, false);
  if topic !~ '^[A-Za-z0-9._-]+$' or topic in ('.', '..') then
    raise exception 'topic "%" has characters other than A-Z a-z 0-9 . _ -', topic
      using errcode = 'check_violation', constraint = 'sealane_invalid_topic', column = 'topic';
  end if;
  if payload is null then
    raise exception 'payload is required'
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = 'payload';
  end if;
  if octet_length(payload) > {schema}.payload_max() then
    raise exception 'payload is % bytes, at most % are taken', octet_length(payload), {schema}.payload_max()
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
  if aggregate_version < 1 then
    raise exception 'aggregate_version is 1 or more'
      using errcode = 'check_violation', constraint = 'sealane_invalid_version', column = 'aggregate_version';
  end if;
  if (coalesce(aggregate_type, '') = '') <> (coalesce(aggregate_id, '') = '')
     or (aggregate_version is not null and coalesce(aggregate_id, '') = '') then
    raise exception 'aggregate_type and aggregate_id go together, and aggregate_version needs both'
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = 'aggregate_id';
  end if;
  if event_id = '00000000-0000-0000-0000-000000000000' then
    raise exception 'the nil UUID names no event'
      using errcode = 'check_violation', constraint = 'sealane_nil_event_id', column = 'event_id';
  end if;
  if occurred_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
    raise exception 'occurred_at is between the years 1970 and 9999'
      using errcode = 'check_violation', constraint = 'sealane_invalid_time', column = 'occurred_at';
  end if;
  if available_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
    raise exception 'available_at is between the years 1970 and 9999'
      using errcode = 'check_violation', constraint = 'sealane_invalid_time', column = 'available_at';
  end if;
  perform {schema}.refuse_entry();
end
$$;

-- Refuses headers that are anything but an object of at most 64 texts.
create function {schema}.check_headers(headers json) returns void language plpgsql as $$
declare
  number   bigint;
  names    bigint;
  bytes    bigint;
  bad_name text;
begin
  if json_typeof(headers) <> 'object' or octet_length(headers::text) > 32768 then
    raise exception 'headers are a JSON object of at most 64 texts'
      using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
  end if;
  begin
    -- Taking a value out of its quotes fails for half a surrogate pair and for NUL.
    select count(*), count(distinct h.name), sum(octet_length(h.name) + octet_length(h.value #>> array[]::text[])),
           (array_agg(h.name) filter (where json_typeof(h.value) <> 'string' or h.name = ''))[1]
      into number, names, bytes, bad_name from json_each(headers) as h(name, value);
  exception when others then
    raise exception 'a header is not text: %', sqlerrm
      using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
  end;
  if bad_name is not null then
    raise exception 'header "%" is not a text', bad_name
      using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
  end if;
  if number > 64 or bytes > 16384 then
    raise exception 'headers are a JSON object of at most 64 texts and 16384 bytes'
      using errcode = 'check_violation', constraint = 'sealane_too_many_headers', column = 'headers';
  end if;
  if names < number then
    raise exception 'a header name stands twice'
      using errcode = 'check_violation', constraint = 'sealane_duplicate_header', column = 'headers';
  end if;
end
$$;

-- Remembers what must not come twice of one event: its own id, its aggregate version, its dedup key, each when given.
-- Returns the event that used the dedup key before, or null. The fingerprints are those of fingerprint(), written out.
create function {schema}.claim_event(
  id uuid, own_id boolean, tenant text, aggregate_type text, aggregate_id text, aggregate_version bigint, type text,
  dedup_key text)
  returns uuid language plpgsql as $$
declare
  of_id      uuid;
  of_version uuid;
  of_dedup   uuid;
  first_id   uuid;
  free_id      boolean := true;
  free_version boolean := true;
begin
  if dedup_key is not null then
    perform {schema}.check_text('dedup_key', dedup_key, 1024, true);
    of_dedup := encode(substring(sha256(convert_to('d', 'UTF8')
      || int4send(octet_length(tenant)) || convert_to(tenant, 'UTF8')
      || int4send(octet_length(dedup_key)) || convert_to(dedup_key, 'UTF8')) for 16), 'hex')::uuid;
    insert into {schema}.outbox_unique (fingerprint, kind, event_id) values (of_dedup, 'd', id) on conflict do nothing;
    if not found then
      -- Locked, so that the clean-up of old keys cannot forget it before the end of the transaction.
      select k.event_id into first_id from {schema}.outbox_unique k
       where k.fingerprint = of_dedup and k.kind = 'd' for key share;
      if first_id is null then
        raise exception 'a dedup key was forgotten at this very moment; run the transaction again'
          using errcode = 'serialization_failure';
      end if;
      return first_id;
    end if;
  end if;
  if own_id then
    of_id := encode(substring(sha256(convert_to('i', 'UTF8')
      || int4send(octet_length(id::text)) || convert_to(id::text, 'UTF8')) for 16), 'hex')::uuid;
  end if;
  if aggregate_version is not null then
    of_version := encode(substring(sha256(convert_to('v', 'UTF8')
      || int4send(octet_length(tenant)) || convert_to(tenant, 'UTF8')
      || int4send(octet_length(aggregate_type)) || convert_to(aggregate_type, 'UTF8')
      || int4send(octet_length(aggregate_id)) || convert_to(aggregate_id, 'UTF8')
      || int4send(octet_length(aggregate_version::text)) || convert_to(aggregate_version::text, 'UTF8')
      || int4send(octet_length(type)) || convert_to(type, 'UTF8')) for 16), 'hex')::uuid;
  end if;
  -- In the order of the fingerprints, as append_batch() has it: two transactions with the same ones wait for each other
  -- instead of deadlocking.
  if of_version < of_id then
    insert into {schema}.outbox_unique (fingerprint, kind, event_id) values (of_version, 'v', id) on conflict do nothing;
    free_version := found;
  end if;
  if of_id is not null then
    insert into {schema}.outbox_unique (fingerprint, kind, event_id) values (of_id, 'i', id) on conflict do nothing;
    free_id := found;
  end if;
  if of_version is not null and (of_version < of_id) is not true then
    insert into {schema}.outbox_unique (fingerprint, kind, event_id) values (of_version, 'v', id) on conflict do nothing;
    free_version := found;
  end if;
  if not free_id then
    raise exception 'event id % exists already', id
      using errcode = 'unique_violation', constraint = 'sealane_duplicate_event_id', column = 'id',
            detail = 'code: duplicate_event_id, entry: 1';
  end if;
  if not free_version then
    raise exception 'there is a % event for % % version % of tenant "%" already', type, aggregate_type, aggregate_id,
        aggregate_version, tenant
      using errcode = 'unique_violation', constraint = 'sealane_duplicate_version', column = 'aggregate_version',
            detail = 'code: duplicate_version, entry: 1';
  end if;
  return null;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- emit(), once for each type that a payload may have: text, bytes, json, jsonb. A jsonb is stored as its text, which need
-- not be the text that it was made of; the others are stored as they came. A payload without a type is taken as text.
--
-- One body, written four times instead of called from one another: a function around a function costs as much as the
-- INSERT. bytes is the payload as it is stored, and parsed an expression that fails when it is not JSON, which json and
-- jsonb always are.
do $do$
declare
  kind       record;
  json_check text := $check$
  begin
    if (emit.content_type = 'application/json'
        or emit.content_type ~* '^(application/json|[^;]*[+]json)[[:space:]]*(;|$)') and <parsed> is null then
      null;
    end if;
  exception when others then
    raise exception 'payload is not JSON: %', sqlerrm
      using errcode = 'check_violation', constraint = 'sealane_invalid_json', column = 'payload',
            hint = 'send JSON, or say what it is with content_type';
  end;$check$;
begin
  for kind in select * from (values
    ('text',  $$convert_to(emit.payload, 'UTF8')$$,       $$emit.payload::json$$),
    ('bytea', $$emit.payload$$,                           $$convert_from(emit.payload, 'UTF8')::json$$),
    ('json',  $$convert_to(emit.payload::text, 'UTF8')$$, null),
    ('jsonb', $$convert_to(emit.payload::text, 'UTF8')$$, null)) as k(type, bytes, parsed)
  loop
    execute replace(replace(replace($body$
create or replace function {schema}.emit(
  topic text, key text, type text, payload <type>, tenant text default '',
  aggregate_type text default null, aggregate_id text default null, aggregate_version bigint default null,
  headers json default '{}', available_at timestamptz default null, dedup_key text default null,
  event_id uuid default null, kind text default 'event', schema_version integer default 1,
  content_type text default 'application/json', correlation_id text default null, causation_id text default null,
  traceparent text default null, tracestate text default null, occurred_at timestamptz default null,
  producer text default null, schema_id text default null, unique_version boolean default true)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  bytes    bytea := <bytes>;
  now_us   bigint := date_part('epoch', clock_timestamp()) * 1000000;
  -- As uuid_v7() makes it.
  id       uuid := coalesce(emit.event_id,
    encode(substring(int8send(now_us / 1000) from 3) || int2send((28672 + now_us % 1000 * 4096 / 1000)::smallint)
           || substring(uuid_send(gen_random_uuid()) from 9), 'hex')::uuid);
  first_id uuid;
  claims   boolean := false;
begin
  -- What most events have is looked at here, and the arguments that are not given once and together. Everything is looked
  -- at below when this is not plainly true.
  if (emit.topic ~ '^[A-Za-z0-9._-]+$' and emit.topic not in ('.', '..') and octet_length(emit.topic) <= 249
      and emit.key <> '' and octet_length(emit.key) <= 1024 and emit.type <> '' and octet_length(emit.type) <= 255
      and octet_length(bytes) <= {schema}.payload_max() and octet_length(emit.tenant) <= 255
      and emit.kind = 'event' and emit.schema_version = 1 and emit.content_type = 'application/json'
      and emit.headers::text = '{}'
      and num_nonnulls(emit.aggregate_type, emit.aggregate_id, emit.aggregate_version, emit.available_at, emit.dedup_key,
                       emit.event_id, emit.correlation_id, emit.causation_id, emit.traceparent, emit.tracestate,
                       emit.occurred_at, emit.producer, emit.schema_id) = 0) is not true then
    -- A null means "not given" for every argument that has a default, and so does an empty text for those without one.
    if num_nulls(emit.tenant, emit.kind, emit.schema_version, emit.content_type, emit.headers) > 0
       or '' in (emit.aggregate_type, emit.aggregate_id, emit.correlation_id, emit.causation_id, emit.traceparent,
                 emit.tracestate, emit.producer, emit.schema_id) then
      tenant := coalesce(emit.tenant, '');
      kind := coalesce(emit.kind, 'event');
      schema_version := coalesce(emit.schema_version, 1);
      content_type := coalesce(emit.content_type, 'application/json');
      headers := coalesce(emit.headers, '{}');
      aggregate_type := nullif(emit.aggregate_type, '');
      aggregate_id := nullif(emit.aggregate_id, '');
      correlation_id := nullif(emit.correlation_id, '');
      causation_id := nullif(emit.causation_id, '');
      traceparent := nullif(emit.traceparent, '');
      tracestate := nullif(emit.tracestate, '');
      producer := nullif(emit.producer, '');
      schema_id := nullif(emit.schema_id, '');
    end if;
    if emit.topic is null or emit.key is null or emit.type is null or bytes is null
       or emit.topic !~ '^[A-Za-z0-9._-]+$' or emit.topic in ('.', '..') or octet_length(emit.topic) > 249
       or emit.key = '' or octet_length(emit.key) > 1024 or emit.type = '' or octet_length(emit.type) > 255
       or octet_length(bytes) > {schema}.payload_max() or octet_length(emit.tenant) > 255
       or emit.kind not in ('event', 'command') or emit.schema_version < 1
       or emit.content_type = '' or octet_length(emit.content_type) > 255
       or emit.aggregate_version < 1 or octet_length(emit.aggregate_type) > 255 or octet_length(emit.aggregate_id) > 1024
       or (emit.aggregate_type is null) <> (emit.aggregate_id is null)
       or (emit.aggregate_version is not null and emit.aggregate_id is null)
       or emit.event_id = '00000000-0000-0000-0000-000000000000' or octet_length(emit.dedup_key) > 1024
       or octet_length(emit.producer) > 255 or octet_length(emit.schema_id) > 255
       or octet_length(emit.correlation_id) > 512 or octet_length(emit.causation_id) > 512
       or octet_length(emit.traceparent) > 512 or octet_length(emit.tracestate) > 512
       or emit.occurred_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z'
       or emit.available_at not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
      perform {schema}.refuse_event(emit.topic, emit.key, emit.type, bytes, emit.tenant, emit.aggregate_type,
        emit.aggregate_id, emit.aggregate_version, emit.available_at, emit.dedup_key, emit.event_id, emit.kind,
        emit.schema_version, emit.content_type, emit.correlation_id, emit.causation_id, emit.traceparent,
        emit.tracestate, emit.occurred_at, emit.producer, emit.schema_id);
    end if;
    if emit.headers::text <> '{}' then
      perform {schema}.check_headers(emit.headers);
    end if;
    claims := num_nonnulls(emit.event_id, emit.aggregate_version, emit.dedup_key) > 0;
  end if;<json_check>
  if claims then
    first_id := {schema}.claim_event(id, emit.event_id is not null, emit.tenant, emit.aggregate_type,
      emit.aggregate_id, case when coalesce(emit.unique_version, true) then emit.aggregate_version end, emit.type,
      emit.dedup_key);
    if first_id is not null then
      return first_id;
    end if;
  end if;
  insert into {schema}.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers, occurred_at,
     available_at, payload_size, payload, payload_hash)
  values
    (id, get_byte(sha256(convert_to(emit.key, 'UTF8')), 1) % {lanes}, emit.tenant, emit.kind, emit.topic, emit.key,
     emit.type, emit.schema_version, emit.aggregate_type, emit.aggregate_id, emit.aggregate_version, emit.correlation_id,
     emit.causation_id, emit.traceparent, emit.tracestate, emit.producer, emit.schema_id, emit.content_type, emit.headers,
     coalesce(emit.occurred_at, clock_timestamp()), emit.available_at, octet_length(bytes), bytes, sha256(bytes));
  return id;
end
$$$body$, '<type>', kind.type), '<bytes>', kind.bytes),
      '<json_check>', coalesce(replace(json_check, '<parsed>', kind.parsed), ''));
  end loop;
end
$do$;

-- ---------------------------------------------------------------------------------------------------------------------
-- What the library calls: as in 0007, but the lane is computed here and not sent. Comparing it cost as much as computing it,
-- and the client had computed it, too. The payload's hash is still sent and compared, because it is also a proof that the
-- payload came as it left. It may be null, and so may the lane's; one that is sent and wrong is refused.
--
-- The lane is the first two bytes of the key's SHA-256 modulo the number of lanes. The second byte is enough for a number
-- that divides 256.
do $$
begin
  if 256 % {lanes} <> 0 then
    raise exception '{lanes} lanes do not divide 256: append with both bytes of the hash';
  end if;
end
$$;

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
     or '1970-01-01T00:00:00Z' > any (occurred_ats) or '9999-12-31T23:59:59.999999Z' < any (occurred_ats)
     or '1970-01-01T00:00:00Z' > any (available_ats) or '9999-12-31T23:59:59.999999Z' < any (available_ats)
     -- Looks at each only when all together could hold one that is too large.
     or (pg_column_size(payloads) > 16777216
         and exists (select from unnest(payloads) as p(payload) where octet_length(p.payload) > 16777216)) then
    perform {schema}.refuse_entry();
  end if;
  if lane_hashes is not null then
    perform from unnest(keys, lane_hashes) as u(key, lane_hash)
      where u.lane_hash <> get_byte(sha256(convert_to(u.key, 'UTF8')), 0) * 256
                           + get_byte(sha256(convert_to(u.key, 'UTF8')), 1);
    if found then
      perform {schema}.refuse_entry();
    end if;
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
  -- not the payload's, and the id of an event with a text that is too long. A look of its own at every row would cost more
  -- than the rest of these checks together.
  insert into {schema}.outbox
    (event_id, lane, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id, aggregate_version,
     correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers, occurred_at,
     available_at, payload_size, payload, payload_hash)
  select case when octet_length(u.topic) <= 249 and greatest(octet_length(u.key), octet_length(u.aggregate_id)) <= 1024
                   and greatest(octet_length(u.type), octet_length(u.tenant), octet_length(u.content_type),
                                octet_length(u.aggregate_type), octet_length(u.producer), octet_length(u.schema_id)) <= 255
                   and greatest(octet_length(u.correlation_id), octet_length(u.causation_id),
                                octet_length(u.traceparent), octet_length(u.tracestate), 0) <= 512 then u.event_id end,
         get_byte(sha256(convert_to(u.key, 'UTF8')), 1) % {lanes},
         u.tenant, u.kind, u.topic, u.key, u.type, u.schema_version,
         u.aggregate_type, u.aggregate_id, u.aggregate_version, u.correlation_id, u.causation_id, u.traceparent,
         u.tracestate, u.producer, u.schema_id, u.content_type,
         case when u.headers::text = '{}' or not {schema}.bad_headers(u.headers) then u.headers end,
         u.occurred_at, u.available_at, octet_length(u.payload), u.payload,
         case when u.payload_hash is null then sha256(u.payload)
              when u.payload_hash = sha256(u.payload) then u.payload_hash end
    from unnest(event_ids, tenants, kinds, topics, keys, types, schema_versions, aggregate_types,
                aggregate_ids, aggregate_versions, correlation_ids, causation_ids, traceparents, tracestates, producers,
                schema_ids, content_types, headers, occurred_ats, available_ats, payloads, payload_hashes)
         with ordinality
         as u(event_id, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
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
declare
  key_hash bytea := sha256(convert_to(key, 'UTF8'));
  hash     bytea := sha256(payload);
begin
  if kind not in ('event', 'command') or key = '' or type = '' or schema_version < 1
     or aggregate_version < 1
     or payload_hash <> hash or octet_length(payload) > 16777216
     or lane_hash <> get_byte(key_hash, 0) * 256 + get_byte(key_hash, 1)
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
    (event_id, get_byte(key_hash, 1) % {lanes}, tenant, kind, topic, key, type, schema_version, aggregate_type, aggregate_id,
     aggregate_version, correlation_id, causation_id, traceparent, tracestate, producer, schema_id, content_type, headers,
     occurred_at, available_at, octet_length(payload), payload, hash);
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: who may call emit() with a text may call it with json and jsonb, also a role that the owner granted it by hand.
revoke execute on function {schema}.payload_max, {schema}.keep_payload_max, {schema}.refuse_event, {schema}.check_headers,
  {schema}.claim_event from public;
do $$
declare
  name text;
  role text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'emit'
                 and p.proargtypes[3] in ('json'::regtype, 'jsonb'::regtype) loop
    execute format('revoke execute on function %s from public', name);
    for role in select distinct r.rolname
                  from pg_proc p, aclexplode(p.proacl) a, pg_roles r
                 where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'emit'
                   and p.proargtypes[3] = 'text'::regtype and a.grantee <> p.proowner and r.oid = a.grantee loop
      execute format('grant execute on function %s to %I', name, role);
    end loop;
  end loop;
end
$$;
