-- Where events went that an operator sent to another topic (0008) is shown for a week, and for as long as they are parked.
-- Placeholders as in 0007.
create index rerouted_at on {schema}.rerouted (route, at);

-- Forgets at most batch_max of them, oldest first.
create function {schema}.forget_rerouted(route_name text, batch_max integer) returns bigint
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  with old as (
    delete from {schema}.rerouted where (route, seq) in (
      select r.route, r.seq from {schema}.rerouted r
       where r.route = route_name and r.at < clock_timestamp() - interval '7 days'
         and not exists (select from {schema}.parked p where p.route = r.route and p.seq = r.seq)
       order by r.at limit batch_max for update skip locked)
    returning 1
  )
  select count(*) from old
$$;
revoke execute on function {schema}.forget_rerouted from public;

-- To whom forget_expired() is granted, this is, too: the roles for relays and operators, and roles that
-- the owner granted it by hand.
do $$
declare
  role text;
begin
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'forget_expired'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    execute format('grant execute on function {schema}.forget_rerouted to %I', role);
  end loop;
end
$$;
