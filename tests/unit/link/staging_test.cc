// Staging between a sender's and a receiver's half on plain memory: what is taken from it are the
// offered bytes, and whatever the shared words say, nothing else is.
#include "link/staging.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "memory/fault_guard.h"

namespace verbena::link {
namespace {

constexpr size_t kChunk = kStagedChunkBytes;

struct Source {
  std::vector<uint8_t> bytes;
  std::vector<memory::Segment> segments;

  Source(size_t length, uint8_t seed, size_t pieces = 1) : bytes(length) {
    for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(seed + i % 251 + i / 4096);
    for (size_t i = 0, at = 0; i < pieces; ++i) {
      size_t n = i + 1 == pieces ? length - at : length / pieces;
      segments.push_back({bytes.data() + at, n});
      at += n;
    }
  }
  memory::Payload payload() const {
    memory::Payload out;
    out.segments = segments;
    out.length = static_cast<uint32_t>(bytes.size());
    return out;
  }
};

class StagingTest : public ::testing::Test {
 protected:
  // Chunk `number` as a receiver gets it, empty when it is not there.
  std::vector<uint8_t> fetch(uint64_t number, size_t offset, size_t length) {
    std::vector<uint8_t> to(length);
    if (!fetch_staged(*staging_, number, offset, to.data(), length)) return {};
    return to;
  }
  size_t stage_all() {
    size_t count = 0;
    while (count < 1000 && stager_.stage()) ++count;
    return count;
  }
  std::unique_ptr<Staging> staging_ = std::make_unique<Staging>();
  Stager stager_{*staging_};
};

TEST_F(StagingTest, ChunksHoldTheOfferedBytes) {
  for (size_t pieces : {1, 2, 4}) {
    Source source(5 * kChunk + 100, static_cast<uint8_t>(pieces), pieces);
    uint64_t first = stager_.offer(source.payload(), 1, 0);
    ASSERT_NE(first, 0u);
    EXPECT_TRUE(fetch(first, 0, 1).empty());  // offered is not staged
    ASSERT_EQ(stage_all(), 6u);
    for (size_t i = 0; i < 6; ++i) {
      size_t length = i < 5 ? kChunk : 100;
      std::vector<uint8_t> got = fetch(first + i, 0, length);
      ASSERT_EQ(got.size(), length);
      EXPECT_EQ(std::memcmp(got.data(), source.bytes.data() + i * kChunk, length), 0) << i;
      mark_fetched(*staging_, first + i);
    }
    std::vector<uint8_t> middle = fetch(first + 1, 1000, 50);
    EXPECT_EQ(std::memcmp(middle.data(), source.bytes.data() + kChunk + 1000, 50), 0);
    EXPECT_FALSE(stager_.stage());
  }
  EXPECT_EQ(stager_.staged_bytes(), 3 * (5 * kChunk + 100));
}

TEST_F(StagingTest, TakesOnlyWhatIsWorthIt) {
  Source small(Stager::kMinBytes - 1, 1), pieces(Stager::kMinBytes, 1, 5), enough(2 * kChunk, 1);
  EXPECT_EQ(stager_.offer(small.payload(), 1, 0), 0u);
  EXPECT_EQ(stager_.offer(pieces.payload(), 1, 0), 0u);
  for (size_t i = 0; i < Stager::kMaxOffers; ++i)
    ASSERT_EQ(stager_.offer(enough.payload(), 1, 0), 1 + 2 * i);
  EXPECT_EQ(stager_.offer(enough.payload(), 1, 0), 0u);
}

TEST_F(StagingTest, PlacesAreTakenAgainOnceFetched) {
  Source source(40 * kChunk, 3);
  uint64_t first = stager_.offer(source.payload(), 1, 0);
  EXPECT_EQ(stage_all(), kStagedChunks);
  mark_fetched(*staging_, first);
  EXPECT_EQ(stage_all(), 1u);
  EXPECT_TRUE(fetch(first, 0, kChunk).empty());  // its place holds another now
  std::vector<uint8_t> got = fetch(first + kStagedChunks, 0, kChunk);
  EXPECT_EQ(std::memcmp(got.data(), source.bytes.data() + kStagedChunks * kChunk, kChunk), 0);
}

TEST_F(StagingTest, APeerThatHasOvertakenIsMetAhead) {
  Source source(40 * kChunk, 3);
  uint64_t first = stager_.offer(source.payload(), 1, 0);
  for (uint64_t i = 0; i < 10; ++i) mark_fetched(*staging_, first + i);
  ASSERT_TRUE(stager_.stage());
  for (uint64_t i = 0; i < 14; ++i) EXPECT_TRUE(fetch(first + i, 0, 1).empty()) << i;
  EXPECT_FALSE(fetch(first + 14, 0, 1).empty());
}

TEST_F(StagingTest, NothingIsReadOnceForgotten) {
  Source request(4 * kChunk, 1), answer(4 * kChunk, 2), other(4 * kChunk, 3);
  uint64_t a = stager_.offer(request.payload(), 7, 0);
  uint64_t b = stager_.offer(answer.payload(), 7, 0x10000501);
  uint64_t c = stager_.offer(other.payload(), 8, 0);
  stager_.forget_queue_pair(7);
  EXPECT_EQ(stage_all(), 8u);
  EXPECT_TRUE(fetch(a, 0, 1).empty());
  EXPECT_FALSE(fetch(b, 0, 1).empty());  // of a region: stays good without its queue pair
  EXPECT_FALSE(fetch(c, 0, 1).empty());
  uint64_t d = stager_.offer(answer.payload(), 7, 0x10000501);
  stager_.forget_region(0x10000501);
  EXPECT_EQ(stage_all(), 0u);
  EXPECT_TRUE(fetch(d, 0, 1).empty());
}

TEST_F(StagingTest, APeerThatFetchesNothingDoesNotKeepThePlaces) {
  Source dead(kStagedChunks * kChunk, 1), live(2 * kChunk, 2);
  stager_.offer(dead.payload(), 1, 0);
  uint64_t first = stager_.offer(live.payload(), 2, 0);
  EXPECT_EQ(stage_all(), kStagedChunks);
  size_t looks = 0;
  while (looks < 5000 && fetch(first, 0, 1).empty()) {
    stager_.stage();
    ++looks;
  }
  EXPECT_GT(looks, 100u);
  EXPECT_LT(looks, 5000u);
}

TEST_F(StagingTest, PayloadThatTheProgramUnmappedIsLeftOut) {
  memory::install_fault_guard();
  const size_t length = 4 * kChunk;
  void* gone = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memory::Segment segment{static_cast<uint8_t*>(gone), length};
  memory::Payload payload;
  payload.segments = {&segment, 1};
  payload.length = length;
  uint64_t first = stager_.offer(payload, 1, 0);
  ::munmap(gone, length);
  EXPECT_LE(stage_all(), 1u);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(fetch(first + i, 0, 1).empty());
  EXPECT_FALSE(fetch_staged(*staging_, first, 0, static_cast<uint8_t*>(gone), 16));
}

TEST_F(StagingTest, AnyWordsInTheSharedMemoryAreSurvived) {
  Prng prng(5);
  Source source(8 * kChunk, 9);
  for (int round = 0; round < 3000; ++round) {
    uint64_t first = stager_.offer(source.payload(), 1, 0);
    for (int i = 0; i < 4; ++i) {
      Staging::Place& place = staging_->places[prng.below(kStagedChunks)];
      uint64_t word = prng.below(2) ? prng.next() : first + prng.below(40);
      (prng.below(2) ? place.holds : place.fetched).store(word);
    }
    for (int i = 0; i < 12; ++i) stager_.stage();
    uint64_t number = prng.below(2) ? prng.next() : first + prng.below(8);
    fetch(number, prng.below(1000), prng.below(kChunk - 1000));
    mark_fetched(*staging_, prng.below(2) ? first + 7 : prng.next());
  }
  SUCCEED();
}

// Both at full speed, in two processes as always (within one, this would be a data race): what a
// receiver is told to be there is never half of one chunk and half of another.
TEST_F(StagingTest, AReaderAtFullSpeedSeesWholeChunksOnly) {
  constexpr uint64_t kOffers = 300;
  struct Shared {
    Staging staging;
    std::atomic<uint64_t> offered;
  };
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *static_cast<Shared*>(memory);
  Source sources[2] = {Source(2 * kChunk, 0), Source(2 * kChunk, 100)};
  const pid_t sender = ::fork();
  if (sender == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Stager stager(shared.staging);
    for (uint64_t i = 0; i < kOffers; ++i) {
      stager.offer(sources[i % 2].payload(), 1, 0);
      shared.offered.store(i + 1, std::memory_order_release);
      stager.stage();
    }
    while (stager.stage() || shared.offered.load() == kOffers) {
    }
    ::_exit(0);
  }
  uint64_t wrong = 0, staged = 0;
  std::vector<uint8_t> to(kChunk);
  for (uint64_t i = 0; i < kOffers; ++i) {
    while (shared.offered.load(std::memory_order_acquire) <= i) std::this_thread::yield();
    for (uint64_t part = 0; part < 2; ++part) {
      uint64_t number = 1 + 2 * i + part;
      if (fetch_staged(shared.staging, number, 0, to.data(), kChunk)) {
        ++staged;
        wrong += std::memcmp(to.data(), sources[i % 2].bytes.data() + part * kChunk, kChunk) != 0;
      }
      mark_fetched(shared.staging, number);
      if (i % 16 == 0) ::usleep(50);
    }
  }
  shared.offered = 0;
  int status = -1;
  ASSERT_EQ(::waitpid(sender, &status, 0), sender);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(staged, 0u);
  ::munmap(memory, sizeof(Shared));
}

}  // namespace
}  // namespace verbena::link
