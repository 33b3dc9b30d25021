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

// A broker may be stopped or starved: an answer that was given up still comes some day. So requests
// are numbered, a connection is never closed for lateness (to the broker that would be the end of a
// lease), and whoever waits for a later answer passes over the earlier ones.

// Numbers the request and sends it; never waits. Errors: ETIMEDOUT the broker has not read for so
// long that there is no room; is_lost_connection().
Result<void> put_request(int connection, Request& request, std::span<const int> fds = {});
// Its answer, waiting at most so long (0: only what is there). Errors: ETIMEDOUT not yet, ask
// again; is_lost_connection(); EPROTO; else a refusal, with the broker's own errno and sentence.
Result<Answer> hear_answer(int connection, const Request& request, int wait_ms);
// Whether `length` received bytes are a whole reply, whose text ends in any case.
bool is_reply(Reply& reply, size_t length);
// What a whole reply to a request of that type says. Errors: the broker's; EPROTO another type.
Result<void> check_reply(const Reply& reply, RequestType type);
// put_request() and hear_answer().
Result<Answer> ask(int connection, Request request, std::span<const int> fds, int timeout_ms);

// A connection to the broker that listens now; never waits. Errors: ECONNREFUSED no broker; EAGAIN
// too many clients wait; EACCES another user's broker.
Result<link::Fd> connect_now(const std::string& name);
// Connects (retrying while a broker starts or changes) and asks, within options.timeout_ms.
Result<Answer> connect_and_ask(const AttachOptions& options, const Request& request,
                               std::span<const int> fds, bool may_spawn);

// The connection broke: another broker may answer the same request.
bool is_lost_connection(const Error& error);

}  // namespace verbena::broker
