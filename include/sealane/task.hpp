#pragma once

#include <optional>
#include <string>

#include "sealane/clock.hpp"
#include "sealane/event.hpp"
#include "sealane/event_id.hpp"

namespace sealane {

/// A call to the outside world that must neither get lost nor happen twice: a payment at a provider, an e-mail, the
/// start of a workflow. Written in the transaction that decides it, carried out afterwards by `sealane tasks run`.
///
/// Text fields are UTF-8 without NUL; the request is opaque bytes.
struct Task {
  std::string target;           ///< name of a configured destination, for example `billing`
  std::string operation;        ///< what to do there: for an HTTP target a path, for a workflow target a process id
  std::string idempotency_key;  ///< the same for every attempt, and chosen so that the same wish has the same key
  std::string request;          ///< the body

  std::string tenant = {};
  std::string content_type = "application/json";
  Headers headers = {};             ///< sent along; secrets belong into the target's configuration
  std::string correlation_id = {};  ///< empty in a handler: the event's
  std::string causation_id = {};    ///< empty in a handler: the event's id
  std::string traceparent = {};     ///< W3C trace context
  std::string result_topic = {};    ///< not empty: how it ended is told in an event for this topic
  std::string result_key = {};      ///< ordering key of that event; empty: the idempotency key
  /// Not empty: tasks of one target with the same order key are carried out one after the other, in the order they
  /// were enqueued; one that is dead holds up those behind it until a person retries or discards it.
  std::string order_key = {};
  std::optional<Timestamp> not_before = {};  ///< empty: at once
};

/// An admitted task on its way into the store.
struct NewTask {
  EventId id;
  Task task;
  std::string request_hash;  ///< of everything the receiver would see: hex SHA-256
};

/// What became of a task handed to the store.
struct EnqueuedTask {
  EventId id;                  ///< of the stored task: the earlier one's when already_there
  bool already_there = false;  ///< the same task was enqueued before; nothing was written
  friend bool operator==(const EnqueuedTask&, const EnqueuedTask&) = default;
};

}  // namespace sealane
