-- A position belongs to a server. Rows and cursors of the log hold transaction numbers, and those mean something only on
-- the cluster, and in the history of that cluster, that handed them out. Placeholders as in 0001.

-- Relays of an earlier version go on with what they know of the tables, and would invert events that are parked.
do $$
begin
  if exists (select from {schema}.relay_member m where m.expires_at > clock_timestamp()) then
    raise exception 'relays are running on this outbox'
      using errcode = 'object_in_use', hint = 'stop the relays, migrate, then start the new ones';
  end if;
end
$$;

-- Whose transaction numbers the log holds. A dump carries this row along, so a restored outbox knows that it was moved.
create table {schema}.log_server (
  one               boolean     primary key default true check (one),
  system_identifier bigint      not null,
  timeline          integer     not null,
  since             timestamptz not null default clock_timestamp()
);

-- The history that the server writes now. The control file says so only after the next checkpoint.
create function {schema}.timeline() returns integer language sql volatile as $$
  select ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::integer
$$;
insert into {schema}.log_server (system_identifier, timeline)
  select system_identifier, {schema}.timeline() from pg_control_system();

-- When this server was started, in microseconds since 1970: it tells one life of a server from another. A server that
-- was promoted, restored or merely restarted may have gone back, so what a relay remembers of an earlier life is not
-- used. Cheap and constant within a statement, so that a statement can ask for the life it is meant for, also behind a
-- pooler that changes the server between two statements.
create function {schema}.server_start() returns bigint language sql stable as $$
  select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint
$$;

-- In which life of the server a lane was claimed: a lease counts in that one alone.
alter table {schema}.lane_state add column claimed_on bigint;

-- What a relay asks before it takes positions from the table.
--   home, here  the cluster that the log belongs to, and this one
--   ahead       some position lies beyond everything that this server has begun
--   behind      the sequence stands before numbers that a position counts as published
create function {schema}.check_server(route text)
  returns table (home bigint, here bigint, home_timeline integer, timeline integer, ahead boolean, behind boolean)
  language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  with position as (
    select l.cursor_snapshot as cursor, l.window_snapshot as until, l.cursor_high as high, l.window_seq as seq
      from {schema}.lane_state l where l.route = check_server.route
    union all
    select (f ->> 'cursor')::pg_snapshot, (f ->> 'window')::pg_snapshot, coalesce((f ->> 'cursor_high')::bigint, 0),
           coalesce((f ->> 'seq')::bigint, 0)
      from {schema}.lane_state l, jsonb_array_elements(l.apart) as f where l.route = check_server.route)
  select s.system_identifier, c.system_identifier, s.timeline, {schema}.timeline(),
         exists (select from position p
                  where greatest(pg_snapshot_xmax(p.cursor)::text::bigint, pg_snapshot_xmax(p.until)::text::bigint)
                        > pg_snapshot_xmax(pg_current_snapshot())::text::bigint),
         exists (select from position p, {schema}.outbox_seq_seq q where greatest(p.high, p.seq) > q.last_value)
    from {schema}.log_server s, pg_control_system() c
$$;

-- The same cluster goes on with a new history: a standby was promoted, or a backup recovered. Its positions hold there:
-- each was written by a transaction with a number above all that the position knows, so a server that has the position
-- hands none of those numbers out again. Returns the history before, or null when nothing changed.
create function {schema}.note_timeline() returns integer
  language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  before integer;
begin
  select s.timeline into before from {schema}.log_server s for update;
  if before = {schema}.timeline() then
    return null;
  end if;
  update {schema}.log_server set timeline = {schema}.timeline(), since = clock_timestamp();
  return before;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- As before, and `done` asks for the number and the time too: what a cursor covers has a seq up to its high mark and was
