// The line of a connection manager when its reader is slow, or a second one takes its place.
#include "broker/manager_line.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <vector>

#include "broker/connect.h"
#include "broker_fixture.h"
#include "cm/mads.h"
#include "cm/management_packet.h"
#include "link/udp_link.h"

namespace verbena::broker {
namespace {

using LineToBroker = BrokerFixture;

size_t drive(ManagerLine& line) {
  return line.receive([](const MadMessage&) {});
}

Result<uint16_t> bind(ManagerLine& line, uint16_t port) {
  Service service;
  service.space = 0x0106;
  service.port = port;
  const ManagerLine::Ticket ticket = line.ask(service);
  std::optional<Result<uint16_t>> answer;
  lab::eventually([&] {
    drive(line);
    answer = line.answer(ticket);
    return answer.has_value();
  });
  if (!answer) return fail(ETIMEDOUT, "no answer");
  return *answer;
}

// Left open and mute, the first would never know.
TEST_F(LineToBroker, OneThatAnotherTookOverIsClosed) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  ManagerLine first((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
  ASSERT_TRUE(first.open());
  EXPECT_EQ(bind(first, 7001).value_or(0), 7001);
  {
    ManagerLine second((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
    ASSERT_TRUE(second.open());
    EXPECT_EQ(bind(second, 7001).value_or(0), 7001) << "it starts anew";
  }
  EXPECT_EQ(bind(first, 7002).value_or(0), 7002);
  EXPECT_EQ(bind(first, 7001).error().code, EADDRINUSE) << "told again";
}

// Asks until nothing more goes out, and reads only then: every answer is there, in order.
TEST_F(LineToBroker, ASlowReaderLosesNoAnswerAndNoPort) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  auto connection = connect_now(kDefaultName);
  ASSERT_TRUE(connection);
  Request request;
  request.type = RequestType::kManage;
  request.token = (*lease)->token();
  request.slot = (*lease)->slot();
  ASSERT_TRUE(ask(connection->get(), request, {}, 2000));
  std::deque<Request> asked;
  request = Request{};
  request.type = RequestType::kBindPort;
  request.service.space = 0x0106;
  for (int quiet = 0; quiet < 20;) {  // the broker stops reading too
    request.service.port = static_cast<uint16_t>(10'000 + asked.size());
    if (put_request(connection->get(), request)) {
      asked.push_back(request);
      quiet = 0;
    } else {
      usleep(5'000);
      ++quiet;
    }
  }
  EXPECT_GT(asked.size(), 200u);
  for (const Request& question : asked) {
    auto answer = hear_answer(connection->get(), question, 2000);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer->reply.slot, question.service.port);
  }
  request.type = RequestType::kReleasePort;  // has no answer: the next one is that of the bind
  request.service.port = 10'000;
  ASSERT_TRUE(put_request(connection->get(), request));
  request.type = RequestType::kBindPort;
  EXPECT_EQ(ask(connection->get(), request, {}, 2000)->reply.slot, 10'000u);
}

// A broker that has never heard of the process: no second question, and a sentence why.
TEST_F(LineToBroker, ABrokerThatDoesNotKnowUsIsAskedOnce) {
  auto keeper = attach(lab_options());
  auto lease = attach(lab_options());
  ASSERT_TRUE(keeper && lease);
  const link::HostPage& page = (*keeper)->host_page();
  ASSERT_TRUE(lab::eventually([&] { return page.standby_pid.load() > 0; }));
  ManagerLine line((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
  ASSERT_TRUE(line.open());
  lease->reset();
  ManagerLine stranger((*keeper)->broker_name(), (*keeper)->token() + 1, (*keeper)->slot());
  EXPECT_EQ(stranger.open().error().code, ESTALE);
  ASSERT_EQ(::kill(page.broker_pid.load(), SIGKILL), 0);
  EXPECT_EQ(bind(line, 7001).error().code, ESTALE);
  EXPECT_EQ(bind(line, 7001).error().code, ESTALE);
  ASSERT_EQ(line.explanations().size(), 1u);
  EXPECT_NE(line.explanations()[0].find("without a connection manager from now on"),
            std::string::npos);
  EXPECT_FALSE(line.busy());
  EXPECT_EQ(line.fd(), -1);
}

// What comes behind the answer is for a port that its process knows: nothing is shown before.
TEST_F(LineToBroker, NothingOvertakesAnAnswer) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  ManagerLine line((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
  ASSERT_TRUE(line.open());
  Service service;
  service.space = 0x0106;
  service.port = 7001;
  const ManagerLine::Ticket first = line.ask(service);
  service.port = 7002;
  const ManagerLine::Ticket second = line.ask(service);
  usleep(100'000);  // both answers are there
  drive(line);
  EXPECT_FALSE(line.answer(second).has_value());
  std::optional<Result<uint16_t>> answer = line.answer(first);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->value_or(0), 7001);
  drive(line);
  answer = line.answer(second);
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->value_or(0), 7002);
}

TEST_F(LineToBroker, AnAbandonedPortIsGivenBack) {
  auto lease = attach(lab_options());
  ASSERT_TRUE(lease);
  ManagerLine line((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
  ASSERT_TRUE(line.open());
  Service service;
  service.space = 0x0106;
  service.port = 7001;
  line.abandon(line.ask(service));
  EXPECT_EQ(bind(line, 7002).value_or(0), 7002);  // the answer before has come by then
  EXPECT_EQ(bind(line, 7001).value_or(0), 7001);
}

// Sends DREQs to comm ids of a slot, and knows when the broker has passed them on.
class Callers {
 public:
  explicit Callers(Lease& lease)
      : own_(lease.slot()), line_(lease.broker_name(), lease.token(), lease.slot()) {
    EXPECT_TRUE(line_.open());
    link::UdpOptions options;
    options.udp4 = lease.udp4();
    options.slot = lease.slot();
    udp_ = std::move(*link::UdpLink::open(options));
  }
  void call(uint8_t slot, uint64_t transaction) {
    send(cm::make_dreq(transaction, comm_id(own_), comm_id(slot), 5));
  }
  // The broker itself answers for nobody, and takes its datagrams in order.
  bool settle() {
    send(cm::make_dreq(1, comm_id(own_), comm_id(link::kLastSlot), 5));
    udp_->flush();
    size_t heard = 0;
    return lab::eventually([&] { return (heard += drive(line_)) > 0; });
  }

 private:
  static uint32_t comm_id(uint8_t slot) { return uint32_t{slot} << 24 | 7; }
  void send(const cm::Mad& mad) {
    static constexpr uint8_t kLoopback[4] = {127, 0, 0, 1};
    const engine::Gid gid = engine::Gid::from_ipv4(kLoopback);
    cm::send_mad(*udp_, {gid, gid, 0, 64, 0}, mad, psn_);
  }
  uint8_t own_;
  ManagerLine line_;
  std::unique_ptr<link::UdpLink> udp_;
  Psn psn_;
};

// A process that is busy elsewhere while thousands of peers call it hears them all, in order.
TEST_F(LineToBroker, DatagramsWaitForASlowReader) {
  auto lease = attach(lab_options());
  auto other = attach(lab_options());
  ASSERT_TRUE(lease && other);
  ManagerLine slow((*lease)->broker_name(), (*lease)->token(), (*lease)->slot());
  ASSERT_TRUE(slow.open());
  Callers callers(**other);
  constexpr uint64_t kCalls = 5000, kBound = 4096;
  for (uint64_t i = 0; i < kCalls; ++i) {
    callers.call((*lease)->slot(), i);
    if (i % 50 == 49) {
      ASSERT_TRUE(callers.settle());
    }
  }
  std::vector<uint64_t> heard;
  ASSERT_TRUE(lab::eventually([&] {
    slow.receive([&](const MadMessage& message) {
      heard.push_back(wire::load<wire::MadHeader>(message.mad).transaction_id);
    });
    return heard.size() >= kBound;
  }));
  for (uint64_t i = 0; i < heard.size(); ++i) ASSERT_EQ(heard[i], i);
  EXPECT_EQ(bind(slow, 7001).value_or(0), 7001);  // and it is asked and answered as ever
}

}  // namespace
}  // namespace verbena::broker
