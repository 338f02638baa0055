-- Tasks: calls to the outside world that were decided in a transaction, and every attempt at them. Placeholders as in
-- 0003, and {dispatcher}, the role for whoever carries tasks out.
--
-- Writers and consumers enqueue, dispatchers claim and finish, all through functions with the owner's rights.

insert into {schema}.setting values
  ('task_request_max_bytes', '1048576', 'Largest request that enqueue_task() takes');

-- place is the order of enqueueing. state: PENDING, SENDING, FAILED, SUCCEEDED, DEAD, DISCARDED; over are SUCCEEDED and
-- DISCARDED. due_at stays as it is during an attempt, so that a task that is given back is due as before.
-- waits: an earlier one with the same tenant, target and order key is not over. Kept in the row, and not looked up by
-- whoever claims: behind one task that is dead there can be a hundred thousand others.
-- blocks: those behind it have to wait for it. True until it is over, and longer when somebody was enqueueing behind it
-- at that moment: then whoever claims lets the next one pass, once those transactions have ended.
-- claims: how often it was claimed, and so the fencing token. A claim that is given back takes its attempt with it, so
-- that the number of an attempt comes again; this one does not.
-- status, code and message are of the last attempt that ended.
create table {schema}.task (
  place           bigint      primary key generated always as identity,
  created_at      timestamptz not null default clock_timestamp(),
  due_at          timestamptz not null,
  not_before      timestamptz,
  claimed_until   timestamptz,  -- of a SENDING one: when its lease ends
  ended_at        timestamptz,
  id              uuid        not null unique,
  attempts        integer     not null default 0,
  tries           integer     not null default 0,  -- attempts since a person last asked for a retry
  claims          bigint      not null default 0,
  status          integer,
  waits           boolean     not null default false,
  blocks          boolean     not null default true,
  in_doubt        boolean     not null default false,
  state           text        not null default 'PENDING' collate "C",
  tenant          text        not null collate "C",
  target          text        not null collate "C",
  operation       text        not null collate "C",
  idempotency_key text        not null collate "C",
  order_key       text        collate "C",
  result_topic    text,
  result_key      text,
  correlation_id  text,
  causation_id    text,
  traceparent     text,
  owner           text,
  code            text,
  message         text,
  content_type    text        not null,
  request_hash    text        not null,
  headers         json        not null,
  request         bytea       not null,
  constraint task_name unique (tenant, target, operation, idempotency_key)
);
-- What can be claimed, and when. Neither what is over or dead nor what waits for its turn is in it.
create index task_due on {schema}.task (target, coalesce(claimed_until, due_at), place)
  where not waits and state in ('PENDING', 'SENDING', 'FAILED');
-- Of each order at most one blocks and does not wait, whoever enqueues and ends them at the same time.
create unique index task_first on {schema}.task (tenant, target, order_key)
  where order_key is not null and not waits and blocks;
-- Who comes before and after whom.
create index task_order on {schema}.task (tenant, target, order_key, place) where order_key is not null and blocks;
-- What is over and still blocks.
create index task_unpassed on {schema}.task (target) where blocks and state in ('SUCCEEDED', 'DISCARDED');
-- For counts and lists of what is not over.
create index task_open on {schema}.task (state, place) where state not in ('SUCCEEDED', 'DISCARDED');
-- For retention.
create index task_over on {schema}.task (target, ended_at) where state in ('SUCCEEDED', 'DISCARDED');

-- A row per attempt, written when it begins. One without an end is under way, or its dispatcher died.
create table {schema}.task_attempt (
  task           bigint      not null references {schema}.task (place) on delete cascade,
  claim          bigint      not null,  -- of the claim that began it
  started_at     timestamptz not null,
  ended_at       timestamptz,
  took_us        bigint,
  number         integer     not null,
  status         integer,
  retry_after_ms bigint,
  response_cut   boolean     not null default false,
  owner          text        not null,
  verdict        text,  -- succeeded, retry, unknown, refused
  code           text,
  message        text,
  response_type  text,
  response       bytea,
  primary key (task, number)
);

-- ---------------------------------------------------------------------------------------------------------------------
-- Enqueueing, in the caller's transaction.