-- appended before the cursor was written. A row written after a restore is not taken for published, whatever its
-- transaction number happens to be, and also where the sequence was left behind.
create or replace view {schema}.outbox_status as
select o.seq, o.event_id, r.name as route,
       case
         when p.state in ('FAILED', 'DEAD', 'DISCARDED') then p.state
         when p.state = 'WAITING' then 'PENDING'
         when d.done then 'PUBLISHED'
         when l.expires_at > clock_timestamp() and pg_visible_in_snapshot(o.xid, c.window_snapshot) then 'PUBLISHING'
         else 'PENDING'
       end as status,
       coalesce(p.attempts, case when d.done then 1 else 0 end) as attempts,
       p.next_attempt_at,
       case when p.state is null and d.done then
         (select s.at from {schema}.settlement s
           where s.route = r.name and s.at >= o.appended_at and o.lane = any (s.lanes)
             and case when s.tenants is null then o.tenant <> all (s.except_tenants) else o.tenant = any (s.tenants) end
             and (pg_visible_in_snapshot(o.xid, s.cursor_snapshot)
                  or (o.seq <= s.window_seq and coalesce(pg_visible_in_snapshot(o.xid, s.window_snapshot), false)))
           order by s.at limit 1)
       end as published_at,
       p.error_code as last_error_code, p.error_message as last_error_message, p.first_failed_at, p.last_failed_at,
       o.appended_at, o.occurred_at, o.available_at, o.lane, o.kind, o.tenant, o.topic, o.key, o.type, o.schema_version,
       o.aggregate_type, o.aggregate_id, o.aggregate_version, o.correlation_id, o.causation_id, o.traceparent,
       o.tracestate, o.producer, o.schema_id, o.content_type, o.headers, o.payload_size, o.payload_hash
  from {schema}.outbox o
 cross join {schema}.route r
  join {schema}.lane_state l on l.route = r.name and l.lane = o.lane
  left join lateral (
       select (f ->> 'cursor')::pg_snapshot as cursor_snapshot, (f ->> 'window')::pg_snapshot as window_snapshot,
              (f ->> 'cursor_high')::bigint as cursor_high, (f ->> 'seq')::bigint as window_seq
         from jsonb_array_elements(l.apart) as f where f -> 'tenants' ? o.tenant limit 1) f on l.apart is not null
 cross join lateral (
       select coalesce(f.cursor_snapshot, l.cursor_snapshot) as cursor_snapshot,
              case when f.cursor_snapshot is null then l.window_snapshot else f.window_snapshot end as window_snapshot,
              coalesce(f.cursor_high, l.cursor_high) as cursor_high,
              coalesce(f.window_seq, l.window_seq) as window_seq) c
 cross join lateral (
       select o.appended_at <= coalesce(l.settled_at, 'infinity')
              and ((o.seq <= c.cursor_high and pg_visible_in_snapshot(o.xid, c.cursor_snapshot))
                   or (o.seq <= c.window_seq and coalesce(pg_visible_in_snapshot(o.xid, c.window_snapshot), false)))
                as done) d
  left join {schema}.parked p on p.route = r.name and p.seq = o.seq;

-- ---------------------------------------------------------------------------------------------------------------------
-- Routes, for operators.

