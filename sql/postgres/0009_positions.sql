-- Where consumers stand, in both modes. The broker's own memory of a group is a hint: it expires, it is deleted with the
-- topic, and after a failover or a restore of this database it is ahead of it. Placeholders as in 0007.
--
-- next_offset: everything below is done in this database; also with mode `record` now.
-- topic_id, witness_*: which topic that is about: the broker's name for it, and a fingerprint of a message that was done.
-- follows_group: a row from before this migration, without a position: that of the group at the broker counts.
-- stop_*: a member found that it cannot know where to go on. resume_from: what an operator decided (beginning,
-- group, an offset, a time); the next member takes it up.
alter table {schema}.inbox_progress
  add column topic_id       text,
  add column witness_offset bigint,
  add column witness        bytea,
  add column follows_group  boolean not null default false,
  add column stop_code      text,
  add column stop_message   text,
  add column stopped_at     timestamptz,
  add column resume_from    text;
update {schema}.inbox_progress set follows_group = true where next_offset is null;

-- ---------------------------------------------------------------------------------------------------------------------
-- Which server answers, in which of its lives, which of its databases and which table in it: another text after a failover, a restore or a
-- restart. A pooler can change the server between two transactions without a connection breaking.
create function {schema}.inbox_life() returns text language sql stable as $$
  select (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint::text || '.' || d.oid::text
         || '.' || coalesce(to_regclass('{schema}.inbox_progress')::oid::text, '')
    from pg_catalog.pg_database d where d.datname = pg_catalog.current_database();
$$;

-- In front of everything that a consumer does in a transaction.
create function {schema}.inbox_require_life(life text) returns void language plpgsql stable as $$
begin
  if life is distinct from {schema}.inbox_life() then
    raise exception 'another server answers than the one that was connected to, or it was started again'
      using errcode = 'check_violation', constraint = 'sealane_store_changed', column = 'life',
            hint = 'open a new connection and attach again: what was committed before may be missing here';
  end if;
end
$$;

-- Takes partitions over and tells how they stand. The first seven columns are those from before.
drop function {schema}.inbox_attach(text, text[], integer[]);
create function {schema}.inbox_attach(consumer text, topics text[], partitions integer[])
  returns table (topic text, partition integer, epoch bigint, next_offset bigint, deaths integer, suspect_offset bigint,
                 suspect_deaths integer, topic_id text, witness_offset bigint, witness bytea, follows_group boolean,
                 stop_code text, stop_message text, resume_from text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
  perform {schema}.require_consumer(inbox_attach.consumer);
  return query
    insert into {schema}.inbox_progress as p (consumer, topic, partition)
      select inbox_attach.consumer, u.topic, u.partition from unnest(topics, partitions) as u(topic, partition)
       order by 2, 3
      on conflict on constraint inbox_progress_pkey do update
        set epoch = p.epoch + 1, clean = false,
            deaths = case when p.clean then 0 else p.deaths + 1 end,
            suspect_offset = case when not p.clean and p.suspect_epoch = p.epoch then p.suspect_offset end,
            suspect_deaths = case when not p.clean and p.suspect_epoch = p.epoch then p.suspect_deaths + 1 else 0 end
      returning p.topic, p.partition, p.epoch, p.next_offset, p.deaths, p.suspect_offset, p.suspect_deaths, p.topic_id,
                p.witness_offset, p.witness, p.follows_group, p.stop_code, p.stop_message, p.resume_from;
end
$$;

-- Moves the position of a partition in mode `offsets`. Without a witness the one that is known stays.
drop function {schema}.inbox_move(text, text, integer, bigint, bytea, bigint);
create function {schema}.inbox_move(consumer text, topic text, partition integer, next_offset bigint, recent bytea,
                                    forget_through bigint, witness_offset bigint default null,
                                    witness bytea default null)
  returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_move.consumer);
  update {schema}.inbox_progress p
     set next_offset = inbox_move.next_offset,
         witness_offset = coalesce(inbox_move.witness_offset, p.witness_offset),
         witness = coalesce(inbox_move.witness, p.witness)
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

-- Moves positions without a batch and tells the entries (from 1) that are not in their epoch or do not stand at `from`;
-- those stay as they are. An entry whose `to` is its `from` is only compared.
create function {schema}.inbox_save_positions(
  consumer text, topics text[], partitions integer[], epochs bigint[], froms bigint[], tos bigint[],
  witness_offsets bigint[], witnesses bytea[])
  returns table (entry integer)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_save_positions.consumer);
  -- In one order, as in inbox_attach(), so that two members wait for each other instead of deadlocking.
  perform from {schema}.inbox_progress p
    join unnest(topics, partitions, froms, tos) as u(topic, partition, from_offset, to_offset)
      on p.topic = u.topic and p.partition = u.partition
    where p.consumer = inbox_save_positions.consumer and u.from_offset is distinct from u.to_offset
    order by p.topic, p.partition for no key update of p;
  return query
    with asked as (
      select u.topic, u.partition, u.epoch, u.from_offset, u.to_offset, u.witness_offset, u.witness, u.place
        from unnest(topics, partitions, epochs, froms, tos, witness_offsets, witnesses) with ordinality
             as u(topic, partition, epoch, from_offset, to_offset, witness_offset, witness, place)
    ), fitting as (
      select a.place from asked a
        join {schema}.inbox_progress p
          on p.consumer = inbox_save_positions.consumer and p.topic = a.topic and p.partition = a.partition
       where p.epoch = a.epoch and p.next_offset is not distinct from a.from_offset
    ), moved as (
      update {schema}.inbox_progress p
         set next_offset = a.to_offset,
             witness_offset = coalesce(a.witness_offset, p.witness_offset),
             witness = coalesce(a.witness, p.witness)
        from asked a
       where p.consumer = inbox_save_positions.consumer and p.topic = a.topic and p.partition = a.partition
         and p.epoch = a.epoch and p.next_offset is not distinct from a.from_offset
         and a.from_offset is distinct from a.to_offset
    )
    select a.place::integer from asked a where not exists (select from fitting f where f.place = a.place)
     order by a.place;