-- Whether headers are the same, in the same order, however they are written.
create function {schema}.task_same_headers(a json, b json) returns boolean
  language sql immutable parallel safe as $$
  select a::text = b::text
         or (select array_agg(array[h.name, h.value]) from json_each_text(a) as h(name, value))
            is not distinct from (select array_agg(array[h.name, h.value]) from json_each_text(b) as h(name, value))
$$;

-- Writes a task unless it is there already. outcome: new, there (the same), other (the same name with another request).
-- Of two that are enqueued with one order key at once, the second waits for the end of the first's transaction.
create function {schema}.task_enqueue(
  id uuid, tenant text, target text, operation text, idempotency_key text, request bytea, request_hash text,
  content_type text, headers json, order_key text, not_before timestamptz, correlation_id text, causation_id text,
  traceparent text, result_topic text, result_key text)
  returns table (task_id uuid, outcome text)
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  earlier record;
  before  bigint;
  at      timestamptz;
begin
  if target = '' or operation = '' or idempotency_key = '' or content_type = '' or order_key = ''
     or octet_length(request) > 16777216
     or not_before not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z'
     or (headers::text <> '{}' and {schema}.bad_headers(headers)) then
    raise exception 'this is not an admitted task: enqueue with the library or with enqueue_task()'
      using errcode = 'check_violation', constraint = 'sealane_not_admitted';
  end if;
  loop
    before := null;
    if order_key is not null then
      select t.place into before from {schema}.task t
       where t.tenant = task_enqueue.tenant and t.target = task_enqueue.target and t.order_key = task_enqueue.order_key
         and t.blocks
       order by t.place desc limit 1;
      -- It blocks until this transaction has ended, so whoever lets the next one pass finds the one that follows. It
      -- can end before: that needs a weaker lock.
      if before is not null then
        perform from {schema}.task t where t.place = before and t.blocks for key share;
        continue when not found;
      end if;
    end if;
    at := clock_timestamp();
    insert into {schema}.task as t
      (id, tenant, target, operation, idempotency_key, request, request_hash, content_type, headers, order_key,
       not_before, correlation_id, causation_id, traceparent, result_topic, result_key, created_at, due_at, waits)
    values
      (task_enqueue.id, task_enqueue.tenant, task_enqueue.target, task_enqueue.operation, task_enqueue.idempotency_key,
       task_enqueue.request, task_enqueue.request_hash, task_enqueue.content_type, task_enqueue.headers,
       task_enqueue.order_key, task_enqueue.not_before, task_enqueue.correlation_id, task_enqueue.causation_id,
       task_enqueue.traceparent, task_enqueue.result_topic, task_enqueue.result_key, at,
       coalesce(task_enqueue.not_before, at), before is not null)
    on conflict do nothing;
    if found then
      return query select task_enqueue.id, 'new';
      return;
    end if;
    select t.id, t.request_hash = task_enqueue.request_hash
                 or (t.request = task_enqueue.request and t.content_type = task_enqueue.content_type
                     and {schema}.task_same_headers(t.headers, task_enqueue.headers)) as is_same
      into earlier
      from {schema}.task t
     where t.tenant = task_enqueue.tenant and t.target = task_enqueue.target
       and t.operation = task_enqueue.operation and t.idempotency_key = task_enqueue.idempotency_key;
    if found then
      return query select earlier.id, case when earlier.is_same then 'there' else 'other' end;
      return;
    end if;
    if exists (select from {schema}.task t where t.id = task_enqueue.id) then
      raise exception 'task id % exists already', task_enqueue.id
        using errcode = 'unique_violation', constraint = 'sealane_duplicate_task_id', column = 'id',
              detail = 'code: duplicate_task_id';
    end if;
    -- Somebody became the first of this order, or the same task was forgotten, at this very moment: look again.
  end loop;
end
$$;

