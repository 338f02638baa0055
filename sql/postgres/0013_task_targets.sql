-- Targets of tasks: claims per target, pause and resume by an operator, and targets that dispatchers found to be down.
-- Placeholders as in 0004 and 0007.

-- A target that an operator has paused: none of its tasks is claimed until the row is gone.
create table {schema}.task_pause (
  target    text        primary key collate "C",
  paused_at timestamptz not null default clock_timestamp(),
  actor     text        not null,
  reason    text        not null
);

-- A target that a dispatcher found to be down; a row per dispatcher, gone when the target is back. For operators only:
-- what a dispatcher does follows from its own memory. Written when a target goes down, after a probe, and when it is back.
create table {schema}.task_outage (
  target        text        not null collate "C",
  owner         text        not null collate "C",
  since         timestamptz not null default clock_timestamp(),
  next_probe_at timestamptz not null,
  failures      integer     not null,
  code          text,
  message       text,
  primary key (target, owner)
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Carrying out.

-- Takes what is due, longest due first, of each target not more than its quota, and begins an attempt for each. Nothing
-- is taken of a target that is paused. One descent into task_due per target, and one index entry per task that is taken:
-- what waits for its time, is over or is dead is not read. A quota is no constant to the planner, which therefore expects
-- a tenth of all tasks: joins other than by index, and compiling the plan, would be far too much for the few there are.
create function {schema}.task_claim(owner text, targets text[], quotas bigint[], claim_max bigint, lease_ms bigint)
  returns table (
    id uuid, claim bigint, attempt integer, tries integer, in_doubt boolean, created_at bigint, request_hash text, tenant text,
    target text, operation text, idempotency_key text, order_key text, content_type text, headers json,
    correlation_id text, causation_id text, traceparent text, result_topic text, result_key text, not_before bigint,
    request bytea)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
  set jit = off as $$
declare
  at   constant timestamptz := clock_timestamp();
  why  constant text := 'the lease ended and nobody had said how the attempt went';
  free constant text[] := array(select u.target from unnest(task_claim.targets) as u(target)
                                 where not exists (select from {schema}.task_pause p where p.target = u.target));
begin
  if cardinality(free) = 0 then
    return;
  end if;
  perform {schema}.task_pass(free);
  return query
    with chosen as materialized (
      -- The state is the one after the lock was had, which may be newer than what this statement sees.
      select c.place, c.due, c.state, c.claims
        from (select q.target, max(q.quota) as quota
                from unnest(task_claim.targets, task_claim.quotas) as q(target, quota)
               where q.target = any (free) group by q.target) u
       cross join lateral (
             select t.place, coalesce(t.claimed_until, t.due_at) as due, t.state, t.claims
               from {schema}.task t
              where t.target = u.target and not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
                and coalesce(t.claimed_until, t.due_at) <= at
              order by coalesce(t.claimed_until, t.due_at), t.place
              limit least(u.quota, claim_max) for no key update skip locked) c
       order by c.due, c.place limit claim_max
    ), interrupted as (
      update {schema}.task_attempt a
         set ended_at = at, verdict = 'unknown', code = 'interrupted', message = why
        from chosen c
       where c.state = 'SENDING' and a.task = c.place and a.claim = c.claims and a.ended_at is null
    ), claimed as (
      update {schema}.task t
         set state = 'SENDING', claims = t.claims + 1, attempts = t.attempts + 1, tries = t.tries + 1,
             in_doubt = t.in_doubt or c.state = 'SENDING', owner = task_claim.owner,
             claimed_until = at + lease_ms * interval '1 millisecond',
             status = case when c.state = 'SENDING' then null else t.status end,
             code = case when c.state = 'SENDING' then 'interrupted' else t.code end,
             message = case when c.state = 'SENDING' then why else t.message end
        from chosen c where t.place = c.place
      returning t.*, c.due
    ), begun as (
      insert into {schema}.task_attempt (task, claim, number, owner, started_at)
      select c.place, c.claims, c.attempts, task_claim.owner, at from claimed c
    )
    select c.id, c.claims, c.attempts, c.tries, c.in_doubt, (extract(epoch from c.created_at) * 1000000)::bigint, c.request_hash,
           c.tenant, c.target, c.operation, c.idempotency_key, c.order_key, c.content_type, c.headers, c.correlation_id,
           c.causation_id, c.traceparent, c.result_topic, c.result_key,
           (extract(epoch from c.not_before) * 1000000)::bigint, c.request
      from claimed c order by c.due, c.place;
end
$$;
drop function {schema}.task_claim(text, text[], bigint, bigint);

-- What the tasks of each target wait for: milliseconds until the first is due, rounded up (null: none waits), and
-- whether the target is paused. Reads one index entry per target and writes nothing.
create function {schema}.task_outlook(targets text[]) returns table (due_in_ms bigint, paused boolean)
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return query
    -- greatest() passes over nulls.
    select case when d.due is not null
                then greatest(ceil(extract(epoch from d.due - clock_timestamp()) * 1000), 0)::bigint end,
           exists (select from {schema}.task_pause p where p.target = u.target)
      from unnest(task_outlook.targets) with ordinality as u(target, place)
      left join lateral (
           select coalesce(t.claimed_until, t.due_at) as due from {schema}.task t
            where t.target = u.target and not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
            order by coalesce(t.claimed_until, t.due_at), t.place limit 1) d on true
     order by u.place;
end
$$;
drop function {schema}.task_next_due(text[]);

-- As in 0004, by task_open alone: where most tasks wait, the planner would rather read the table, and look for the oldest
-- by place, behind all that are over or dead.
create or replace function {schema}.task_count(count_max bigint)
  returns table (pending bigint, sending bigint, failed bigint, dead bigint, oldest_waiting_at bigint)
  language sql stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select (select count(*) from (select from {schema}.task t where t.state = 'PENDING' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'SENDING' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'FAILED' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'DEAD' limit count_max) w),
         (select (extract(epoch from min(o.created_at)) * 1000000)::bigint
            from (values ('PENDING'), ('FAILED')) as s(state)
           cross join lateral (select t.state, t.created_at from {schema}.task t
                                where (t.state, t.place) >= (s.state, 0) and t.state not in ('SUCCEEDED', 'DISCARDED')
                                order by t.state, t.place limit 1) o
           where o.state = s.state);
$$;

-- As in 0004, and counts: whether the policy counts this try; false: the target was down, which is not the task's fault.
create function {schema}.task_finish(
  id uuid, claim bigint, state text, due_in_ms bigint, counts boolean, verdict text, status integer, code text,
  message text, response bytea, response_cut boolean, response_type text, retry_after_ms bigint, took_us bigint)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.task_finish(id, claim, state, due_in_ms, verdict, status, code, message, response, response_cut,
                               response_type, retry_after_ms, took_us);
  if not counts then
    -- The row is locked, and this claim is the one that counts: the call above would have failed otherwise.
    update {schema}.task t set tries = greatest(t.tries - 1, 0) where t.id = task_finish.id;
  end if;
end
$$;

-- Tells operators that a dispatcher finds a target down; next_probe_ms null: not any more. kept_ms: what a dispatcher
-- said whose probe is overdue by this is forgotten; it has died.
create function {schema}.task_report_outage(
  owner text, target text, next_probe_ms bigint, failures integer, code text, message text, kept_ms bigint)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from {schema}.task_outage o
   where o.target = task_report_outage.target
     and (o.next_probe_at < clock_timestamp() - kept_ms * interval '1 millisecond'
          or (o.owner = task_report_outage.owner and next_probe_ms is null));
  if next_probe_ms is not null then
    insert into {schema}.task_outage as o (target, owner, next_probe_at, failures, code, message)
    values (task_report_outage.target, task_report_outage.owner,
            clock_timestamp() + next_probe_ms * interval '1 millisecond', task_report_outage.failures,
            task_report_outage.code, task_report_outage.message)
    on conflict on constraint task_outage_pkey do update
      set next_probe_at = excluded.next_probe_at, failures = excluded.failures, code = excluded.code,
          message = excluded.message;
  end if;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Operators.

-- Every target that has tasks which are not over, is paused or is down. One descent into task_due per target for their
-- names; due tasks are counted up to count_max. A target with nothing but dead tasks is not shown.
create function {schema}.task_targets(count_max bigint, kept_ms bigint)
  returns table (
    target text, paused_at bigint, paused_by text, pause_reason text, due bigint, oldest_due_at bigint, next_due_at bigint,
    in_flight bigint, dispatchers_down bigint, down_since bigint, next_probe_at bigint,
    probing boolean, code text, message text)
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  -- Not clock_timestamp() itself, which no index condition can have.
  at constant timestamptz := clock_timestamp();
begin
  return query
    with recursive waiting (target) as (
      select min(t.target) from {schema}.task t where not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
      union all
      select (select min(t.target) from {schema}.task t
               where not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED') and t.target > w.target)
        from waiting w where w.target is not null
    ), down as (
      select o.target, count(*) as dispatchers, min(o.since) as since, min(o.next_probe_at) as next_probe_at,
             (array_agg(o.code order by o.next_probe_at desc))[1] as code,
             (array_agg(o.message order by o.next_probe_at desc))[1] as message
        from {schema}.task_outage o
       where o.next_probe_at >= at - kept_ms * interval '1 millisecond'
       group by o.target
    ), flying as (
      -- By task_open: few, whatever else waits.
      select t.target, count(*) as attempts from {schema}.task t where t.state = 'SENDING' group by t.target
    ), known as (
      select w.target from waiting w where w.target is not null
      union select p.target from {schema}.task_pause p
      union select d.target from down d
    )
    select k.target, (extract(epoch from p.paused_at) * 1000000)::bigint, p.actor, p.reason,
           (select count(*) from (select from {schema}.task t
                                   where t.target = k.target and not t.waits
                                     and t.state in ('PENDING', 'SENDING', 'FAILED')
                                     and coalesce(t.claimed_until, t.due_at) <= at
                                   limit count_max) c),
           case when f.due <= at then (extract(epoch from f.due) * 1000000)::bigint end,
           case when f.due > at then (extract(epoch from f.due) * 1000000)::bigint end,
           coalesce(i.attempts, 0),
           coalesce(d.dispatchers, 0), (extract(epoch from d.since) * 1000000)::bigint,
           (extract(epoch from d.next_probe_at) * 1000000)::bigint, coalesce(d.next_probe_at <= at, false),
           d.code, d.message
      from known k
      left join {schema}.task_pause p on p.target = k.target
      left join down d on d.target = k.target
      left join flying i on i.target = k.target
      left join lateral (
           select coalesce(t.claimed_until, t.due_at) as due from {schema}.task t
            where t.target = k.target and not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
            order by coalesce(t.claimed_until, t.due_at), t.place limit 1) f on true
     order by k.target;
end
$$;

-- Pauses a target. Returns paused; already (it was, and stays as it is); or unknown: no task was ever enqueued for it, and
-- the caller does not know it either (is_known).
create function {schema}.operator_task_pause(target text, is_known boolean, actor text, reason text) returns text
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if coalesce(actor, '') = '' or coalesce(reason, '') = '' then
    raise exception 'actor and reason are required' using errcode = 'invalid_parameter_value';
  end if;
  -- The last resort reads tasks one after the other. A name that is misspelt may wait for that.
  if not is_known and not exists (select from {schema}.task_pause p where p.target = operator_task_pause.target)
     and not exists (select from {schema}.task t where t.target = operator_task_pause.target) then
    return 'unknown';
  end if;
  insert into {schema}.task_pause (target, actor, reason)
  values (operator_task_pause.target, operator_task_pause.actor, operator_task_pause.reason)
  on conflict do nothing;
  if not found then
    return 'already';
  end if;
  perform {schema}.note_audit('task.pause', target, actor, reason);
  return 'paused';
end
$$;

-- False: it is not paused.
create function {schema}.operator_task_resume(target text, actor text, reason text) returns boolean
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from {schema}.task_pause p where p.target = operator_task_resume.target;
  if not found then
    return false;
  end if;
  perform {schema}.note_audit('task.resume', target, actor, reason);
  return true;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- To whom releasing is granted, claiming is, too; to whom retrying is granted, pausing is: the roles of 0004 and 0007, and
-- roles that the owner granted them by hand. A function that is dropped takes its grants with it.
do $$
declare
  name text;
  role text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and p.proname in ('task_claim', 'task_outlook', 'task_finish', 'task_report_outage', 'task_targets',
                                   'operator_task_pause', 'operator_task_resume') loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'task_release'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    for name in select p.oid::regprocedure::text from pg_proc p
                 where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                   and p.proname in ('task_claim', 'task_outlook', 'task_finish', 'task_report_outage') loop
      execute format('grant execute on function %s to %I', name, role);
    end loop;
  end loop;
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'operator_task_retry'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    for name in select p.oid::regprocedure::text from pg_proc p
                 where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                   and p.proname in ('task_targets', 'operator_task_pause', 'operator_task_resume') loop
      execute format('grant execute on function %s to %I', name, role);
    end loop;
    execute format('grant select on {schema}.task_pause, {schema}.task_outage to %I', role);
  end loop;
end
$$;
