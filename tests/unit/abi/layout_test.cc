// Programs compiled against older headers: their struct sizes and the way their inline functions
// find operations, written down by hand (no verbs header here), must work with today's library.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
void** ibv_get_device_list(int* count);
void ibv_free_device_list(void** list);
void* ibv_open_device(void* device);
int ibv_close_device(void* context);
int ibv_query_port(void* context, uint8_t port, void* attr);
void* ibv_alloc_pd(void* context);
int ibv_dealloc_pd(void* pd);
void* ibv_create_cq(void* context, int entries, void* user, void* channel, int vector);
int ibv_destroy_cq(void* cq);
int ibv_destroy_qp(void* qp);
}

namespace {

constexpr size_t kContextBytes = 328;
constexpr uint8_t kUntouched = 0xa5;

// Bytes from the start of an operation to the end of struct verbs_context: the same in all
// releases.
constexpr size_t kCloseXrcd = kContextBytes + 24;
constexpr size_t kCreateQpEx = kContextBytes + 56;
constexpr size_t kQueryDeviceEx = kContextBytes + 104;
constexpr size_t kCreateCqEx = kContextBytes + 120;
constexpr size_t kQueryRtValues = kContextBytes + 128;
constexpr size_t kQueryPort = 648;

// sizeof(struct verbs_context) by release of rdma-core.
constexpr struct {
  int release;
  size_t bytes;
} kVerbsContext[] = {{14, 496}, {17, 536}, {20, 632}, {22, 648}, {60, 672}, {64, 696}};

// The rule of verbs_get_ctx_op(): extended ABI, the context is long enough, the pointer is set.
void* operation(void* context, size_t from_end) {
  auto* base = static_cast<uint8_t*>(context);
  void* abi_compat;
  std::memcpy(&abi_compat, base + 320, sizeof abi_compat);
  if (abi_compat != reinterpret_cast<void*>(UINTPTR_MAX)) return nullptr;
  size_t size;
  std::memcpy(&size, base - 8, sizeof size);
  if (size < from_end) return nullptr;
  void* pointer;
  std::memcpy(&pointer, base + kContextBytes - from_end, sizeof pointer);
  return pointer;
}

class OldProgram : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    void** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_GE(count, 1);
    context_ = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(ibv_close_device(context_), 0); }

  void* context_ = nullptr;
};

TEST_F(OldProgram, ContextIsTheNewest) {
  size_t size;
  std::memcpy(&size, static_cast<uint8_t*>(context_) - 8, sizeof size);
  EXPECT_EQ(size, 696u);
  for (auto [release, bytes] : kVerbsContext) EXPECT_LE(bytes, size) << "rdma-core " << release;
  EXPECT_NE(operation(context_, kCloseXrcd), nullptr);
  EXPECT_NE(operation(context_, kQueryPort), nullptr);
  for (size_t newest = 656; newest <= 696; newest += 8)
    EXPECT_EQ(operation(context_, newest), nullptr) << newest;
  int vectors;
  std::memcpy(&vectors, static_cast<uint8_t*>(context_) + 272, sizeof vectors);
  EXPECT_GE(vectors, 1);
}

TEST_F(OldProgram, ExportedQueryPortWrites48Bytes) {
  uint8_t attr[64];
  std::memset(attr, kUntouched, sizeof attr);
  ASSERT_EQ(ibv_query_port(context_, 1, attr), 0);
  EXPECT_EQ(attr[46], 2) << "link_layer: Ethernet";
  for (size_t i = 48; i < sizeof attr; ++i) EXPECT_EQ(attr[i], kUntouched) << i;
}

TEST_F(OldProgram, QueryPortHonoursItsLength) {
  auto query =
      reinterpret_cast<int (*)(void*, uint8_t, void*, size_t)>(operation(context_, kQueryPort));
  ASSERT_NE(query, nullptr);
  for (size_t bytes : {48, 52, 56, 64}) {
    uint8_t attr[80];
    std::memset(attr, kUntouched, sizeof attr);
    ASSERT_EQ(query(context_, 1, attr, bytes), 0);
    EXPECT_EQ(attr[46], 2);
    if (bytes > 56) {
      EXPECT_EQ(attr[60], 0) << "fields nobody knows yet are zero";
    }
    for (size_t i = bytes; i < sizeof attr; ++i) EXPECT_EQ(attr[i], kUntouched) << i;
  }
}