-- Hex SHA-256 over what the receiver of a task sees, each part with its length in bytes before it, as C++ computes it.
create function {schema}.task_request_hash(target text, operation text, content_type text, headers json, request bytea)
  returns text language sql immutable parallel safe as $$
  select encode(sha256(convert_to(string_agg(octet_length(p.part) || ':' || p.part, '' order by p.place)
                                  || octet_length(request) || ':', 'UTF8') || request), 'hex')
    from (select 0 as place, target as part
          union all select 1, operation
          union all select 2, content_type
          union all select 3, (select count(*)::text from json_each(headers))
          union all select 4 + 2 * h.place - n.n, case n.n when 1 then h.name else h.value end
            from json_each_text(headers) with ordinality as h(name, value, place), (values (0), (1)) as n(n)) p
$$;

-- Enqueues one task in the current transaction and returns its id: for every language that can run SQL. The same task
-- again is no error, and the earlier one's id is returned; with another request it is refused.
create function {schema}.enqueue_task(
  target text, operation text, idempotency_key text, request bytea, tenant text default '',
  content_type text default 'application/json', headers json default '{}', order_key text default null,
  not_before timestamptz default null, correlation_id text default null, causation_id text default null,
  traceparent text default null, result_topic text default null, result_key text default null)
  returns uuid language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- A null means "not given" for every argument that has a default.
  tenant_       text := coalesce(enqueue_task.tenant, '');
  content_type_ text := coalesce(enqueue_task.content_type, 'application/json');
  headers_      json := coalesce(enqueue_task.headers, '{}');
  bad_field     text;
  request_max   integer := (select value::integer from {schema}.setting where name = 'task_request_max_bytes');
  bad_header    text;
  forged        text;
  too_many      boolean;
  done          record;