-- Where a new route begins: null is the beginning of the log; otherwise events appended at that time or later, and a few
-- that were appended shortly before.
create function {schema}.add_route_from(name text, from_time timestamptz, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  last bigint := (select case when q.is_called then q.last_value else 0 end from {schema}.outbox_seq_seq q);
  done bigint;
begin
  if exists (select from {schema}.route r where r.name = add_route_from.name) then
    return false;
  end if;
  perform {schema}.add_route(name);
  if from_time is not null then
    -- A transaction that is open now is not visible in the snapshot, so its events are shipped when it commits.
    select coalesce(min(o.seq) - 1, last) into done from {schema}.outbox o where o.appended_at >= from_time;
    -- The number is read after the snapshot of this statement was taken, as a relay does it: what that sees has a
    -- number up to it.
    update {schema}.lane_state l
       set window_snapshot = pg_current_snapshot(), window_seq = done,
           window_high = (select case when q.is_called then q.last_value else 0 end from {schema}.outbox_seq_seq q)
     where l.route = add_route_from.name and done > 0;
  end if;
  insert into {schema}.audit (actor, action, target, reason)
    values (actor, 'route.add', format('%s from %s', name, coalesce(from_time::text, 'the beginning')), reason);
  return true;
end
$$;

-- Removes a route with its positions and what is parked on it. Returns false when relays that live work on it, null when
-- there is no such route.
create function {schema}.remove_route(name text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from {schema}.route r where r.name = remove_route.name for update;
  if not found then
    return null;
  end if;
  if exists (select from {schema}.relay_member m
              where m.route = remove_route.name and m.expires_at > clock_timestamp()) then
    return false;
  end if;
  delete from {schema}.route r where r.name = remove_route.name;
  insert into {schema}.audit (actor, action, target, reason) values (actor, 'route.remove', name, reason);
  return true;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Another cluster: the log was dumped and restored, replicated logically, or upgraded into a new cluster. Rows and
-- positions still fit each other, but not what this server does from now on.

create or replace function {schema}.refuse_change() returns trigger language plpgsql as $$
begin
  if current_setting('sealane.rebase', true) = pg_current_xact_id()::text then
    return new;
  end if;
  raise exception 'outbox rows are immutable: append a new event instead'
    using errcode = 'restrict_violation', constraint = 'sealane_immutable';
end
$$;

-- Which routes count a row as published, as in outbox_status.
create function {schema}.done_on(seq bigint, xid xid8, lane smallint, tenant text, appended_at timestamptz)
  returns text[]
  language sql stable as $$
  select coalesce(array_agg(l.route order by l.route), '{}')
    from {schema}.lane_state l
    left join lateral (
         select (f ->> 'cursor')::pg_snapshot as cursor, (f ->> 'cursor_high')::bigint as high,
                (f ->> 'window')::pg_snapshot as until, (f ->> 'seq')::bigint as seq
           from jsonb_array_elements(l.apart) as f where f -> 'tenants' ? done_on.tenant limit 1) f on l.apart is not null
   where l.lane = done_on.lane and done_on.appended_at <= coalesce(l.settled_at, 'infinity')
     and case when f.cursor is null
              then (done_on.seq <= l.cursor_high and pg_visible_in_snapshot(done_on.xid, l.cursor_snapshot))
                   or (done_on.seq <= l.window_seq and coalesce(pg_visible_in_snapshot(done_on.xid, l.window_snapshot), false))
              else (done_on.seq <= f.high and pg_visible_in_snapshot(done_on.xid, f.cursor))
                   or (done_on.seq <= f.seq and coalesce(pg_visible_in_snapshot(done_on.xid, f.until), false)) end
$$;

-- Puts every row and position of the log into the transaction numbers of this server, in one transaction: rows that are
-- published on the same routes get one small number, below all that the server has handed out since it was made, and the
-- cursor of a route sees exactly the numbers of what it has published. Rows that were written here meanwhile are
-- published nowhere and keep their place behind the others. Appending goes on beside it.
create function {schema}.rebase_log(actor text, reason text)
  returns table (route text, published bigint, pending bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  base    constant bigint := 3;
  highest bigint;
  last    bigint;
  groups  integer;
begin
  lock table {schema}.log_server in access exclusive mode;
  perform from {schema}.lane_state l order by l.route, l.lane for update;
  perform set_config('sealane.rebase', pg_current_xact_id()::text, true);
  -- In this order: applications go on appending.
  highest := (select coalesce(max(o.seq), 0) from {schema}.outbox o);
  select case when q.is_called then q.last_value else 0 end into last from {schema}.outbox_seq_seq q;
  if last < highest
     or (select bool_or(c.behind) from {schema}.route r, {schema}.check_server(r.name) c) then
    raise exception 'the sequence of the outbox stands at %, behind numbers that are used already', last
      using errcode = 'check_violation', constraint = 'sealane_sequence_behind',
            hint = format('set it first: select setval(''{schema}.outbox_seq_seq'', %s)',
                          (select greatest((select max(o.seq) from {schema}.outbox o), max(l.cursor_high), max(l.window_high),
                                           max((select max((f ->> 'cursor_high')::bigint)
                                                  from jsonb_array_elements(l.apart) as f)))
                             from {schema}.lane_state l));
  end if;

  create temporary table sealane_rebase on commit drop as
    select o.seq, o.lane, o.xid, {schema}.done_on(o.seq, o.xid, o.lane, o.tenant, o.appended_at) as done
      from {schema}.outbox o;
  create temporary table sealane_rebase_group on commit drop as
    select d.done, (base - 1 + row_number() over (order by d.done)) as number
      from (select distinct done from sealane_rebase) d;
  select count(*) into groups from sealane_rebase_group;
  if base + groups >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint then
    raise exception 'the routes have published % different sets of events, which is too many to rebase', groups
      using errcode = 'check_violation', constraint = 'sealane_rebase_too_many', hint = 'remove routes that are not used';
  end if;
  create index on sealane_rebase (seq);
  analyze sealane_rebase;

  update {schema}.outbox o set xid = g.number::text::xid8
    from sealane_rebase b join sealane_rebase_group g on g.done = b.done
   where o.seq = b.seq and o.lane = b.lane and o.xid = b.xid;
  update {schema}.parked p set xid = g.number::text::xid8
    from sealane_rebase b join sealane_rebase_group g on g.done = b.done
   where b.seq = p.seq and b.lane = p.lane and b.xid = p.xid;
  update {schema}.lane_state l
     set cursor_snapshot = format('%s:%s:%s', base, base + groups,
                             (select string_agg(g.number::text, ',' order by g.number) from sealane_rebase_group g
                               where l.route <> all (g.done)))::pg_snapshot,
         cursor_low = 0, cursor_high = last, window_snapshot = null, window_low = 0, window_high = 0, window_seq = 0,
         settled_at = null, apart = null, owner = null, expires_at = '-infinity', claimed_on = null, epoch = l.epoch + 1000000;
  -- They tell times by the old numbers.
  delete from {schema}.settlement;
  delete from {schema}.tick;
  insert into {schema}.log_server as s (system_identifier, timeline)
    select c.system_identifier, {schema}.timeline() from pg_control_system() c
    on conflict (one) do update
      set system_identifier = excluded.system_identifier, timeline = excluded.timeline, since = clock_timestamp();
  insert into {schema}.audit (actor, action, target, reason)
    select actor, 'route.rebase', string_agg(r.name, ', ' order by r.name), reason from {schema}.route r;
  return query
    select r.name, count(*) filter (where r.name = any (b.done)), count(*) filter (where r.name <> all (b.done))
      from {schema}.route r left join sealane_rebase b on true group by r.name order by r.name;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights.
revoke execute on function {schema}.timeline, {schema}.server_start, {schema}.check_server, {schema}.note_timeline,
  {schema}.add_route_from, {schema}.remove_route, {schema}.done_on, {schema}.rebase_log from public;

do $$
begin
  if not {create_roles} then
    return;
  end if;
  grant select on {schema}.log_server to {relay}, {operator};
  grant update (claimed_on) on {schema}.lane_state to {relay};
  grant execute on function {schema}.server_start, {schema}.check_server to {relay}, {operator};
  grant execute on function {schema}.note_timeline to {relay};
  grant execute on function {schema}.add_route_from, {schema}.remove_route, {schema}.done_on, {schema}.rebase_log
    to {operator};
end
$$;
