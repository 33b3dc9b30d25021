// Rings and code tables by properties: whatever the order of operations, a queue behaves like the
// list it stands for.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <vector>

#include "engine/completion_queue.h"
#include "engine/work_queue.h"

namespace verbena::engine {
namespace {

RC_GTEST_PROP(Queue, ReceiveQueueIsAList, ()) {
  auto capacity = *rc::gen::inRange<uint32_t>(1, 20);
  ReceiveQueue queue(capacity, 3);
  std::deque<std::pair<uint64_t, std::vector<Sge>>> model;
  uint64_t next = 0;
  for (uint8_t step : *rc::gen::container<std::vector<uint8_t>>(rc::gen::arbitrary<uint8_t>())) {
    if (step < 120 && !queue.full()) {
      std::vector<Sge> sges(step % 4);
      uint32_t n = 0;
      for (Sge& sge : sges) sge = {next * 100 + n, n + step, n++};
      queue.push(next, sges);
      model.emplace_back(next++, sges);
    } else if (step < 230) {
      Sge sges[3];
      ReceiveWork work;
      work.sges = sges;
      bool got = queue.pop(work);
      RC_ASSERT(got == !model.empty());
      if (!got) continue;
      RC_ASSERT(work.wr_id == model.front().first);
      RC_ASSERT(work.sge_count == model.front().second.size());
      uint32_t length = 0;
      for (uint32_t i = 0; i < work.sge_count; ++i) {
        RC_ASSERT(sges[i].address == model.front().second[i].address);
        length += sges[i].length;
      }
      RC_ASSERT(work.length == length);
      model.pop_front();
    } else {
      uint32_t wanted = step - 229u;
      RC_ASSERT(queue.resize(wanted) == (model.size() <= wanted));
    }
    RC_ASSERT(queue.size() == model.size());
    RC_ASSERT(queue.full() == (model.size() >= queue.capacity()));
  }
}

RC_GTEST_PROP(Queue, SendQueueIsAList, ()) {
  auto capacity = *rc::gen::inRange<uint32_t>(1, 20);
  SendQueue queue({capacity, 2, 16});
  std::deque<uint64_t> model;
  uint64_t next = 0;
  for (uint8_t step : *rc::gen::container<std::vector<uint8_t>>(rc::gen::arbitrary<uint8_t>())) {
    if (step < 140 && !queue.full()) {
      uint8_t bytes[8] = {static_cast<uint8_t>(next)};
      Sge sge{reinterpret_cast<uint64_t>(bytes), 8, 0};
      SendRequest request;
      request.wr_id = next;
      request.sges = {&sge, 1};
      request.flags = step & 1 ? uint32_t{kInline} : 0u;
      SendWork& work = queue.push(request);
      RC_ASSERT(work.length == 8u);
      RC_ASSERT(work.is_inline == ((step & 1) != 0));
      model.push_back(next++);
    } else if (!queue.empty()) {
      const SendWork& work = queue.at(queue.head());
      RC_ASSERT(work.wr_id == model.front());
      if (work.is_inline)
        RC_ASSERT(queue.inline_bytes(work)[0] == static_cast<uint8_t>(model.front()));
      else
        RC_ASSERT(queue.sges(work).size() == 1u);
      queue.pop();
      model.pop_front();
    }
    RC_ASSERT(queue.empty() == model.empty());
    RC_ASSERT(queue.full() == (model.size() >= capacity));
    RC_ASSERT(queue.tail() - queue.head() == model.size());
  }
}

RC_GTEST_PROP(Queue, CompletionQueueIsAListUntilItOverruns, ()) {
  auto capacity = *rc::gen::inRange<uint32_t>(1, 20);
  CompletionQueue queue(capacity);
  std::deque<uint64_t> model;
  WorkCompletion c;
  for (uint8_t step : *rc::gen::container<std::vector<uint8_t>>(rc::gen::arbitrary<uint8_t>())) {
    if (step < 130) {
      ++c.wr_id;
      bool room = model.size() < queue.capacity();
      RC_ASSERT(queue.push(c) == room);
      if (!room) break;
      model.push_back(c.wr_id);
    } else if (step < 240) {
      RC_ASSERT((queue.front() != nullptr) == !model.empty());
      if (model.empty()) continue;
      RC_ASSERT(queue.front()->wr_id == model.front());
      queue.pop();
      model.pop_front();
    } else {
      RC_ASSERT(queue.resize(step - 239u) == (model.size() <= step - 239u));
    }
    RC_ASSERT(queue.size() == model.size());
  }
}

RC_GTEST_PROP(Queue, CreditCodesAreTheLargestNotAbove, (uint32_t credits)) {
  uint8_t code = code_of_credits(credits);
  RC_ASSERT(code <= 30);
  RC_ASSERT(credits_of_code(code) <= credits);
  if (code < 30) RC_ASSERT(credits_of_code(static_cast<uint8_t>(code + 1)) > credits);
}

TEST(Queue, CreditTable) {
  const uint32_t kCredits[] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                               48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                               2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
  for (uint8_t code = 0; code < 31; ++code) {
    EXPECT_EQ(credits_of_code(code), kCredits[code]);
    EXPECT_EQ(code_of_credits(kCredits[code]), code);
  }
  EXPECT_EQ(code_of_credits(UINT32_MAX), 30);
}

TEST(Queue, LengthsAreCappedNotWrapped) {
  ReceiveQueue receive(2, 2);
  const Sge huge[] = {{0, UINT32_MAX, 0}, {0, 2, 0}};
  receive.push(1, huge);
  Sge sges[2];
  ReceiveWork work;
  work.sges = sges;
  ASSERT_TRUE(receive.pop(work));
  EXPECT_EQ(work.length, UINT32_MAX);
  SendQueue send({2, 2, 0});
  SendRequest request;
  request.sges = huge;
  EXPECT_EQ(send.push(request).length, UINT32_MAX);
}

}  // namespace
}  // namespace verbena::engine