begin
  perform {schema}.check_text('target', enqueue_task.target, 255, true),
          {schema}.check_text('operation', enqueue_task.operation, 1024, true),
          {schema}.check_text('idempotency_key', enqueue_task.idempotency_key, 1024, true),
          {schema}.check_text('tenant', tenant_, 255, false),
          {schema}.check_text('content_type', content_type_, 255, true),
          {schema}.check_text('order_key', enqueue_task.order_key, 1024, false),
          {schema}.check_text('correlation_id', enqueue_task.correlation_id, 512, false),
          {schema}.check_text('causation_id', enqueue_task.causation_id, 512, false),
          {schema}.check_text('traceparent', enqueue_task.traceparent, 512, false),
          {schema}.check_text('result_topic', enqueue_task.result_topic, 249, false),
          {schema}.check_text('result_key', enqueue_task.result_key, 1024, false);
  select f.name into bad_field
    from (values ('operation', enqueue_task.operation), ('idempotency_key', enqueue_task.idempotency_key),
                 ('content_type', content_type_)) as f(name, value)
   where f.value ~ '[\u0001-\u001f\u007f]' limit 1;
  if found then
    raise exception '% has a control character', bad_field
      using errcode = 'check_violation', constraint = 'sealane_invalid_task', column = bad_field;
  end if;
  if enqueue_task.result_topic !~ '^[A-Za-z0-9._-]*$' or enqueue_task.result_topic in ('.', '..') then
    raise exception 'result_topic "%" has characters other than A-Z a-z 0-9 . _ -', enqueue_task.result_topic
      using errcode = 'check_violation', constraint = 'sealane_invalid_topic', column = 'result_topic';
  end if;
  if enqueue_task.request is null then
    raise exception 'request is required'
      using errcode = 'check_violation', constraint = 'sealane_field_missing', column = 'request';
  end if;
  if octet_length(enqueue_task.request) > request_max then
    raise exception 'request is % bytes, at most % are taken', octet_length(enqueue_task.request), request_max
      using errcode = 'check_violation', constraint = 'sealane_request_too_large', column = 'request',
            hint = 'put large content in object storage and send a reference';
  end if;
  if enqueue_task.not_before not between '1970-01-01T00:00:00Z' and '9999-12-31T23:59:59.999999Z' then
    raise exception 'not_before is between the years 1970 and 9999'
      using errcode = 'check_violation', constraint = 'sealane_invalid_time', column = 'not_before';
  end if;
  if headers_::text <> '{}' then
    if json_typeof(headers_) <> 'object' or octet_length(headers_::text) > 32768 then
      raise exception 'headers are a JSON object of at most 64 texts'
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end if;
    begin
      bad_header := (select h.name from json_each(headers_) as h(name, value)
                      where json_typeof(h.value) <> 'string' limit 1);
      too_many := (select count(*) > 64 or sum(octet_length(name) + octet_length(value)) > 16384
                     from json_each_text(headers_) as h(name, value));
      -- They become headers of HTTP: a line break would let whoever chose a value write headers of his own.
      forged := (select h.name from json_each_text(headers_) as h(name, value)
                  where h.name !~ '^[!#$%&''*+.^_`|~0-9A-Za-z-]+$' or octet_length(h.name) > 255
                     or h.value ~ '[\u0001-\u001f\u007f]' limit 1);
    exception when others then
      raise exception 'a header is not text: %', sqlerrm
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end;
    if bad_header is not null then
      raise exception 'header "%" is not a text', bad_header
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end if;
    if forged is not null then
      raise exception 'header "%" has characters that a header cannot have', forged
        using errcode = 'check_violation', constraint = 'sealane_invalid_headers', column = 'headers';
    end if;
    if too_many then
      raise exception 'headers are a JSON object of at most 64 texts and 16384 bytes'
        using errcode = 'check_violation', constraint = 'sealane_too_many_headers', column = 'headers';
    end if;
    if (select count(distinct lower(name)) < count(*) from json_each(headers_) as h(name, value)) then
      raise exception 'a header name stands twice'
        using errcode = 'check_violation', constraint = 'sealane_duplicate_header', column = 'headers';
    end if;
  end if;

  if content_type_ ~* '^(application/json|[^;]*\+json)\s*(;|$)' then
    begin
      perform convert_from(enqueue_task.request, 'UTF8')::json;
    exception when others then
      raise exception 'request is not JSON: %', sqlerrm
        using errcode = 'check_violation', constraint = 'sealane_invalid_json', column = 'request',
              hint = 'send JSON, or say what it is with content_type';
    end;
  end if;

  select t.task_id, t.outcome into done from {schema}.task_enqueue(
    {schema}.uuid_v7(), tenant_, enqueue_task.target, enqueue_task.operation, enqueue_task.idempotency_key,
    enqueue_task.request,
    {schema}.task_request_hash(enqueue_task.target, enqueue_task.operation, content_type_, headers_,
                               enqueue_task.request),
    content_type_, headers_, nullif(enqueue_task.order_key, ''), enqueue_task.not_before,
    nullif(enqueue_task.correlation_id, ''), nullif(enqueue_task.causation_id, ''),
    nullif(enqueue_task.traceparent, ''), nullif(enqueue_task.result_topic, ''),
    nullif(enqueue_task.result_key, '')) as t;
  if done.outcome = 'other' then
    raise exception 'task "%" for % at % is there already with another request', enqueue_task.idempotency_key,
        enqueue_task.operation, enqueue_task.target
      using errcode = 'unique_violation', constraint = 'sealane_task_conflict', column = 'idempotency_key',
            detail = 'code: task_conflict',
            hint = 'choose the key so that the same wish has the same key, and another wish another one';
  end if;
  return done.task_id;
end
$$;

-- The same with the request as text, which is stored as its UTF-8 bytes.
create function {schema}.enqueue_task(
  target text, operation text, idempotency_key text, request text, tenant text default '',
  content_type text default 'application/json', headers json default '{}', order_key text default null,
  not_before timestamptz default null, correlation_id text default null, causation_id text default null,
  traceparent text default null, result_topic text default null, result_key text default null)
  returns uuid language sql volatile set search_path = pg_catalog, pg_temp as $$
  select {schema}.enqueue_task(enqueue_task.target, enqueue_task.operation, enqueue_task.idempotency_key,
    convert_to(enqueue_task.request, 'UTF8'), enqueue_task.tenant, enqueue_task.content_type, enqueue_task.headers,
    enqueue_task.order_key, enqueue_task.not_before, enqueue_task.correlation_id, enqueue_task.causation_id,
    enqueue_task.traceparent, enqueue_task.result_topic, enqueue_task.result_key)
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Carrying out. Each of these is a READ COMMITTED transaction of its own: every statement sees what a transaction that
-- it waited for has committed. Times go out as microseconds since 1970.