end
$$;

-- Says where a partition begins and in which topic. False: it is not in that epoch.
create function {schema}.inbox_place(consumer text, topic text, partition integer, epoch bigint, next_offset bigint,
                                     topic_id text)
  returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_place.consumer);
  update {schema}.inbox_progress p
     set next_offset = inbox_place.next_offset, topic_id = nullif(inbox_place.topic_id, ''), witness_offset = null,
         witness = null, follows_group = false, stop_code = null, stop_message = null, stopped_at = null,
         resume_from = null
   where p.consumer = inbox_place.consumer and p.topic = inbox_place.topic and p.partition = inbox_place.partition
     and p.epoch = inbox_place.epoch;
  return found;
end
$$;

-- The first stop counts. False: the partition is not in that epoch.
create function {schema}.inbox_stop(consumer text, topic text, partition integer, epoch bigint, code text, message text)
  returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform {schema}.require_consumer(inbox_stop.consumer);
  update {schema}.inbox_progress p
     set stop_code = coalesce(p.stop_code, inbox_stop.code),
         stop_message = case when p.stop_code is null then inbox_stop.message else p.stop_message end,
         stopped_at = case when p.stop_code is null then clock_timestamp() else p.stopped_at end
   where p.consumer = inbox_stop.consumer and p.topic = inbox_stop.topic and p.partition = inbox_stop.partition
     and p.epoch = inbox_stop.epoch;
  return found;
end
$$;

-- Who may file events may call these, too: also roles that were granted it by hand, because functions that are dropped
-- take their grants with them.
do $$
declare
  name text;
  role text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and p.proname in ('inbox_life', 'inbox_require_life', 'inbox_attach', 'inbox_move',
                                   'inbox_save_positions', 'inbox_place', 'inbox_stop') loop
    execute format('revoke execute on function %s from public', name);
    for role in select distinct r.rolname
                  from pg_proc p, aclexplode(p.proacl) a, pg_roles r
                 where p.pronamespace = trim(both '"' from '{schema}')::regnamespace and p.proname = 'inbox_file'
                   and a.grantee <> p.proowner and r.oid = a.grantee loop
      execute format('grant execute on function %s to %I', name, role);
    end loop;
  end loop;
end
$$;