// struct ibv_device_attr_ex by release: 352 (14), 376 (19), 384 (22), 400 (25).
TEST_F(OldProgram, QueryDeviceExHonoursItsLength) {
  auto query = reinterpret_cast<int (*)(void*, const void*, void*, size_t)>(
      operation(context_, kQueryDeviceEx));
  ASSERT_NE(query, nullptr);
  for (size_t bytes : {232, 352, 376, 384, 400, 424}) {
    std::vector<uint8_t> attr(bytes + 16, kUntouched);
    ASSERT_EQ(query(context_, nullptr, attr.data(), bytes), 0);
    for (size_t i = bytes; i < attr.size(); ++i)
      EXPECT_EQ(attr[i], kUntouched) << bytes << " " << i;
    if (bytes < 352) continue;
    uint64_t clock;
    std::memcpy(&clock, attr.data() + 272, sizeof clock);
    EXPECT_EQ(clock, 1'000'000u) << "hca_core_clock in kHz";
  }
  std::vector<uint8_t> small(231);
  EXPECT_EQ(query(context_, nullptr, small.data(), small.size()), EINVAL);
}

// struct ibv_cq_init_attr_ex of rdma-core 14: 48 bytes, no parent domain.
struct OldCqInitAttrEx {
  uint32_t cqe;
  void* cq_context;
  void* channel;
  uint32_t comp_vector;
  uint64_t wc_flags;
  uint32_t comp_mask;
  uint32_t flags;
};
static_assert(sizeof(OldCqInitAttrEx) == 48);

TEST_F(OldProgram, CreatesAnExtendedQueueWithoutReadingBehindItsAttributes) {
  auto create =
      reinterpret_cast<void* (*)(void*, OldCqInitAttrEx*)>(operation(context_, kCreateCqEx));
  struct {
    OldCqInitAttrEx attr;
    void* behind;
  } given = {{.cqe = 4, .comp_mask = 1}, reinterpret_cast<void*>(0xbad)};
  void* cq = create(context_, &given.attr);
  ASSERT_NE(cq, nullptr);
  // start_poll stands at 144 in all releases of struct ibv_cq_ex; empty is ENOENT.
  int (*start_poll)(void*, void*);
  std::memcpy(&start_poll, static_cast<uint8_t*>(cq) + 144, sizeof start_poll);
  uint32_t attr = 0;
  EXPECT_EQ(start_poll(cq, &attr), ENOENT);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

// struct ibv_qp_init_attr_ex of rdma-core 14: 120 bytes, ends before source_qpn.
struct OldQpInitAttrEx {
  void* qp_context;
  void* send_cq;
  void* recv_cq;
  void* srq;
  uint32_t cap[5];
  uint32_t qp_type;
  int sq_sig_all;
  uint32_t comp_mask;
  void* pd;
  void* xrcd;
  uint32_t create_flags;
  uint16_t max_tso_header;
  void* rwq_ind_tbl;
  uint8_t rx_hash_conf[24];
};
static_assert(sizeof(OldQpInitAttrEx) == 120);

TEST_F(OldProgram, CreatesAQueuePairThroughTheOperation) {
  auto create =
      reinterpret_cast<void* (*)(void*, OldQpInitAttrEx*)>(operation(context_, kCreateQpEx));
  void* pd = ibv_alloc_pd(context_);
  void* cq = ibv_create_cq(context_, 4, nullptr, nullptr, 0);
  OldQpInitAttrEx attr{.send_cq = cq,
                       .recv_cq = cq,
                       .cap = {3, 2, 1, 1, 16},
                       .qp_type = 2,
                       .comp_mask = 1 | 4,
                       .pd = pd};
  void* qp = create(context_, &attr);
  ASSERT_NE(qp, nullptr);
  uint32_t state, type;
  std::memcpy(&state, static_cast<uint8_t*>(qp) + 56, sizeof state);
  std::memcpy(&type, static_cast<uint8_t*>(qp) + 60, sizeof type);
  EXPECT_EQ(state, 0u);
  EXPECT_EQ(type, 2u);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(OldProgram, RealTimeClockRuns) {
  struct {
    uint32_t comp_mask;
    int64_t seconds, nanoseconds;
  } values = {.comp_mask = 0xff};
  auto query = reinterpret_cast<int (*)(void*, void*)>(operation(context_, kQueryRtValues));
  EXPECT_EQ(query(context_, &values), EOPNOTSUPP) << "bits nobody knows are not ignored";
  values.comp_mask = 1;
  ASSERT_EQ(query(context_, &values), 0);
  EXPECT_EQ(values.comp_mask, 1u);
  EXPECT_GT(values.seconds * 1'000'000'000 + values.nanoseconds, 0);
}

// Vendor libraries read a pointer just behind struct ibv_device (664 bytes) to see whose it is.
TEST(OldDevice, HasZeroBytesBehindIt) {
  void** list = ibv_get_device_list(nullptr);
  ASSERT_NE(list[0], nullptr);
  auto* device = static_cast<uint8_t*>(list[0]);
  for (size_t i = 664; i < 664 + 64; ++i) EXPECT_EQ(device[i], 0) << i;
  EXPECT_STREQ(reinterpret_cast<char*>(device) + 24, "test0");
  ibv_free_device_list(list);
}

}  // namespace