-- Lets the next of an order take its turn, after the first has stopped to block. The next may be over itself and still
-- block: task_pass() comes to it.
create function {schema}.task_wake(tenant text, target text, order_key text) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  next bigint;
begin
  loop
    select t.place into next from {schema}.task t
     where t.tenant = task_wake.tenant and t.target = task_wake.target and t.order_key = task_wake.order_key
       and t.blocks
     order by t.place limit 1;
    exit when next is null;
    update {schema}.task t set waits = false where t.place = next and t.blocks;
    exit when found;  -- otherwise a person has given it up meanwhile
  end loop;
end
$$;

-- Lets those pass whose predecessors are over but had somebody enqueueing behind them at that moment.
create function {schema}.task_pass(targets text[]) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  it record;
begin
  for it in
    select t.place, t.tenant, t.target, t.order_key, t.waits from {schema}.task t
     where t.blocks and t.state in ('SUCCEEDED', 'DISCARDED')
       -- Found apart, so that the order below tempts nobody to read all tasks backwards.
       and t.place = any (array(select u.place from {schema}.task u
                                 where u.target = any (targets) and u.blocks
                                   and u.state in ('SUCCEEDED', 'DISCARDED')))
     -- Later ones first: one that would be woken by an earlier one is out of the way by then.
     order by t.place desc limit 100 for update skip locked
  loop
    update {schema}.task t set blocks = false where t.place = it.place;
    if not it.waits then
      perform {schema}.task_wake(it.tenant, it.target, it.order_key);
    end if;
  end loop;
end
$$;

-- Takes what is due, longest due first, and begins an attempt for each. One descent per target, whatever else is there.
create function {schema}.task_claim(owner text, targets text[], claim_max bigint, lease_ms bigint)
  returns table (
    id uuid, claim bigint, attempt integer, tries integer, in_doubt boolean, created_at bigint, request_hash text, tenant text,
    target text, operation text, idempotency_key text, order_key text, content_type text, headers json,
    correlation_id text, causation_id text, traceparent text, result_topic text, result_key text, not_before bigint,
    request bytea)
  language plpgsql security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  at  constant timestamptz := clock_timestamp();
  why constant text := 'the lease ended and nobody had said how the attempt went';
