-- What an operator decides about positions of consumers (0009), and about events that are too old to be told from a
-- repetition. Placeholders as in 0007; as there, every function takes the actor and the reason last.

-- As in 0007, and may_apply_twice: with an event id, one that its consumer skipped as too_old becomes due, too. It may have
-- been applied before, so a filter never takes it.
drop function {schema}.operator_inbox_retry(text, uuid, text, text, text, text, bigint, text, text);
create function {schema}.operator_inbox_retry(
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

-- Where a partition, or all of a topic that the consumer knows, go on; returns how many. The member that has one is fenced
-- by the epoch. clean: this is no death of a member.
create function {schema}.operator_inbox_resume(
  consumer text, topic text, partition integer, resume_from text, actor text, reason text)
  returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  changed_rows bigint;
begin
  if coalesce(resume_from !~ '^(beginning|now|group|[0-9]{1,18}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z)$', true) then
    raise exception '"%" is no place to resume from', resume_from
      using errcode = 'invalid_parameter_value', hint = 'beginning, now, group, an offset, or a time like 2026-01-31T00:00:00Z';
  end if;
  -- In the order in which members lock them.
  perform from {schema}.inbox_progress p
    where p.consumer = operator_inbox_resume.consumer and p.topic = operator_inbox_resume.topic
      and (operator_inbox_resume.partition is null or p.partition = operator_inbox_resume.partition)
    order by p.topic, p.partition for update;
  with changed as (
    update {schema}.inbox_progress p
       set resume_from = operator_inbox_resume.resume_from, stop_code = null, stop_message = null, stopped_at = null,
           epoch = p.epoch + 1, clean = true
     where p.consumer = operator_inbox_resume.consumer and p.topic = operator_inbox_resume.topic
       and (operator_inbox_resume.partition is null or p.partition = operator_inbox_resume.partition)
    returning p.topic, p.partition
  )
  select count({schema}.note_audit('inbox.resume',
                 format('%s/%s of %s from %s', c.topic, c.partition, operator_inbox_resume.consumer,
                        operator_inbox_resume.resume_from),
                 operator_inbox_resume.actor, operator_inbox_resume.reason))
    into changed_rows from changed c;
  return changed_rows;
end
$$;

-- Takes a consumer away, at most row_max rows per call, until `more` is false; the last call takes its name and its grants,
-- and writes the audit record. The first of several writes one of its own, so that no row goes without a record. No row: there is no such consumer. attached_topic: refused, because a member has that
-- partition or ended without releasing it.
create function {schema}.operator_inbox_remove(
  consumer text, although_attached boolean, row_max bigint, actor text, reason text)
  returns table (rows_gone bigint, more boolean, attached_topic text, attached_partition integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  part     record;
  one_gone bigint;
begin
  -- Before anything is removed: calls in the middle write no record, which would refuse these.
  if coalesce(actor, '') = '' or coalesce(reason, '') = '' then
    raise exception 'actor and reason are required' using errcode = 'invalid_parameter_value';
  end if;
  rows_gone := 0;
  more := true;
  -- A member that attaches meanwhile waits for this, and finds no consumer afterwards.
  perform from {schema}.inbox_consumer c where c.name = operator_inbox_remove.consumer for update;
  if not found then
    return;
  end if;
  if not although_attached then
    select p.topic, p.partition into attached_topic, attached_partition
      from {schema}.inbox_progress p
     where p.consumer = operator_inbox_remove.consumer and not p.clean order by p.topic collate "C", p.partition limit 1;
    if found then
      return next;
      return;
    end if;
  end if;
  -- A consumer that is started before the last call must not apply again what it has no receipt of any more.
  update {schema}.inbox_consumer c set forgotten_before = clock_timestamp()
   where c.name = operator_inbox_remove.consumer and c.mode = 'record'
     and coalesce(c.forgotten_before < clock_timestamp(), true);
  -- The positions last, so that such a consumer does not begin anew either.
  for part in
    select i.inhrelid::regclass::text as name, 0 as place from pg_inherits i where i.inhparent = '{schema}.inbox'::regclass
    union all
    select t.name::regclass::text, t.place::integer
      from unnest(array['{schema}.inbox_version', '{schema}.inbox_recent', '{schema}.inbox_parked',
                        '{schema}.inbox_progress']) with ordinality as t(name, place)
     order by 2, 1
  loop
    exit when rows_gone >= row_max;
    execute format('delete from %1$s where ctid = any (array(select ctid from %1$s where consumer = $1 limit $2))', part.name)
      using operator_inbox_remove.consumer, row_max - rows_gone;
    get diagnostics one_gone = row_count;
    rows_gone := rows_gone + one_gone;
  end loop;
  more := rows_gone >= row_max;
  if more then
    perform {schema}.note_audit('inbox.remove_begin', operator_inbox_remove.consumer, actor, reason)
      where not exists (select from {schema}.audit a join {schema}.inbox_consumer c on c.name = operator_inbox_remove.consumer
                         where a.action = 'inbox.remove_begin' and a.target = c.name and a.at >= c.created_at);
  else
    delete from {schema}.consumer_grant g where g.consumer = operator_inbox_remove.consumer;
    delete from {schema}.inbox_consumer c where c.name = operator_inbox_remove.consumer;
    perform {schema}.note_audit('inbox.remove', operator_inbox_remove.consumer, actor, reason);
  end if;
  return next;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
revoke execute on function {schema}.operator_inbox_retry, {schema}.operator_inbox_resume, {schema}.operator_inbox_remove
  from public;

-- To whom skipping is granted, these are, too: the operator role, and roles that the owner granted it by hand. A function that
-- is dropped takes its grants with it.
do $$
declare
  role text;
begin
  for role in select distinct r.rolname
                from pg_proc p, aclexplode(p.proacl) a, pg_roles r
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'operator_inbox_skip'
                 and a.grantee <> p.proowner and r.oid = a.grantee loop
    execute format('grant execute on function {schema}.operator_inbox_retry, {schema}.operator_inbox_resume,'
                   '  {schema}.operator_inbox_remove to %I', role);
  end loop;
end
$$;
