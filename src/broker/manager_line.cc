// Answers and datagrams share the line; each begins with its own magic number. What the broker has
// no room for waits here, so that no caller does.
#include "broker/manager_line.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "broker/connect.h"
#include "broker/ports.h"

namespace verbena::broker {
namespace {

constexpr size_t kMaxWaiting = 4096;  // datagrams beyond are lost, and repeated by their senders
constexpr size_t kMaxUnsent = 4 * PortTable::kMaxPerSlot;
constexpr size_t kMaxExplanations = 64;  // not taken
constexpr int kRefusedMs = 500;          // after a broker that said no

bool same(const Service& a, const Service& b) {
  return a.space == b.space && a.port == b.port &&
         std::memcmp(a.address, b.address, sizeof(a.address)) == 0;
}

}  // namespace

Result<void> ManagerLine::open() {
  const int64_t deadline = now_ms() + kAnswerMs;
  Request hello;
  hello.type = RequestType::kManage;
  hello.token = token_;
  hello.slot = slot_;
  while (true) {
    Result<link::Fd> connected = connect_now(name_);
    Error error;
    if (connected) {
      const auto left = static_cast<int>(deadline - now_ms());
      Result<Answer> answer = broker::ask(connected->get(), hello, {}, std::max(left, 0));
      if (answer) {
        connection_ = std::move(*connected);
        return {};
      }
      error = answer.error();
      if (!is_lost_connection(error)) return tl::unexpected<Error>(error);
    } else {  // between two brokers, or one that is behind
      error = connected.error();
      if (error.code != ECONNREFUSED && error.code != EAGAIN) return tl::unexpected<Error>(error);
    }
    if (now_ms() >= deadline) return tl::unexpected<Error>(error);
    const timespec pause{0, kReconnectMs * 1'000'000L};
    ::nanosleep(&pause, nullptr);
  }
}

Service* ManagerLine::find(const Service& service) {
  const auto found = std::find_if(services_.begin(), services_.end(),
                                  [&](const Service& known) { return same(known, service); });
  return found == services_.end() ? nullptr : &*found;
}

void ManagerLine::explain(const std::string& text) {
  if (explanations_.size() < kMaxExplanations) explanations_.push_back(text);
}

// --- what the process asks

ManagerLine::Ticket ManagerLine::ask(const Service& service) {
  while (++next_ticket_ == 0 || asked_.contains(next_ticket_)) {
  }
  Asked& asked = asked_[next_ticket_];
  asked.service = service;
  if (given_up_)
    asked.answer = fail(ESTALE, "the broker of this host does not know this process any more");
  else if (connection_.valid())
    put(RequestType::kBindPort, service, next_ticket_);
  return next_ticket_;
}

std::optional<Result<uint16_t>> ManagerLine::answer(Ticket ticket) {
  const auto found = asked_.find(ticket);
  if (found == asked_.end() || !found->second.answer) return std::nullopt;
  std::optional<Result<uint16_t>> answer = std::move(found->second.answer);
  asked_.erase(found);
  return answer;
}

void ManagerLine::abandon(Ticket ticket) {
  const auto found = asked_.find(ticket);
  if (found == asked_.end()) return;
  if (found->second.answer || !connection_.valid())
    asked_.erase(found);
  else
    found->second.abandoned = true;
}

void ManagerLine::release(const Service& service) {
  Service* known = find(service);
  if (known == nullptr) return;
  services_.erase(services_.begin() + (known - services_.data()));
  if (connection_.valid()) put(RequestType::kReleasePort, service);
}

// --- what goes out

void ManagerLine::put(RequestType type, const Service& service, Ticket ticket) {
  if (unsent_.size() >= kMaxUnsent) return lose();  // the next connection is told how things are
  Unsent& unsent = unsent_.emplace_back();
  unsent.request.type = type;
  unsent.request.service = service;
  unsent.ticket = ticket;
  flush();
}

void ManagerLine::flush() {
  while (connection_.valid() && !unsent_.empty()) {
    Unsent& next = unsent_.front();
    const auto asked = asked_.find(next.ticket);
    if (Result<void> put = put_request(connection_.get(), next.request); !put) {
      if (put.error().code != ETIMEDOUT) lose();
      return;
    }
    if (next.request.type == RequestType::kManage) hello_ = next.request.sequence;
    if (asked != asked_.end()) asked->second.sequence = next.request.sequence;
    unsent_.pop_front();
  }
}

void ManagerLine::lose() {
  connection_.reset();
  unsent_.clear();
  hello_ = 0;
  std::erase_if(asked_, [](const auto& item) { return item.second.abandoned; });
}

// A port that another process took meanwhile is lost to us, as it would be after a reboot of the
// machine; only such refusals are answered.
void ManagerLine::tell_again() {
  const int64_t now = now_ms();
  if (given_up_ || now < next_try_ms_) return;
  next_try_ms_ = now + kReconnectMs;
  Result<link::Fd> connected = connect_now(name_);
  if (!connected) return;
  connection_ = std::move(*connected);
  Unsent& hello = unsent_.emplace_back();
  hello.request.type = RequestType::kManage;
  hello.request.token = token_;
  hello.request.slot = slot_;
  for (const Service& service : services_) {
    Unsent& known = unsent_.emplace_back();
    known.request.type = RequestType::kBindPort;
    known.request.service = service;
    known.request.service.flags |= kServiceAgain;
  }
  for (auto& [ticket, asked] : asked_) {
    if (asked.answer) continue;
    Unsent& question = unsent_.emplace_back();
    question.request.type = RequestType::kBindPort;
    question.request.service = asked.service;
    question.ticket = ticket;
  }
  flush();
}

// --- what comes in

// False: nothing more is there.
bool ManagerLine::hear() {
  alignas(8) uint8_t message[std::max(sizeof(Reply), sizeof(MadMessage))];
  const Received got = receive_message(connection_.get(), message, sizeof(message), MSG_DONTWAIT);
  if (got.error == EAGAIN) return false;
  if (got.error != 0 || got.length == 0) {
    lose();
    return false;
  }
  uint32_t magic;
  std::memcpy(&magic, message, sizeof(magic));
  if (got.length == sizeof(MadMessage) && magic == kMadMagic) {
    if (waiting_.size() < kMaxWaiting) std::memcpy(&waiting_.emplace_back(), message, got.length);
    return true;
  }
  Reply reply;
  std::memcpy(&reply, message, sizeof(reply));
  if (is_reply(reply, got.length))
    on_reply(reply);
  else
    lose();
  return connection_.valid();
}

void ManagerLine::on_reply(const Reply& reply) {
  if (reply.sequence == hello_ || reply.sequence == 0)  // 0: said before it hangs up
    return on_hello(check_reply(reply, RequestType::kManage));
  const Result<void> said = check_reply(reply, RequestType::kBindPort);
  for (const auto& [ticket, asked] : asked_)
    if (asked.sequence == reply.sequence && !asked.answer)
      return settle(ticket, said, static_cast<uint16_t>(reply.slot));
  if (!said) explain("a port of this process is lost: " + said.error().message);
}

void ManagerLine::on_hello(const Result<void>& said) {
  hello_ = 0;
  if (said) return;
  if (said.error().code == ESTALE) return give_up(said.error());
  explain("no connection manager's line to the broker: " + said.error().message);
  lose();
  next_try_ms_ = now_ms() + kRefusedMs;
}

void ManagerLine::settle(Ticket ticket, const Result<void>& said, uint16_t port) {
  Asked& asked = asked_.at(ticket);
  const bool abandoned = asked.abandoned;
  if (said) {
    asked.service.port = port;
    if ((asked.service.flags & kServiceListens) == 0)
      services_.push_back(asked.service);
    else if (Service* known = find(asked.service))
      known->flags |= kServiceListens;
    asked.answer = port;
  } else {
    asked.answer = tl::unexpected<Error>(said.error());
  }
  if (!abandoned) return;
  const Service service = asked.service;
  asked_.erase(ticket);
  if (said && (service.flags & kServiceListens) == 0) release(service);
}

void ManagerLine::give_up(const Error& error) {
  explain("this process is without a connection manager from now on: " + error.message);
  lose();
  given_up_ = true;
  for (auto& [ticket, asked] : asked_)
    if (!asked.answer) asked.answer = tl::unexpected<Error>(error);
}

size_t ManagerLine::receive(link::FunctionRef<void(const MadMessage&)> visit, size_t limit) {
  if (!connection_.valid()) tell_again();
  flush();
  const auto untaken = [this] {
    return std::any_of(asked_.begin(), asked_.end(),
                       [](const auto& item) { return item.second.answer.has_value(); });
  };
  while (connection_.valid() && waiting_.size() < limit && !untaken() && hear()) {
  }
  size_t shown = 0;
  for (; shown < limit && !waiting_.empty(); ++shown) {
    const MadMessage message = waiting_.front();
    waiting_.pop_front();
    visit(message);
  }
  return shown;
}

}  // namespace verbena::broker
