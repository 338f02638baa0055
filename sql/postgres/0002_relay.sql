-- What the relay needs: membership, positions that can be read back in bounded pieces, tenants that run apart, a record
-- of what operators did. Placeholders as in 0001.

-- ---------------------------------------------------------------------------------------------------------------------
-- The log's indexes. A window is a stretch of transaction numbers, so those come first: one descent finds it, the rows
-- lie in the heap in nearly the same order, and the lane is checked without leaving the index. With the lane in front a
-- relay of 64 lanes made 64 descents per partition for every window.
drop index {schema}.outbox_lane_xid;
create index outbox_xid_lane on {schema}.outbox (xid, lane);
-- A window with millions of rows (after an outage, or of one huge transaction) is read in stretches of seq. Block ranges
-- find them: rows lie in the heap almost in the order of seq, and where they do not, a range is merely read in vain.
drop index {schema}.outbox_appended_at;
create index outbox_time_seq on {schema}.outbox using brin (appended_at, seq) with (pages_per_range = 64);

-- A transaction gets its number before the first event draws its seq. So a row that a snapshot does not know yet, and
-- whose transaction had no number when that snapshot was taken, has a seq above everything drawn before the snapshot:
-- the lower bound of a window.
create function {schema}.take_xid() returns trigger language plpgsql as $$
begin
  perform pg_current_xact_id();
  return null;
end
$$;
create trigger outbox_takes_xid_first before insert on {schema}.outbox
  for each statement execute function {schema}.take_xid();

-- Brings the block ranges up to date; what is not summarised is read by every stretch. Returns the number of ranges.
create function {schema}.summarize_log() returns integer
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  part   regclass;
  ranges integer := 0;
begin
  for part in select i.inhrelid::regclass from pg_inherits i
               where i.inhparent = '{schema}.outbox_time_seq'::regclass loop
    ranges := ranges + brin_summarize_new_values(part);
  end loop;
  return ranges;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Who is alive. A relay that stopped beating is not counted once its time is over.
create table {schema}.relay_member (
  route      text        not null references {schema}.route (name) on delete cascade,
  owner      text        not null,
  started_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (route, owner)
) with (fillfactor = 50);

alter table {schema}.route add column paused boolean not null default false;

-- A position is a snapshot with the sequence numbers around it: every row that is not visible in it and whose
-- transaction was not open then has a seq above *_low; every row that is visible has one up to *_high.
-- apart: tenants with a position of their own, [{tenants, cursor, cursor_low, cursor_high, window, ..., seq}].
alter table {schema}.lane_state
  add column cursor_low  bigint not null default 0,
  add column cursor_high bigint not null default 0,
  add column window_low  bigint not null default 0,
  add column window_high bigint not null default 0,
  add column apart       jsonb;

-- Lanes mostly move together, so one row tells for all of them when they got where. tenants: those of a flow apart; null:
-- everybody but except_tenants.
drop view {schema}.outbox_status;
drop table {schema}.settlement;
create table {schema}.settlement (
  route           text        not null references {schema}.route (name) on delete cascade,
  at              timestamptz not null default clock_timestamp(),
  lanes           smallint[]  not null,
  tenants         text[],
  except_tenants  text[]      not null default '{}',
  cursor_snapshot pg_snapshot not null,
  window_snapshot pg_snapshot,
  window_seq      bigint      not null default 0
);
create index settlement_route_at on {schema}.settlement (route, at);

alter table {schema}.parked
  add column unit    text,
  add column xid     xid8,
  add column tenant  text not null default '',
  add column topic   text not null default '',
  add column skipped boolean not null default false;
update {schema}.parked set unit = key;
alter table {schema}.parked alter column unit set not null;
create index parked_unit on {schema}.parked (route, unit, seq);

create table {schema}.tenant_rule (
  route      text    not null references {schema}.route (name) on delete cascade,
  tenant     text    not null,
  paused     boolean not null default false,
  rate_max   bigint  not null default 0 check (rate_max >= 0),
  weight     integer not null default 1 check (weight between 1 and 1000),
  primary key (route, tenant)
);

-- Every change a person made. Written in the transaction of the change.
create table {schema}.audit (
  id     bigint      primary key generated always as identity,
  at     timestamptz not null default clock_timestamp(),
  actor  text        not null check (actor <> ''),
  action text        not null,
  target text        not null,
  reason text        not null check (reason <> '')
);

-- The life of every event on every route, for anybody with psql. Payloads are not in it.
create view {schema}.outbox_status as
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
              (f ->> 'seq')::bigint as window_seq
         from jsonb_array_elements(l.apart) as f where f -> 'tenants' ? o.tenant limit 1) f on l.apart is not null
 cross join lateral (
       select coalesce(f.cursor_snapshot, l.cursor_snapshot) as cursor_snapshot,
              case when f.cursor_snapshot is null then l.window_snapshot else f.window_snapshot end as window_snapshot,
              coalesce(f.window_seq, l.window_seq) as window_seq) c
 cross join lateral (
       select pg_visible_in_snapshot(o.xid, c.cursor_snapshot)
              or (o.seq <= c.window_seq and coalesce(pg_visible_in_snapshot(o.xid, c.window_snapshot), false)) as done) d
  left join {schema}.parked p on p.route = r.name and p.seq = o.seq;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: the relay writes progress, the operator decides about what was set aside and about tenants.
revoke execute on function {schema}.summarize_log, {schema}.take_xid from public;

do $$
begin
  if not {create_roles} then
    return;
  end if;
  grant select on sequence {schema}.outbox_seq_seq to {relay}, {operator};
  grant select, insert, update, delete on {schema}.relay_member to {relay};
  grant select on {schema}.settlement, {schema}.outbox_status, {schema}.tenant_rule to {relay};
  grant insert, delete on {schema}.settlement to {relay};
  grant update (cursor_low, cursor_high, window_low, window_high, apart) on {schema}.lane_state to {relay};
  grant execute on function {schema}.summarize_log, {schema}.add_route to {relay};

  grant select on {schema}.settlement, {schema}.outbox_status, {schema}.tenant_rule, {schema}.relay_member,
    {schema}.audit to {operator};
  grant update (state, attempts, next_attempt_at, skipped) on {schema}.parked to {operator};
  grant update (paused) on {schema}.route to {operator};
  grant insert, update, delete on {schema}.tenant_rule to {operator};
  grant insert on {schema}.audit to {operator};
end
$$;
