-- A relay has one lease for all its lanes: the row that says that it lives. A heartbeat writes that row alone, where it
-- wrote one per lane before. Placeholders as in 0007.
--
--   relay_member.lease      names the lease; null: it ran out, and another relay has taken lanes of it
--   relay_member.joined_on  the life of the server in which it was given out; it counts in that one alone
--   lane_state.lease        the lease of its owner under which the lane was claimed
--
-- A lane is held while a row of relay_member has its route, owner and lease, and time left. A relay whose lease ran out
-- gets another one, under which it holds nothing yet, so that no row of lane_state has to be written for lanes to be free.
alter table {schema}.relay_member
  add column lease     bigint,
  add column joined_on bigint;
alter table {schema}.lane_state add column lease bigint;

-- The lanes of relays of an earlier version would be taken from them while they work. Asked after the table is locked, so
-- that none of them beats meanwhile.
do $$
begin
  if exists (select from {schema}.relay_member m where m.expires_at > clock_timestamp()) then
    raise exception 'relays are running on this outbox'
      using errcode = 'object_in_use', hint = 'stop the relays, migrate, then start the new ones';
  end if;
end
$$;

-- What asked or wrote the time of a lane. Texts are changed and not repeated, so that all else in them stays as it is.
do $$
declare
  text_before text;
  text_after  text;
begin
  text_before := pg_get_viewdef('{schema}.outbox_status'::regclass);
  text_after := replace(text_before, 'l.expires_at > clock_timestamp()',
    'exists (select from {schema}.relay_member m where m.route = l.route and m.owner = l.owner and m.lease = l.lease'
    || ' and m.expires_at > clock_timestamp())');
  if text_after = text_before then
    raise exception 'the view {schema}.outbox_status is not the one that migrations made';
  end if;
  execute 'create or replace view {schema}.outbox_status as ' || text_after;

  -- Relays that live when positions change have lost their lanes, and hear of it with their next heartbeat.
  text_before := pg_get_functiondef('{schema}.rebase_log'::regproc);
  text_after := replace(replace(text_before, 'owner = null, expires_at = ''-infinity'',', 'owner = null, lease = null,'),
    'perform set_config(''sealane.rebase''',
    'update {schema}.relay_member set lease = null where lease is not null;' || E'\n'
    || '  perform set_config(''sealane.rebase''');
  if text_after not like '%relay_member%' or text_after like '%expires_at%' then
    raise exception 'the function {schema}.rebase_log is not the one that migrations made';
  end if;
  execute text_after;
end
$$;
-- Whoever may claim lanes writes the new column instead: the role for relays, and roles that the owner granted it by hand.
-- A right on a column stays in the catalog when the column is dropped, and move_roles() would meet it there.
do $$
declare
  role text;
begin
  for role in select distinct r.rolname
                from pg_attribute a, aclexplode(a.attacl) x, pg_roles r
               where a.attrelid = '{schema}.lane_state'::regclass and a.attname = 'expires_at'
                 and x.privilege_type = 'UPDATE' and r.oid = x.grantee loop
    execute format('revoke all (expires_at) on {schema}.lane_state from %I', role);
    execute format('grant update (lease) on {schema}.lane_state to %I', role);
  end loop;
end
$$;
alter table {schema}.lane_state drop column expires_at;
