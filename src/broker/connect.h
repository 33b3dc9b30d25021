// Reaching the broker: connect, start one if nobody answers, ask, and tell a dead broker from a
// refusal.
#pragma once

#include <span>

#include "base/result.h"
#include "broker/client.h"
#include "broker/message.h"

namespace verbena::broker {

struct Answer {
  Reply reply;
  Received message;     // the descriptors that came with it
  link::Fd connection;  // of connect_and_ask
};

// One request and its reply on a connection. A refusal is the broker's own error and sentence.
Result<Answer> ask(int connection, const Request& request, std::span<const int> fds,
                   int timeout_ms);

// Connects (retrying while a broker starts or changes) and asks, within options.timeout_ms.
Result<Answer> connect_and_ask(const AttachOptions& options, const Request& request,
                               std::span<const int> fds, bool may_spawn);

// The connection broke: another broker may answer the same request.
bool is_lost_connection(const Error& error);

}  // namespace verbena::broker
