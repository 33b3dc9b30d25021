// Registration as the other memory families (device memory, buffers, imports) use it.
#pragma once

#include "abi/objects.h"

namespace verbena::abi {

inline constexpr uint64_t kPage = 4096;

struct RegionSpec {
  uint64_t iova = 0;
  uint64_t length = 0;
  uint8_t* base = nullptr;
  uint32_t access = 0;
  memory::Backing backing = memory::Backing::kHost;
  Dm* dm = nullptr;
  void* mapping = nullptr;  // unmapped with the region
  size_t mapping_length = 0;
};

// The whole address space, registered on demand.
bool is_implicit(const void* address, size_t length);

// 0 or an errno with its sentence, which names `call`.
// EOPNOTSUPP unknown bits, EINVAL remote write or atomic without local write.
int check_access(const char* call, uint32_t access);
// EINVAL: no bytes, a range that wraps, an iova at another offset in its page.
int check_range(const char* call, const void* address, size_t length, uint64_t iova,
                uint32_t access);
// EINVAL: above max_mr_size. Of regions that are memory; the null region and the whole address
// space are none.
int check_mr_size(const char* call, ibv_pd* pd, const void* address, size_t length);
// Makes the pages present now, as pinning would. EFAULT: not mapped (for writing).
int pin(const char* call, void* address, size_t length, uint32_t access);

// A region of checked arguments; null and errno (ENOMEM) when limits are reached.
ibv_mr* register_region(const char* call, ibv_pd* pd, void* shown_address, const RegionSpec& spec);

}  // namespace verbena::abi
