-- Events whose time has not come, and what operators decide about parked ones. Placeholders as in 0001.

-- ---------------------------------------------------------------------------------------------------------------------
-- An event with available_at in the future is not parked: it has not failed and holds back nothing. The relay's position
-- moves past it, and it is kept here until its time has come. There may be any number of them: a relay reads what is due
-- through the index on the time, and nothing else. appended_at finds the partition of the log.
create table {schema}.delayed (
  route        text        not null references {schema}.route (name) on delete cascade,
  seq          bigint      not null,
  due_at       timestamptz not null,
  appended_at  timestamptz not null,
  xid          xid8        not null,
  event_id     uuid        not null,
  payload_size integer     not null,
  lane         smallint    not null,
  tenant       text        not null,
  primary key (route, seq)
);
create index delayed_due on {schema}.delayed (route, due_at, seq);

-- Until now they were parked, and their key waited with them.
with moved as (
  delete from {schema}.parked p
   where p.state = 'WAITING' and p.waits_for is null and p.next_attempt_at is not null and p.error_code is null
     and exists (select from {schema}.outbox o
                  where o.xid = p.xid and o.lane = p.lane and o.seq = p.seq and o.available_at is not null)
  returning p.route, p.seq, p.next_attempt_at, p.xid, p.event_id, p.lane, p.tenant
)
insert into {schema}.delayed (route, seq, due_at, appended_at, xid, event_id, payload_size, lane, tenant)
  select m.route, m.seq, m.next_attempt_at, o.appended_at, m.xid, m.event_id, o.payload_size, m.lane, m.tenant
    from moved m join {schema}.outbox o on o.xid = m.xid and o.lane = m.lane and o.seq = m.seq;

-- A delayed event is PENDING, and leaves at next_attempt_at. Every other column stays as it is.
do $$
declare
  columns text;
begin
  select string_agg(case a.attname
           when 'status' then 'case when d.seq is null then v.status else ''PENDING'' end as status'
           when 'attempts' then 'case when d.seq is null then v.attempts else 0 end as attempts'
           when 'next_attempt_at' then 'coalesce(d.due_at, v.next_attempt_at) as next_attempt_at'
           when 'published_at' then 'case when d.seq is null then v.published_at end as published_at'
           else 'v.' || quote_ident(a.attname) end, ', ' order by a.attnum)
    into columns
    from pg_attribute a
   where a.attrelid = '{schema}.outbox_status'::regclass and a.attnum > 0 and not a.attisdropped;
  execute 'create or replace view {schema}.outbox_status as select ' || columns || ' from ('
    || rtrim(pg_get_viewdef('{schema}.outbox_status'::regclass), E'; \n')
    || ') v left join {schema}.delayed d on d.route = v.route and d.seq = v.seq';
end
$$;

-- Where the log has the row, and how large it is: found in its partition alone.
alter table {schema}.parked
  add column appended_at  timestamptz,
  add column payload_size integer;
update {schema}.parked p set appended_at = o.appended_at, payload_size = o.payload_size
  from {schema}.outbox o where o.xid = p.xid and o.lane = p.lane and o.seq = p.seq;

-- A delayed event can be given up: it becomes a parked one, as operator_dead() then finds it. It is looked for without an
-- index, which every delayed event would pay for. For functions with the owner's rights; no role may call this by itself.
create function {schema}.park_delayed(event_id uuid, route text) returns void language sql volatile as $$
  with moved as (
    delete from {schema}.delayed d
     where d.event_id = park_delayed.event_id and (park_delayed.route is null or d.route = park_delayed.route)
    returning d.*
  )
  insert into {schema}.parked (route, lane, seq, xid, event_id, unit, key, tenant, topic, state, appended_at, payload_size)
    select m.route, m.lane, m.seq, m.xid, m.event_id, o.topic || '/' || o.key, o.key, m.tenant, o.topic, 'WAITING',
           m.appended_at, m.payload_size
      from moved m
      join {schema}.outbox o on o.appended_at = m.appended_at and o.xid = m.xid and o.lane = m.lane and o.seq = m.seq
    on conflict do nothing
$$;

-- As in 0007, and a delayed event can be discarded by its id.
create or replace function {schema}.operator_dead(
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
  if operator_dead.action = 'discard' and operator_dead.event_id is not null
     and not exists (select from {schema}.parked p where p.event_id = operator_dead.event_id
                        and (operator_dead.route is null or p.route = operator_dead.route)) then
    perform {schema}.park_delayed(operator_dead.event_id, operator_dead.route);
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

-- As in 0006, and delayed events keep their place in the log.
create or replace function {schema}.rebase_log(actor text, reason text)
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
  update {schema}.delayed d set xid = g.number::text::xid8
    from sealane_rebase b join sealane_rebase_group g on g.done = b.done
   where b.seq = d.seq and b.lane = d.lane and b.xid = d.xid;
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
-- Relays know in memory which order keys are held back and when each is tried again. What an operator changes is told to
-- them here: one row for each order key, which the relay of that lane takes away. Without it every relay would have to read
-- all that is parked, again and again.
create table {schema}.parked_change (
  id    bigint   primary key generated always as identity,
  route text     not null references {schema}.route (name) on delete cascade,
  lane  smallint not null,
  unit  text     not null
);

create function {schema}.note_parked_change() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into {schema}.parked_change (route, lane, unit) values (old.route, old.lane, old.unit);
  if new.unit <> old.unit then
    insert into {schema}.parked_change (route, lane, unit) values (new.route, new.lane, new.unit);
  end if;
  return null;
end
$$;
-- What a relay itself writes only makes an event fail later, or die; so this is somebody else.
create trigger parked_changed after update on {schema}.parked for each row
  when ((old.state = 'DEAD' and new.state <> 'DEAD') or (old.state <> 'DISCARDED' and new.state = 'DISCARDED')
        or (old.state = 'DEAD' and old.skipped <> new.skipped) or old.unit <> new.unit
        or new.attempts < old.attempts or new.next_attempt_at < old.next_attempt_at)
  execute function {schema}.note_parked_change();

-- What was given up or skipped, and what waits for a topic, is never read on the way to what holds back its key.
drop index {schema}.parked_unit;
drop index {schema}.parked_failed;
create index parked_active on {schema}.parked (route, unit, seq)
  where state <> 'DISCARDED' and not skipped and waits_for is null;

-- ---------------------------------------------------------------------------------------------------------------------
revoke execute on function {schema}.park_delayed, {schema}.note_parked_change from public;

do $$
begin
  if not {create_roles} then
    return;
  end if;
  grant select, insert, delete on {schema}.delayed to {relay};
  grant select on {schema}.delayed to {operator};
  grant select, update, delete on {schema}.parked_change to {relay};
end
$$;
