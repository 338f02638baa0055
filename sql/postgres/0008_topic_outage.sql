-- Events that wait for a topic, topics that operators changed, and what a route was set up with. Placeholders as in 0001.

-- ---------------------------------------------------------------------------------------------------------------------
-- A topic that the broker does not have is an outage of that topic: its events are WAITING here with its name in
-- waits_for. They have not failed, hold back no other event, and do not count towards the limit of parked events.
-- destination: the topic that an operator chose instead of the event's own.
alter table {schema}.parked
  add column waits_for   text,
  add column destination text;
create index parked_waiting on {schema}.parked (route, waits_for, seq, lane)
  where waits_for is not null and state = 'WAITING';
-- What failed, and what waits behind it, is found without reading past the rows that wait for a topic.
create index parked_failed on {schema}.parked (route, lane, unit, seq) where waits_for is null;

-- Order is kept within a topic, so the order key of a route that is ordered by key begins with the topic. Rows of other
-- orders stay as they are; such routes have rows whose order key is not the event's key.
update {schema}.parked p
   set unit = coalesce(nullif(p.topic, ''), (select o.topic from {schema}.outbox o where o.seq = p.seq limit 1), '')
              || '/' || p.key
 where p.route in (select route from {schema}.parked group by route having bool_and(unit = key) filter (where state <> 'DISCARDED'));

-- Where events went that an operator sent to another topic than their own.
create table {schema}.rerouted (
  route      text        not null references {schema}.route (name) on delete cascade,
  seq        bigint      not null,
  event_id   uuid        not null,
  topic_from text        not null,
  topic      text        not null,
  at         timestamptz not null default clock_timestamp(),
  primary key (route, seq)
);

do $$
begin
  execute 'create or replace view {schema}.outbox_status as select v.*,'
    || ' (select r.topic from {schema}.rerouted r where r.route = v.route and r.seq = v.seq) as rerouted_to from ('
    || rtrim(pg_get_viewdef('{schema}.outbox_status'::regclass), E'; \n') || ') v';
end
$$;

-- The parked rows that an operator means who gives a topic another name: those that wait for it, or the keys with a dead
-- event in it, whole. A null route means every one.
create function {schema}.rows_to_reroute(route text, topic text, waiting boolean, row_max bigint)
  returns table (found_route text, found_seq bigint) language plpgsql stable as $$
begin
  if waiting then
    return query
      select p.route, p.seq from {schema}.parked p
       where (rows_to_reroute.route is null or p.route = rows_to_reroute.route) and p.waits_for = rows_to_reroute.topic
         and p.state = 'WAITING'
       order by p.seq, p.route limit row_max;
    return;
  end if;
  return query
    select p.route, p.seq from {schema}.parked p
      join (select d.route, d.unit, min(d.seq) from {schema}.parked d
             where (rows_to_reroute.route is null or d.route = rows_to_reroute.route)
               and d.topic = rows_to_reroute.topic and d.state = 'DEAD'
             group by d.route, d.unit order by 3 limit row_max) u on p.route = u.route and p.unit = u.unit
     where p.topic = rows_to_reroute.topic and p.state <> 'DISCARDED' and p.waits_for is null
     order by p.seq, p.route;
end
$$;

create function {schema}.operator_reroute(
  route text, topic text, destination text, waiting boolean, row_max bigint, actor text, reason text)
  returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed_rows bigint;
