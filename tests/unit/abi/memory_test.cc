// Registration, windows and device memory: what must be refused, and with which errno.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "verbs_fixture.h"

namespace verbena::test {
namespace {

constexpr size_t kPage = 4096;

void* pages(size_t count, int protection = PROT_READ | PROT_WRITE) {
  return mmap(nullptr, count * kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

#define EXPECT_REFUSED(call, code) \
  do {                             \
    errno = 0;                     \
    EXPECT_EQ((call), nullptr);    \
    EXPECT_EQ(errno, code);        \
  } while (false)

TEST_F(Verbs, AccessRules) {
  char buffer[64];
  EXPECT_REFUSED(ibv_reg_mr(pd_, buffer, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_REFUSED(ibv_reg_mr(pd_, buffer, 64, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_REFUSED(ibv_reg_mr(pd_, buffer, 64, 1 << 15), EOPNOTSUPP);
  EXPECT_REFUSED(ibv_reg_mr(pd_, buffer, 0, 0), EINVAL);
  EXPECT_REFUSED(ibv_reg_mr(pd_, buffer, SIZE_MAX, 0), EINVAL);
  ibv_mr* mr = ibv_reg_mr(pd_, buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  ASSERT_NE(mr, nullptr) << "optional access bits are ignored, not refused";
  EXPECT_EQ(mr->lkey, mr->rkey);
  EXPECT_NE(mr->lkey, 0u);
  EXPECT_EQ(mr->addr, buffer);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Verbs, MemoryMustExist) {
  auto* memory = static_cast<char*>(pages(3));
  munmap(memory + kPage, kPage);
  EXPECT_REFUSED(ibv_reg_mr(pd_, memory, 3 * kPage, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  mprotect(memory, kPage, PROT_READ);
  EXPECT_REFUSED(ibv_reg_mr(pd_, memory, 64, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  ibv_mr* readable = ibv_reg_mr(pd_, memory, 64, IBV_ACCESS_REMOTE_READ);
  EXPECT_NE(readable, nullptr);
  EXPECT_EQ(ibv_dereg_mr(readable), 0);
  ibv_mr* on_demand =
      ibv_reg_mr(pd_, memory, 3 * kPage, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(on_demand, nullptr);
  ibv_sge sge{reinterpret_cast<uint64_t>(memory), 64, on_demand->lkey};
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
  sge.addr += kPage;
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, &sge, 1), 0);
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
  sge.lkey ^= 0x100;
  EXPECT_EQ(ibv_advise_mr(pd_, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
  EXPECT_EQ(ibv_dereg_mr(on_demand), 0);
  munmap(memory, kPage);
  munmap(memory + 2 * kPage, kPage);
}

TEST_F(Verbs, ImplicitRegion) {
  EXPECT_REFUSED(ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  ibv_mr* mr = ibv_reg_mr(pd_, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Verbs, IovaKeepsTheOffsetInItsPage) {
  void* memory = pages(1);
  uint64_t wrong = 0x10000010;
  EXPECT_REFUSED(ibv_reg_mr_iova2(pd_, memory, 64, wrong, 0), EINVAL);
  ibv_mr* mr = ibv_reg_mr_iova2(pd_, memory, 64, 0x10000000, 0);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, kPage);
}

TEST_F(Verbs, Reregistration) {
  auto* memory = static_cast<char*>(pages(2));
  ibv_mr* mr = ibv_reg_mr(pd_, memory, kPage, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  uint32_t key = mr->lkey;
  EXPECT_EQ(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, 8, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, 0, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(
      ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
      IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory + kPage, 100, 0), 0);
  EXPECT_EQ(mr->addr, memory + kPage);
  EXPECT_EQ(mr->length, 100u);
  EXPECT_EQ(mr->lkey, key);
  ibv_pd* other = ibv_alloc_pd(context_);
  EXPECT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other);
  EXPECT_EQ(ibv_dealloc_pd(other), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), 0) << "nothing is left in the first domain";
  pd_ = other;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  munmap(memory, 2 * kPage);
}

TEST_F(Verbs, DmaBufErrors) {
  EXPECT_REFUSED(ibv_reg_dmabuf_mr(pd_, 0, 64, 0, -1, 0), EBADF);
  EXPECT_REFUSED(ibv_reg_dmabuf_mr(pd_, 0, 64, 0, 999, 0), EBADF);
  int fd = memfd_create("not-a-dmabuf", MFD_CLOEXEC);
  EXPECT_REFUSED(ibv_reg_dmabuf_mr(pd_, 0, 64, 0, fd, 0), EINVAL);
  EXPECT_REFUSED(ibv_reg_dmabuf_mr(pd_, 16, 64, 0, fd, 0), EINVAL);
  close(fd);
}

TEST_F(Verbs, WindowTypes) {
  EXPECT_REFUSED(ibv_alloc_mw(pd_, static_cast<ibv_mw_type>(3)), EINVAL);
  for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
    ibv_mw* mw = ibv_alloc_mw(pd_, type);
    ASSERT_NE(mw, nullptr);
    EXPECT_EQ(mw->type, type);
    EXPECT_NE(mw->rkey, 0u);
    EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
    EXPECT_EQ(ibv_dealloc_mw(mw), 0);
  }
}

TEST_F(Verbs, DeviceMemory) {
  ibv_device_attr_ex limits;
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &limits), 0);
  ibv_alloc_dm_attr attr{.length = limits.max_dm_size + 1};
  EXPECT_REFUSED(ibv_alloc_dm(context_, &attr), EINVAL);
  attr = {.length = 100, .comp_mask = 1};
  EXPECT_REFUSED(ibv_alloc_dm(context_, &attr), EOPNOTSUPP);
  attr = {.length = 100};
  ibv_dm* dm = ibv_alloc_dm(context_, &attr);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 8, "abcdefgh", 8), 0);
  char back[8];
  EXPECT_EQ(ibv_memcpy_from_dm(back, dm, 8, 8), 0);
  EXPECT_EQ(memcmp(back, "abcdefgh", 8), 0);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 3, back, 4), EINVAL);
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 4, back, 3), EINVAL);
  EXPECT_NE(ibv_memcpy_to_dm(dm, 104, back, 4), 0);
  EXPECT_NE(ibv_memcpy_from_dm(back, dm, 96, 8), 0);
  EXPECT_REFUSED(ibv_reg_dm_mr(pd_, dm, 0, 104, IBV_ACCESS_ZERO_BASED), EINVAL);
  EXPECT_REFUSED(ibv_reg_dm_mr(pd_, dm, 0, 100, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  ibv_mr* mr = ibv_reg_dm_mr(pd_, dm, 0, 100, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  ibv_dm* imported = ibv_import_dm(context_, dm->handle);
  ASSERT_NE(imported, nullptr);
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  ibv_unimport_dm(imported);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

// The whole of max_dm_size can be had, and not a byte more, until it is given back.
TEST_F(Verbs, DeviceMemoryIsBounded) {
  ibv_device_attr_ex limits;
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &limits), 0);
  ibv_alloc_dm_attr all{.length = limits.max_dm_size}, word{.length = 4};
  ibv_dm* dm = ibv_alloc_dm(context_, &all);
  ASSERT_NE(dm, nullptr);
  EXPECT_REFUSED(ibv_alloc_dm(context_, &word), ENOMEM);
  EXPECT_EQ(ibv_free_dm(dm), 0);
  dm = ibv_alloc_dm(context_, &word);
  ASSERT_NE(dm, nullptr);
  EXPECT_EQ(ibv_free_dm(dm), 0);
}

}  // namespace
}  // namespace verbena::test
