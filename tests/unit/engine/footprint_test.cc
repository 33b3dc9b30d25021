// What an idle queue pair costs: thousands of them must fit, and a queue sized for the worst case
// costs only what it has used.
#include <malloc.h>
#include <sys/resource.h>

#include <fstream>
#include <new>

#include "rig.h"

namespace verbena::engine::test {
namespace {

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

RigOptions small() {
  return {.max_rd_atomic = 4,
          .max_dest_rd_atomic = 4,
          .work_requests = 16,
          .sges = 1,
          .inline_bytes = 0};
}

TEST(Footprint, AnIdleQueuePairOfSixteenRequestsIsBelowFourKib) {
  if (kSanitized) GTEST_SKIP() << "the allocator is not the program's";
  Rig rig(small());
  constexpr size_t kCount = 64;
  size_t before = mallinfo2().uordblks;
  for (size_t i = 0; i < kCount; ++i) rig.make(small());
  size_t each = (mallinfo2().uordblks - before) / kCount;
  RecordProperty("bytes", static_cast<int>(each));
  EXPECT_LT(each, 4096u);
}

TEST(Footprint, TenThousandIdleQueuePairsAreBelowAHundredMegabytes) {
  if (kSanitized) GTEST_SKIP() << "the allocator is not the program's";
  Rig rig(small());
  size_t before = resident_bytes();
  for (int i = 0; i < 10'000; ++i) rig.make(small());
  size_t used = resident_bytes() - before;
  RecordProperty("bytes", static_cast<int>(used));
  EXPECT_LT(used, 100u << 20);
}

TEST(Footprint, AResizeWithoutMemoryChangesNothing) {
  if (kSanitized) GTEST_SKIP() << "the allocator is not the program's";
  CompletionQueue cq(4);
  ReceiveQueue queue(4, 2);
  WorkCompletion completion;
  for (completion.wr_id = 1; completion.wr_id <= 2; ++completion.wr_id) cq.push(completion);
  Sge sges[2] = {{1, 10, 0}, {2, 20, 0}};
  queue.push(7, sges);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight{64 << 20, before.rlim_max};  // less than is mapped already: nothing more
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  EXPECT_THROW(cq.resize(1 << 22), std::bad_alloc);
  EXPECT_THROW(queue.resize(1 << 22), std::bad_alloc);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(cq.capacity(), 4u);
  EXPECT_EQ(queue.capacity(), 4u);
  EXPECT_TRUE(cq.push(completion));
  WorkCompletion got[4];
  ASSERT_EQ(cq.pop(got, 4), 3u);
  EXPECT_EQ(got[0].wr_id, 1u);
  EXPECT_EQ(got[2].wr_id, 3u);
  ReceiveWork work;
  work.sges = sges;
  ASSERT_TRUE(queue.pop(work));
  EXPECT_EQ(work.wr_id, 7u);
  EXPECT_EQ(work.length, 30u);
}

TEST(Footprint, HugeQueuesCostNothingUntilUsed) {
  if (kSanitized) GTEST_SKIP() << "the allocator is not the program's";
  size_t before = resident_bytes();
  CompletionQueue cq(1 << 20);
  SendQueue send({1 << 16, 16, 256});
  ReceiveQueue receive(1 << 16, 16);
  EXPECT_LT(resident_bytes() - before, 1u << 20);
}

}  // namespace
}  // namespace verbena::engine::test