begin
  if coalesce(destination !~ '^[A-Za-z0-9._-]+$' or destination in ('.', '..') or octet_length(destination) > 249, true) then
    raise exception '"%" cannot be a topic', destination using errcode = 'invalid_parameter_value';
  end if;
  with chosen as (
    select p.route, p.seq from {schema}.parked p
      join {schema}.rows_to_reroute(operator_reroute.route, operator_reroute.topic, waiting, row_max) r
        on r.found_route = p.route and r.found_seq = p.seq
     order by p.seq, p.route for update of p
  ), changed as (
    update {schema}.parked p
       set destination = operator_reroute.destination, error_code = null, error_message = null,
           unit = case when p.unit = operator_reroute.topic || '/' || p.key
                       then operator_reroute.destination || '/' || p.key else p.unit end,
           waits_for = case when waiting then operator_reroute.destination end,
           state = case when p.state = 'DEAD' then 'FAILED' else p.state end,
           skipped = waiting and p.skipped,
           attempts = case when waiting then p.attempts else 0 end,
           next_attempt_at = case when waiting or p.state = 'WAITING' then p.next_attempt_at else clock_timestamp() end
      from chosen c where p.route = c.route and p.seq = c.seq
    returning p.route, p.seq, p.event_id, p.topic
  ), kept as (
    insert into {schema}.rerouted as r (route, seq, event_id, topic_from, topic)
      select c.route, c.seq, c.event_id, c.topic, operator_reroute.destination from changed c
      on conflict on constraint rerouted_pkey do update set topic = excluded.topic, at = clock_timestamp()
  ), noted as (
    select {schema}.note_audit(case when waiting then 'messages.reroute' else 'dead.reroute' end,
             format('%s events of topic %s to %s on %s', count(*), operator_reroute.topic, operator_reroute.destination,
                    c.route), operator_reroute.actor, operator_reroute.reason) as id
      from changed c group by c.route
  )
  select (select count(*) from changed) + 0 * (select count(id) from noted) into changed_rows;
  return changed_rows;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- The order that the parked rows of a route were written with; null until a relay has run it.
alter table {schema}.route
  add column order_mode text check (order_mode in ('key', 'tenant', 'global', 'none'));

-- Records the order of a route, and returns null. Another order than the recorded one is refused while it could invert
-- events: returns what is recorded, how many rows are parked, and how many other relays run the route.
create function {schema}.keep_order(route_name text, mode text, relay text)
  returns table (recorded text, parked bigint, relays bigint)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  select r.order_mode into recorded from {schema}.route r where r.name = route_name for no key update;
  if recorded is not distinct from mode then
    return;
  end if;
  if recorded is not null then
    select count(*) into parked from (select from {schema}.parked p
      where p.route = route_name and p.state <> 'DISCARDED' and p.waits_for is null limit 100000) p;
    select count(*) into relays from {schema}.relay_member m
     where m.route = route_name and m.owner <> relay and m.expires_at > clock_timestamp();
    if parked > 0 or relays > 0 then
      return next;
      return;
    end if;
  end if;
  update {schema}.route r set order_mode = mode where r.name = route_name;
end
$$;

-- The number of lanes is part of every row of the log and of every function that appends.
create function {schema}.refuse_lanes() returns trigger language plpgsql as $$
begin
  raise exception 'the number of lanes was fixed when the outbox was installed and cannot be changed'
    using errcode = 'restrict_violation', constraint = 'sealane_lanes_fixed',
          hint = 'install a new outbox in another schema to have another number of lanes';
end
$$;
create trigger setting_keeps_lanes before update on {schema}.setting
  for each row when (old.name = 'lanes' and (new.name <> 'lanes' or new.value <> old.value))
  execute function {schema}.refuse_lanes();
create trigger setting_keeps_lanes_row before delete on {schema}.setting
  for each row when (old.name = 'lanes') execute function {schema}.refuse_lanes();

-- ---------------------------------------------------------------------------------------------------------------------
revoke execute on function {schema}.keep_order, {schema}.refuse_lanes, {schema}.rows_to_reroute, {schema}.operator_reroute
  from public;

do $$
begin
  if not {create_roles} then
    return;
  end if;
  grant execute on function {schema}.keep_order to {relay};
  grant select on {schema}.rerouted to {relay}, {operator};
  grant execute on function {schema}.rows_to_reroute, {schema}.operator_reroute to {operator};
end
$$;
