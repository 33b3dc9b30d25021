// The table of refusals, and what the machine says of each in the explain log.
#include "cm/reasons.h"

#include <set>

#include "rig.h"

namespace verbena::cm::test {
namespace {

// What the machine has said since the last call.
std::vector<std::string> said(Manager& manager) {
  std::vector<std::string> texts;
  texts.swap(manager.explanations());
  return texts;
}

using Lines = std::vector<std::string>;

TEST(Reasons, EveryNumberOfTheStandardOnce) {
  std::set<uint16_t> numbers;
  uint16_t last = 0;
  for (const Reason& reason : reject_reasons()) {
    EXPECT_GT(reason.number, last);
    last = reason.number;
    numbers.insert(reason.number);
  }
  std::set<uint16_t> wanted = {35};
  for (uint16_t number = 1; number <= 33; ++number) wanted.insert(number);
  EXPECT_EQ(numbers, wanted);
  ASSERT_EQ(sidr_statuses().size(), 5u);
  for (uint16_t i = 0; i < 5; ++i) EXPECT_EQ(sidr_statuses()[i].number, i + 1);
}

TEST(Reasons, TextsNameTheNumber) {
  EXPECT_EQ(reject_text(8), "REJ 8 (invalid service ID: nothing listens on that port)");
  EXPECT_EQ(reject_text(34), "REJ 34 (no reason that the standard knows)");
  EXPECT_EQ(reject_text(65535), "REJ 65535 (no reason that the standard knows)");
  EXPECT_EQ(sidr_text(2), "SIDR status 2 (rejected by the program)");
}

TEST(Reasons, BothSidesSayWhyNobodyListens) {
  Rig rig;
  rig.active = *rig.a->connect(rig.now, rig.request());
  rig.exchange();
  EXPECT_EQ(said(*rig.b), Lines{"rejected a request of 10.77.0.2 for port 7174: REJ 8 (invalid "
                                "service ID: nothing listens on that port)"});
  EXPECT_EQ(said(*rig.a), Lines{"port 7174 of 10.77.0.1 rejected the connection in state REQ_SENT: "
                                "REJ 8 (invalid service ID: nothing listens on that port)"});
}

TEST(Reasons, BothSidesSayWhyAProgramSaidNo) {
  Rig rig;
  rig.listen();
  rig.active = *rig.a->connect(rig.now, rig.request());
  rig.exchange();
  const Handle passive = Rig::next(*rig.b, EventType::kRequest).connection;
  EXPECT_TRUE(rig.b->reject(rig.now, passive, kRejConsumer, {}));
  rig.exchange();
  EXPECT_EQ(said(*rig.b), Lines{"rejected the connection with 10.77.0.2 at port 7174 here: REJ 28 "
                                "(consumer reject: the program said no)"});
  EXPECT_EQ(said(*rig.a), Lines{"port 7174 of 10.77.0.1 rejected the connection in state REQ_SENT: "
                                "REJ 28 (consumer reject: the program said no)"});
}

TEST(Reasons, SilenceIsCountedAndTimed) {
  Rig rig;
  rig.active = *rig.a->connect(rig.now, rig.request());
  while (rig.a->next_deadline() != kNever) {
    rig.now = rig.a->next_deadline();
    rig.a->on_time(rig.now);
    Rig::taken(*rig.a);  // into the void
  }
  EXPECT_EQ(Rig::next(*rig.a, EventType::kUnreachable).status, -ETIMEDOUT);
  EXPECT_EQ(said(*rig.a),
            Lines{"port 7174 of 10.77.0.1 does not answer: REQ sent 16 times in 68.7 s (state "
                  "REQ_SENT); is the host up, does UDP port 4791 pass in both directions, and does "
                  "its RDMA program run?"});
}

TEST(Reasons, AnEndThatThePeerMadeIsTold) {
  Rig rig;
  rig.to_established();
  said(*rig.a);
  said(*rig.b);
  EXPECT_TRUE(rig.a->disconnect(rig.now, rig.active));
  rig.exchange();
  const Lines lines = said(*rig.b);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("10.77.0.2 ended the connection of QP 0x020033 "), 0u) << lines[0];
  EXPECT_NE(lines[0].find("(DREQ): its program disconnected, destroyed the id, or ended or was "
                          "killed"),
            std::string::npos)
      << lines[0];
  EXPECT_EQ(said(*rig.a), Lines{}) << "who asks for the end needs no explanation";
}

}  // namespace
}  // namespace verbena::cm::test
