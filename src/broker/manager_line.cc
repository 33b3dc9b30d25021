// Answers and datagrams share the line; each begins with its own magic number.
#include "broker/manager_line.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "broker/connect.h"

namespace verbena::broker {
namespace {

constexpr int kAnswerMs = 2000;
constexpr size_t kMaxWaiting = 4096;  // datagrams beyond are lost, and repeated by their senders

bool same(const Service& a, const Service& b) {
  return a.space == b.space && a.port == b.port &&
         std::memcmp(a.address, b.address, sizeof(a.address)) == 0;
}

}  // namespace

Result<void> ManagerLine::open() {
  Result<link::Fd> connected = connect_now(name_);
  if (!connected) return tl::unexpected<Error>(connected.error());
  connection_ = std::move(*connected);
  Request hello;
  hello.type = RequestType::kManage;
  hello.token = token_;
  hello.slot = slot_;
  Result<Reply> answer = ask(hello);
  if (answer) return {};
  connection_.reset();
  return tl::unexpected<Error>(answer.error());
}

ManagerLine::Heard ManagerLine::hear(Reply& reply) {
  alignas(8) uint8_t message[std::max(sizeof(Reply), sizeof(MadMessage))];
  const Received got = receive_message(connection_.get(), message, sizeof(message), MSG_DONTWAIT);
  if (got.error == EAGAIN) return Heard::kNothing;
  if (got.error != 0 || got.length == 0) {
    connection_.reset();
    return Heard::kLost;
  }
  uint32_t magic;
  std::memcpy(&magic, message, sizeof(magic));
  if (got.length == sizeof(MadMessage) && magic == kMadMagic) {
    MadMessage mad;
    std::memcpy(&mad, message, sizeof(mad));
    if (waiting_.size() < kMaxWaiting) waiting_.push_back(mad);
    return Heard::kMad;
  }
  if (got.length != sizeof(Reply) || magic != kProtocolMagic) {
    connection_.reset();
    return Heard::kLost;
  }
  std::memcpy(&reply, message, sizeof(reply));
  return Heard::kReply;
}

Result<Reply> ManagerLine::ask(Request request) {
  const auto lost = [] { return fail(ECONNRESET, "the broker ended"); };
  Result<void> put = put_request(connection_.get(), request);
  if (!put) return tl::unexpected<Error>(put.error());
  const int64_t deadline = now_ms() + kAnswerMs;
  while (true) {
    Reply reply;
    const Heard heard = hear(reply);
    if (heard == Heard::kLost) return lost();
    if (heard == Heard::kReply && reply.sequence == request.sequence) {
      reply.text[sizeof(reply.text) - 1] = 0;
      if (reply.error != 0) return fail(reply.error, reply.text);
      return reply;
    }
    if (heard != Heard::kNothing) continue;
    const int64_t left = deadline - now_ms();
    if (left <= 0) return fail(ETIMEDOUT, "the broker does not answer (is it stopped?)");
    pollfd wait{connection_.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(left));
  }
}

Result<uint16_t> ManagerLine::bind(const Service& service) {
  Request request;
  request.type = RequestType::kBindPort;
  request.service = service;
  for (int attempt = 0;; ++attempt) {
    if (lost()) tell_again();
    if (lost()) return fail(ETIMEDOUT, "the broker ended, and the next one is not there yet");
    Result<Reply> answer = ask(request);
    if (!answer && is_lost_connection(answer.error()) && attempt < 2) continue;
    if (!answer) return tl::unexpected<Error>(answer.error());
    Service entered = service;
    entered.port = static_cast<uint16_t>(answer->slot);
    if ((service.flags & kServiceListens) != 0) {
      for (Service& known : services_)
        if (same(known, entered)) known.flags |= kServiceListens;
    } else {
      services_.push_back(entered);
    }
    return entered.port;
  }
}

void ManagerLine::release(const Service& service) {
  const auto found = std::find_if(services_.begin(), services_.end(),
                                  [&](const Service& known) { return same(known, service); });
  if (found == services_.end()) return;
  services_.erase(found);
  if (lost()) return;
  Request request;
  request.type = RequestType::kReleasePort;
  request.service = service;
  // Not waited for: the answer is passed over when it comes. In order with the next request.
  if (!put_request(connection_.get(), request)) connection_.reset();
}

size_t ManagerLine::receive(link::FunctionRef<void(const MadMessage&)> visit, size_t limit) {
  if (lost()) tell_again();
  Reply reply;
  while (!lost() && waiting_.size() < limit && hear(reply) != Heard::kNothing) {
  }
  size_t shown = 0;
  for (; shown < limit && !waiting_.empty(); ++shown) {
    const MadMessage message = waiting_.front();
    waiting_.pop_front();
    visit(message);
  }
  return shown;
}

// Answers to these are passed over when they come: a port that another process took meanwhile is
// lost to us, as it would be after a reboot of the machine.
void ManagerLine::tell_again() {
  Result<link::Fd> connected = connect_now(name_);
  if (!connected) return;
  connection_ = std::move(*connected);
  Request request;
  request.type = RequestType::kManage;
  request.token = token_;
  request.slot = slot_;
  bool put = put_request(connection_.get(), request).has_value();
  for (const Service& service : services_) {
    if (!put) break;
    request = Request{};
    request.type = RequestType::kBindPort;
    request.service = service;
    request.service.flags |= kServiceAgain;
    put = put_request(connection_.get(), request).has_value();
  }
  if (!put) connection_.reset();
}

}  // namespace verbena::broker