begin
  perform {schema}.task_pass(task_claim.targets);
  return query
    with chosen as materialized (
      -- The state is the one after the lock was had, which may be newer than what this statement sees.
      select c.place, c.due, c.state, c.claims
        from (select distinct u.target from unnest(task_claim.targets) as u(target)) u
       cross join lateral (
             select t.place, coalesce(t.claimed_until, t.due_at) as due, t.state, t.claims
               from {schema}.task t
              where t.target = u.target and not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
                and coalesce(t.claimed_until, t.due_at) <= at
              order by coalesce(t.claimed_until, t.due_at), t.place
              limit claim_max for no key update skip locked) c
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

-- Writes down how an attempt went. Whoever says so late knows more than whoever found nobody there.
create function {schema}.task_close_attempt(
  id uuid, claim bigint, verdict text, status integer, code text, message text, response bytea,
  response_cut boolean, response_type text, retry_after_ms bigint, took_us bigint) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  update {schema}.task_attempt a
     set ended_at = clock_timestamp(), verdict = task_close_attempt.verdict, status = task_close_attempt.status,
         code = task_close_attempt.code, message = task_close_attempt.message,
         response = task_close_attempt.response, response_cut = task_close_attempt.response_cut,
         response_type = task_close_attempt.response_type, retry_after_ms = task_close_attempt.retry_after_ms,
         took_us = task_close_attempt.took_us
    from {schema}.task t
   where t.id = task_close_attempt.id and a.task = t.place and a.claim = task_close_attempt.claim
     and (a.ended_at is null or a.code = 'interrupted');
$$;

-- Closes the attempt and moves the task on: SUCCEEDED, FAILED or DEAD.
create function {schema}.task_finish(
  id uuid, claim bigint, state text, due_in_ms bigint, verdict text, status integer, code text, message text,
  response bytea, response_cut boolean, response_type text, retry_after_ms bigint, took_us bigint) returns void
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  at     timestamptz;
  ours   record;
  passes boolean := false;  -- whether the next of the order can take its turn at once
begin
  if state not in ('SUCCEEDED', 'FAILED', 'DEAD') then
    raise exception 'an attempt does not end in state %', state
      using errcode = 'check_violation', constraint = 'sealane_not_admitted', column = 'state';
  end if;
  -- An end does not wait for transactions that are enqueueing behind this task, see task_enqueue(): its lease would run
  -- out, and what succeeded would be sent again. The strong lock is had when there are none.
  if state = 'SUCCEEDED' then
    select t.place, t.tenant, t.target, t.order_key into ours from {schema}.task t
     where t.id = task_finish.id and t.state = 'SENDING' and t.claims = task_finish.claim for update skip locked;
    passes := found;
  end if;
  if not passes then
    select t.place, t.tenant, t.target, t.order_key into ours from {schema}.task t
     where t.id = task_finish.id and t.state = 'SENDING' and t.claims = task_finish.claim for no key update;
  end if;
  if not passes and not found then
    raise exception 'claim % of task % is not the one that counts', claim, id
      using errcode = 'check_violation', constraint = 'sealane_task_fenced', column = 'claim',
            detail = 'code: task_fenced';
  end if;
  at := clock_timestamp();
  perform {schema}.task_close_attempt(id, claim, verdict, status, code, message, response, response_cut,
                                      response_type, retry_after_ms, took_us);
  update {schema}.task t
     set state = task_finish.state, blocks = not passes, claimed_until = null, status = task_finish.status, code = task_finish.code,
         message = task_finish.message, in_doubt = t.in_doubt or task_finish.verdict = 'unknown',
         due_at = case when task_finish.state = 'FAILED'
                       then at + coalesce(due_in_ms, 0) * interval '1 millisecond' else t.due_at end,
         ended_at = case when task_finish.state = 'FAILED' then null else at end
   where t.place = ours.place;
  if passes and ours.order_key is not null then
    perform {schema}.task_wake(ours.tenant, ours.target, ours.order_key);
  end if;
end
$$;

-- Gives back what was claimed and not begun.
create function {schema}.task_release(ids uuid[], claims bigint[]) returns void
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  with ours as materialized (
    select t.place, t.claims
      from {schema}.task t
      join unnest(task_release.ids, task_release.claims) as u(id, claim) on t.id = u.id
     where t.state = 'SENDING' and t.claims = u.claim
     order by t.place for no key update of t
  ), gone as (
    delete from {schema}.task_attempt a using ours o where a.task = o.place and a.claim = o.claims
  )
  update {schema}.task t
     set state = case when t.attempts = 1 then 'PENDING' else 'FAILED' end, attempts = t.attempts - 1,
         tries = t.tries - 1, claimed_until = null
    from ours o where t.place = o.place;
$$;

-- Milliseconds until something for the targets is due, rounded up; null: nothing waits.
create function {schema}.task_next_due(targets text[]) returns bigint
  language plpgsql stable security definer set search_path = pg_catalog, pg_temp
  set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  -- greatest() passes over nulls.
  return (select case when min(d.due) is not null
                      then greatest(ceil(extract(epoch from min(d.due) - clock_timestamp()) * 1000), 0)::bigint end
            from unnest(targets) as u(target)
           cross join lateral (
                 select coalesce(t.claimed_until, t.due_at) as due from {schema}.task t
                  where t.target = u.target and not t.waits and t.state in ('PENDING', 'SENDING', 'FAILED')
                  order by coalesce(t.claimed_until, t.due_at), t.place limit 1) d);
end
$$;

create function {schema}.task_count(count_max bigint)
  returns table (pending bigint, sending bigint, failed bigint, dead bigint, oldest_waiting_at bigint)
  language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select (select count(*) from (select from {schema}.task t where t.state = 'PENDING' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'SENDING' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'FAILED' limit count_max) w),
         (select count(*) from (select from {schema}.task t where t.state = 'DEAD' limit count_max) w),
         (select (extract(epoch from min(o.created_at)) * 1000000)::bigint
            from (values ('PENDING'), ('FAILED')) as s(state)
           cross join lateral (select t.created_at from {schema}.task t
                                where t.state = s.state and t.state not in ('SUCCEEDED', 'DISCARDED')
                                order by t.place limit 1) o);
$$;

-- Forgets tasks that are over, of each target the oldest end first, with their attempts; returns how many. No targets:
-- all. What others keep longer is not read: one descent per target, also to find out which there are.
create function {schema}.task_prune(targets text[], horizon timestamptz, row_max bigint) returns bigint
  language sql security definer set search_path = pg_catalog, pg_temp as $$
  with recursive every (target) as (
    select min(t.target) from {schema}.task t where t.state in ('SUCCEEDED', 'DISCARDED')
    union all
    select (select min(t.target) from {schema}.task t
             where t.state in ('SUCCEEDED', 'DISCARDED') and t.target > e.target)
      from every e where e.target is not null
  ), meant (target) as (
    select distinct u.target from unnest(targets) as u(target)
    union all
    select e.target from every e where e.target is not null and cardinality(targets) = 0
  ), gone as (
    delete from {schema}.task where place = any (array(
      select old.place
        from meant m
       cross join lateral (
             select t.place from {schema}.task t
              where t.target = m.target and t.state in ('SUCCEEDED', 'DISCARDED') and t.ended_at < horizon
                and not t.blocks
              order by t.ended_at limit row_max for update skip locked) old
       limit row_max))
    returning 1
  )
  select count(*) from gone
$$;

-- For operators: gives a task up that nobody is at, and returns its target; null when there is none.
create function {schema}.task_discard(id uuid) returns text
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  it     record;
  passes boolean;
begin
  -- As in task_finish().
  select t.place, t.tenant, t.target, t.order_key, t.waits into it from {schema}.task t
   where t.id = task_discard.id and t.state in ('PENDING', 'FAILED', 'DEAD') for update skip locked;
  passes := found;
  if not passes then
    select t.place, t.tenant, t.target, t.order_key, t.waits into it from {schema}.task t
     where t.id = task_discard.id and t.state in ('PENDING', 'FAILED', 'DEAD') for no key update;
    if not found then
      return null;
    end if;
  end if;
  update {schema}.task t set state = 'DISCARDED', blocks = not passes, ended_at = clock_timestamp()
   where t.place = it.place;
  if passes and it.order_key is not null and not it.waits then
    perform {schema}.task_wake(it.tenant, it.target, it.order_key);
  end if;
  return it.target;
end
$$;

-- ---------------------------------------------------------------------------------------------------------------------
-- Rights: writers and consumers enqueue, a dispatcher carries out and appends what became of it, an operator sees
-- everything, requests and answers included, because who decides about a task in doubt needs them.
do $$
declare
  name text;
begin
  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and (p.proname like 'task\_%' or p.proname = 'enqueue_task') loop
    execute format('revoke execute on function %s from public', name);
  end loop;
  if not {create_roles} then
    return;
  end if;
  if not exists (select from pg_roles where rolname = trim(both '"' from '{dispatcher}')) then
    begin
      execute 'create role ' || '{dispatcher}' || ' nologin';
    exception
      when duplicate_object or unique_violation then null;  -- another database's migration was faster
      when insufficient_privilege then
        raise exception 'user % may not create role %', current_user, '{dispatcher}'
          using errcode = 'insufficient_privilege',
                hint = 'migrate as a user with CREATEROLE, or without roles (store.create_roles = false)';
    end;
  end if;
  grant usage on schema {schema} to {dispatcher};
  grant select on {schema}.migration to {dispatcher};
  grant execute on function {schema}.task_claim, {schema}.task_close_attempt, {schema}.task_finish,
    {schema}.task_release, {schema}.task_next_due, {schema}.task_count, {schema}.task_prune, {schema}.append_one,
    {schema}.append_batch to {dispatcher};

  for name in select p.oid::regprocedure::text from pg_proc p
               where p.pronamespace = trim(both '"' from '{schema}')::regnamespace
                 and p.proname in ('task_enqueue', 'enqueue_task') loop
    execute format('grant execute on function %s to {writer}, {consumer}', name);
  end loop;

  grant select on {schema}.task, {schema}.task_attempt to {operator};
  grant update (state, tries, in_doubt, due_at, ended_at) on {schema}.task to {operator};
  grant execute on function {schema}.task_discard to {operator};
end
$$;
